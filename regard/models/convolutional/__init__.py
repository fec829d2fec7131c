"""Convolutional encoder and decoder."""

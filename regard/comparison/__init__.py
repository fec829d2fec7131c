"""Comparison of several recipes under one training budget."""

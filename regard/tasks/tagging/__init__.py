"""Tagging: predict a class for each token."""

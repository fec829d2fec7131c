"""Tagging: a class of each token."""

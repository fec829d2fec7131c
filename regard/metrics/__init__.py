"""Scores of outputs against references, and whether two systems differ by more than chance."""

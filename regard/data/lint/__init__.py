"""Lint of parallel text before training."""

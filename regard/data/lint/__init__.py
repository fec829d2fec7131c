"""Findings in parallel text before training."""

"""Metrics of outputs against references, and the significance of differences between systems."""

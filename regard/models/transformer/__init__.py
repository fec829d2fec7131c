"""Transformer: layers, feed-forward, norms and mixers."""

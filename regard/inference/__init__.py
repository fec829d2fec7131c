"""Inference with trained models: decoding engines, search and results."""

"""Tokenizers: text to piece numbers and back."""

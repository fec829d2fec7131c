"""Masked modeling: predict tokens of a text from the tokens on both sides."""

"""Masked modeling: tokens in the middle of a text, predicted from both sides of them."""

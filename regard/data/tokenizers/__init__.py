"""Text to token numbers and back."""

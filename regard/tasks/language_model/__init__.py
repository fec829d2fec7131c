"""Language models: the next token of a text, given those before it."""

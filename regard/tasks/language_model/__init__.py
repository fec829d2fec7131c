"""Language models: predict the next token of a text."""

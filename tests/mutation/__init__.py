"""Small changes to the core's code, drawn at random, each of which some test should notice: ``scripts/mutation``."""

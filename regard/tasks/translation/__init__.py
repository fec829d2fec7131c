"""Translation: generate a sequence from another sequence."""

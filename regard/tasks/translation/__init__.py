"""Translation: a sequence in, another sequence out."""

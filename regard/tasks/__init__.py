"""Kinds of work: what their data, models, losses, measures and outputs are."""

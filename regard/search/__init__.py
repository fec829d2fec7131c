"""Greedy search, sampling and beam search over one function, ``step``, for a batch of sentences."""

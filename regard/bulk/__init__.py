"""Bulk work: lines of many files through a model, in blocks, by processes that may die at any time."""

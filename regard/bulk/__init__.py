"""Bulk work: lines of many files are processed in blocks, by processes that may die at any time."""

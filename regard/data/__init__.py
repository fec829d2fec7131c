"""Data pipeline: tokenizers, corpora, the order of training, and a lint for parallel text.

Import modules by name (``regard.data.tokenizers.catalog`` …): importing one does not load the others.
"""

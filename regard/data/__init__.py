"""Text in, batches out: tokenizers, corpora, the order of training, and a lint for parallel text.

Import the parts by name (``regard.data.tokenizers.catalog`` …): a user of one does not pay for the others.
"""

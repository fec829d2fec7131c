"""Text in, batches out: tokenizers, corpora, the order of training, and a lint for parallel text.

The parts are imported by name (``regard.data.text`` …), so that a user of one does not pay for the others.
"""

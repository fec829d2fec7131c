"""Fast decoding: the outputs of a model's own ``session`` and ``step``, from weights laid out for speed."""

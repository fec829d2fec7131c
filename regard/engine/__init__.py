"""Fast decoding: the same outputs as the model's own ``session`` and ``step``, from weights laid out for speed."""

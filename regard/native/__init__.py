"""Kernels in C: products, norms, attention and search over packed matrices, called once a step."""

"""Kernels in C: products, norms, attention and search over packed matrices, called once per step."""

"""Detection of bfloat16 multiplication in hardware."""

from __future__ import annotations

import platform

import torch


def bfloat16_in_hardware() -> bool:
    """Return whether the CPU multiplies bfloat16 in hardware; otherwise torch widens it, slower than float32."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    # oneDNN also reports bfloat16 as supported if AVX-512 can only emulate it.
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()

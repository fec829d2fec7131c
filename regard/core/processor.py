"""The processor: the cores that this process may use, and bfloat16 multiplication in hardware. Imports no torch."""

from __future__ import annotations

import os
import platform


def usable_cores() -> int:
    """Return the number of cores that this process may use; all cores if the system does not report it (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bfloat16_in_hardware() -> bool:
    """Return whether the CPU multiplies bfloat16 in hardware; otherwise torch widens it, slower than float32."""
    import torch

    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    # oneDNN also reports bfloat16 as supported if AVX-512 can only emulate it.
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()

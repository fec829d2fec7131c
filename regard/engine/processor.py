"""Tests of the processor's matrix products in 8 bits and in bfloat16: are they exact, and are they fast?"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.engine.packed import Int8Linear, PackedMatrix

__all__ = ["bfloat16_in_hardware", "int8_obstacle"]

ROWS = (1, 16, 64)  # numbers of rows for which oneDNN takes different kernels
INPUTS, OUTPUTS = 96, 48
TOO_SLOW = 50  # times as long as in float32; oneDNN's reference kernels take a thousand times as long, others up to ten
TIMED = 16, 256, 256  # rows and features of the products whose times are compared
TRIALS = 3

Product = Callable[[Tensor], Tensor]  # x to x Wᵀ


@cache
def int8_obstacle() -> str | None:
    """The reason why 8-bit products are of no use on this processor; None where they are exact and fast.

    Computed from trial products: the processor's instructions say little about the kernel that oneDNN takes.
    """
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN, which multiplies 8-bit numbers"
    return judge(lambda weight: Int8Linear(PackedMatrix(weight)), _cpu_seconds)


def judge(pack: Callable[[Tensor], Product], seconds: Callable[[Callable[[], object]], float]) -> str | None:
    """The reason why products by matrices packed so are of no use, or None; ``seconds``: processor time of a call."""
    if not all(_exact(pack, rows) for rows in ROWS):
        return "sums of 8-bit products overflow on it, as without the instructions called VNNI"
    x, weight = torch.ones(TIMED[:2]), torch.ones(TIMED[1:])
    product = pack(weight)
    if seconds(lambda: product(x)) > TOO_SLOW * seconds(lambda: linear(x, weight)):
        return "torch has no quick kernel for 8-bit products on it"
    return None


def _exact(pack: Callable[[Tensor], Product], rows: int) -> bool:
    """True where products of whole numbers are exact: extremes of either sign, alternating, and drawn ones."""
    draw = torch.Generator().manual_seed(rows)
    x, weight = (_extremes(count, draw) for count in (rows, OUTPUTS))
    return torch.equal(pack(weight)(x), (x.double() @ weight.double().T).float())


def _extremes(rows: int, draw: torch.Generator) -> Tensor:
    most = torch.full((rows, INPUTS), 127.0)
    most[1::4] *= -1
    most[2::4, ::2] *= -1
    most[3::4, 1:] = torch.randint(-127, 128, most[3::4, 1:].shape, generator=draw).float()
    return most


def _cpu_seconds(call: Callable[[], object]) -> float:
    """Processor seconds of this thread for one call, the least of a few trials."""
    times = []
    for _ in range(TRIALS + 1):  # the first prepares the kernel
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return min(times[1:])


def bfloat16_in_hardware() -> bool:
    """True where the CPU multiplies bfloat16 in hardware; elsewhere torch widens it, slower than float32."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    # oneDNN reports bfloat16 as supported wherever AVX-512 can emulate it.
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()

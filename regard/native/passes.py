"""Passes over memory in training, forward and backward, with the kernels: rotation, root mean square, dropout.

Dropout, and rotation in float32, are bit-identical to torch's operations; the others differ by rounding. ``covers``
returns whether they support a tensor; torch's operations compute all others.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Literal

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.native.library import Pass, ShortAttention, library

Activation = Literal["none", "relu", "relu2"]
FORMATS = {torch.float32: 0, torch.bfloat16: 2}
KINDS = {
    "rotate": 0, "root": 1, "root-back": 2, "drop": 3, "drop-back": 4, "attend": 5, "attend-back": 6, "join": 7,
    "join-back": 8, "loss": 9, "add": 10, "choose": 11,
}  # fmt: skip
ACTIVATIONS: dict[str, int] = {"none": 0, "relu": 1, "relu2": 2}
LANES, CHUNK_ROWS = 16, 64  # numbers per register; rows per partial sum of a gradient of gains
MAX_SINGLE_THREAD = 2**16  # up to this number of numbers, one thread is as fast as several


def covers(x: Tensor) -> bool:
    """Return whether the passes support this tensor: training on a CPU, float32 or bfloat16, kernels built."""
    return (
        x.is_cpu
        and x.requires_grad
        and x.dtype in FORMATS
        and x.numel() % LANES == 0
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and type(x) is Tensor
        and available()
    )


def rotate(
    x: Float[Tensor, "batch heads place width"],
    cosine: Float[Tensor, "#batch place half"],
    sine: Float[Tensor, "#batch place half"],
    *,
    halves: bool,
) -> Float[Tensor, "batch heads place width"] | None:
    """Rotate each pair of features by its angle; return None if the width is not a multiple of 32.

    ``halves``: pairs are features i and i + width / 2, else 2i and 2i + 1.
    """
    if x.shape[-1] % (2 * LANES):
        return None
    rotated: Tensor = _Rotate.apply(x, cosine.contiguous(), sine.contiguous(), halves)
    return rotated


def root_mean_square(
    x: Float[Tensor, "batch *heads place width"], gain: Float[Tensor, "width"], epsilon: float
) -> Float[Tensor, "batch *heads place width"] | None:
    """Return x / √(mean of x² + ε) · g over the last dimension; None if its width is not a multiple of 16."""
    if x.shape[-1] % LANES or x.dim() not in (3, 4):
        return None
    normed: Tensor = _RootMeanSquare.apply(x if x.dim() == 4 else x[:, None], gain, epsilon)
    return normed if x.dim() == 4 else normed[:, 0]


def drop(
    x: Float[Tensor, "*rows width"],
    draws: UInt8[Tensor, "*rows width"] | None,
    threshold: int,
    *,
    activation: Activation = "none",
    bias: Float[Tensor, "width"] | None = None,
) -> Float[Tensor, "*rows width"]:
    """Return act(x) · 256 / (256 - threshold) for each byte of ``draws`` at or above the threshold, else 0.

    Without draws: act(x).
    ``bias``: already contained in x, but not in its graph. Its gradient, the sum of x's over all rows, is computed
    here.
    """
    dropped: Tensor = _Drop.apply(x, draws, threshold, activation, bias)
    return dropped


@torch.no_grad()
def add_to(total: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"]) -> None:
    """Compute ``total += x``; for float32 and bfloat16 in one pass, where torch first copies x to float32."""
    supported = total.is_cpu and (total.dtype, x.dtype) == (torch.float32, torch.bfloat16) and total.is_contiguous()
    if not (
        supported and x.is_contiguous() and x.numel() % LANES == 0 and type(total) is type(x) is Tensor and available()
    ):
        total.add_(x)
        return
    call = Pass(kind=KINDS["add"], format=FORMATS[x.dtype], rows=x.numel(), x=x.data_ptr(), y=total.data_ptr())
    run(call, x.numel())


class _Rotate(torch.autograd.Function):
    """y = R x, ∂x = Rᵀ ∂y: the same pass with negated sines."""

    @staticmethod
    def forward(context: Any, x: Tensor, cosine: Tensor, sine: Tensor, halves: bool) -> Tensor:
        context.save_for_backward(cosine, sine)
        context.halves = halves
        return _run_rotation(with_rows(x), cosine, sine, halves, 1, torch.empty(x.shape, dtype=x.dtype))

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        cosine, sine = context.saved_tensors
        return (
            _run_rotation(
                with_rows(upstream), cosine, sine, context.halves, -1, by_position(upstream.shape, upstream.dtype)
            ),
            None,
            None,
            None,
        )


def _run_rotation(x: Tensor, cosine: Tensor, sine: Tensor, halves: bool, direction: int, y: Tensor) -> Tensor:
    call = _pass("rotate", x, y)
    call.first, call.second, call.halves, call.scale = cosine.data_ptr(), sine.data_ptr(), halves, direction
    call.table_batch = 0 if len(cosine) == 1 else cosine[0].numel()
    run(call, x.numel())
    return y


class _RootMeanSquare(torch.autograd.Function):
    """With r = 1 / √(mean of x² + ε): ∂x = r (g ∘ ∂y − x r² mean(g ∘ ∂y ∘ x)), ∂g = Σ ∂y ∘ x r."""

    @staticmethod
    def forward(context: Any, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        x, context.type, gain = with_rows(x), gain.dtype, gain.float()
        y, roots = torch.empty(x.shape, dtype=x.dtype), torch.empty(x.numel() // x.shape[-1])
        call = _pass("root", x, y)
        call.first, call.kept, call.scale = gain.data_ptr(), roots.data_ptr(), epsilon
        run(call, x.numel())
        context.save_for_backward(x, gain, roots)
        return y

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, roots = context.saved_tensors
        upstream, y = with_rows(upstream), by_position(x.shape, x.dtype)
        parts = torch.zeros(-(-len(roots) // CHUNK_ROWS), len(gain))
        call = _pass("root-back", x, y, upstream)
        call.first, call.kept, call.part = gain.data_ptr(), roots.data_ptr(), parts.data_ptr()
        run(call, x.numel())
        return y, parts.sum(0).to(context.type), None


class _Drop(torch.autograd.Function):
    """y = m ∘ act(x), ∂x = act'(x) ∘ m ∘ ∂y, with m of 0 and 1 / P(keep), and for x = z + b: ∂b = Σ ∂x.

    For act = max(0, x), y is sufficient: ∂x = ∂y / P(keep) where y > 0. The next operation stores y in any case, so
    neither x nor the draws are stored.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, draws: Tensor | None, threshold: int, activation: Activation, bias: Tensor | None
    ) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        call = _flat("drop", x, y, draws, threshold, activation)
        run(call, x.numel())
        saved = {"none": (None, draws), "relu": (y, None), "relu2": (x, draws)}
        context.save_for_backward(*saved[activation])
        context.threshold, context.activation, context.bias = threshold, activation, bias is not None and bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, Tensor | None]:
        x, draws = context.saved_tensors
        upstream = upstream.contiguous()
        y = torch.empty_like(upstream)
        call = _flat("drop-back", x, y, draws, context.threshold, context.activation, upstream)
        if not context.bias:
            run(call, upstream.numel())
            return y, None, None, None, None
        width = upstream.shape[-1]
        parts = torch.zeros(-(-upstream.numel() // (CHUNK_ROWS * width)), width)
        call.width, call.part = width, parts.data_ptr()
        run(call, upstream.numel())
        return y, None, None, None, parts.sum(0).to(context.bias)


def with_rows(x: Float[Tensor, "batch heads place width"]) -> Float[Tensor, "batch heads place width"]:
    """Return ``x`` if the features of a row are contiguous, else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def by_position(
    shape: torch.Size | tuple[int, int, int, int], type: torch.dtype
) -> Float[Tensor, "batch heads place width"]:
    """Return an empty tensor in which the heads of a position are contiguous, as projections read them."""
    batch, heads, length, width = shape
    return torch.empty(batch, length, heads, width, dtype=type).transpose(1, 2)


def _pass(kind: str, x: Tensor, y: Tensor, upstream: Tensor | None = None) -> Pass:
    """Return a pass over rows."""
    call = Pass(kind=KINDS[kind], format=FORMATS[x.dtype], rows=x.numel() // x.shape[-1], width=x.shape[-1])
    call.heads, call.places, call.x, call.y = x.shape[1], x.shape[2], x.data_ptr(), y.data_ptr()
    call.x_step[:], call.y_step[:] = x.stride()[:3], y.stride()[:3]
    if upstream is not None:
        call.g, call.g_step[:] = upstream.data_ptr(), upstream.stride()[:3]
    return call


def _flat(
    kind: str,
    x: Tensor | None,
    y: Tensor,
    draws: Tensor | None,
    threshold: int,
    activation: Activation,
    upstream: Tensor | None = None,
) -> Pass:
    """Return a pass over contiguous numbers."""
    call = Pass(kind=KINDS[kind], format=FORMATS[y.dtype], rows=y.numel(), y=y.data_ptr(), threshold=threshold)
    call.activation, call.scale = ACTIVATIONS[activation], keep_scale(threshold, y.dtype)
    for name, tensor in (("x", x), ("g", upstream), ("draw", draws)):
        if tensor is not None:
            setattr(call, name, tensor.data_ptr())
    return call


def row_pass(kind: str, type: torch.dtype, rows: int, width: int, **addresses: Tensor | None) -> Pass:
    """Return a pass over contiguous rows; each tensor becomes the pointer field of its name."""
    call = Pass(kind=KINDS[kind], format=FORMATS[type], rows=rows, width=width)
    call.tensors = tuple(addresses.values())
    for name, tensor in addresses.items():
        if tensor is not None:
            setattr(call, name, tensor.data_ptr())
    return call


@cache
def keep_scale(threshold: int, type: torch.dtype) -> float:
    """Return 1 / P(keep), as a number of this type."""
    return float(torch.tensor(256 / (256 - threshold), dtype=type))


@cache
def _team() -> int | None:
    """Return the address of ``GOMP_parallel`` in torch's OpenMP library; None if torch uses another library."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None


def available() -> bool:
    """Return whether the kernels are available with as many threads as torch."""
    return library() is not None and (torch.get_num_threads() == 1 or _team() is not None)


def run_heads(kind: Literal["attend", "attend-back"], call: ShortAttention, type: torch.dtype) -> None:
    """Run attention, or its gradient, head by head; allocates each thread's scratch."""
    heads, pairs = call.batch * call.heads, call.batch * call.heads * call.queries * call.keys
    scratch = torch.empty(torch.get_num_threads(), call.room)
    call.scratch = scratch.data_ptr()
    whole = Pass(kind=KINDS[kind], format=FORMATS[type], rows=heads, attention=ctypes.addressof(call))
    run(whole, pairs * call.width)


def run(call: Pass, numbers: int) -> None:
    """Run a pass over this number of numbers, with torch's number of threads if that is faster than one."""
    kernels = library()
    assert kernels is not None
    kernels.run_pass(call, 1 if numbers <= MAX_SINGLE_THREAD else torch.get_num_threads(), _team())

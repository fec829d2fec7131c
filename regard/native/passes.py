"""Passes over memory in training, forward and backward, by the kernels: rotation, root mean square, dropout.

Dropout, and rotation in float32, give the bits of torch's own operations; the rest differs by rounding.
``covers`` tells of a tensor whether they take it; torch's operations compute all others.
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
    "turn": 0, "root": 1, "root-back": 2, "drop": 3, "drop-back": 4, "attend": 5, "attend-back": 6, "join": 7,
    "join-back": 8, "loss": 9, "add": 10, "choose": 11,
}  # fmt: skip
ACTIVATIONS: dict[str, int] = {"none": 0, "relu": 1, "relu2": 2}
LANES, CHUNK_ROWS = 16, 64  # numbers of a register; rows that give a part of a gradient of gains
ALONE = 2**16  # numbers up to which one thread is as quick as several


def covers(x: Tensor) -> bool:
    """Whether the passes take this tensor: of training on a CPU, in float32 or bfloat16, where kernels were built."""
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
    """Each pair of features turned by its angle; None where the width is not a multiple of 32.

    ``halves``: pairs are features i and i + width / 2, else 2i and 2i + 1.
    """
    if x.shape[-1] % (2 * LANES):
        return None
    turned: Tensor = _Turn.apply(x, cosine.contiguous(), sine.contiguous(), halves)
    return turned


def root_mean_square(
    x: Float[Tensor, "batch *heads place width"], gain: Float[Tensor, "width"], epsilon: float
) -> Float[Tensor, "batch *heads place width"] | None:
    """x / √(mean of x² + ε) · g over the last dimension; None where its width is not a multiple of 16."""
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
    """act(x) · 256 / (256 - threshold) where a byte's draw is at least the threshold, else 0; without draws act(x).

    ``bias``: is in x already, but as no part of its graph: it gets its gradient here, the sum of x's over all rows.
    """
    dropped: Tensor = _Drop.apply(x, draws, threshold, activation, bias)
    return dropped


@torch.no_grad()
def add_to(total: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"]) -> None:
    """``total += x``; of float32 and bfloat16 in one pass, where torch makes a copy of x in float32 before."""
    taken = total.is_cpu and (total.dtype, x.dtype) == (torch.float32, torch.bfloat16) and total.is_contiguous()
    if not (
        taken and x.is_contiguous() and x.numel() % LANES == 0 and type(total) is type(x) is Tensor and available()
    ):
        total.add_(x)
        return
    given = Pass(kind=KINDS["add"], format=FORMATS[x.dtype], rows=x.numel(), x=x.data_ptr(), y=total.data_ptr())
    run(given, x.numel())


class _Turn(torch.autograd.Function):
    """y = R x, ∂x = Rᵀ ∂y: the same pass with the angles' sines negated."""

    @staticmethod
    def forward(context: Any, x: Tensor, cosine: Tensor, sine: Tensor, halves: bool) -> Tensor:
        context.save_for_backward(cosine, sine)
        context.halves = halves
        return _turned(with_rows(x), cosine, sine, halves, 1, torch.empty(x.shape, dtype=x.dtype))

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        cosine, sine = context.saved_tensors
        return (
            _turned(with_rows(upstream), cosine, sine, context.halves, -1, by_place(upstream.shape, upstream.dtype)),
            None,
            None,
            None,
        )


def _turned(x: Tensor, cosine: Tensor, sine: Tensor, halves: bool, direction: int, y: Tensor) -> Tensor:
    given = _pass("turn", x, y)
    given.first, given.second, given.halves, given.scale = cosine.data_ptr(), sine.data_ptr(), halves, direction
    given.table_batch = 0 if len(cosine) == 1 else cosine[0].numel()
    run(given, x.numel())
    return y


class _RootMeanSquare(torch.autograd.Function):
    """With r = 1 / √(mean of x² + ε): ∂x = r (g ∘ ∂y − x r² mean(g ∘ ∂y ∘ x)), ∂g = Σ ∂y ∘ x r."""

    @staticmethod
    def forward(context: Any, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        x, context.type, gain = with_rows(x), gain.dtype, gain.float()
        y, roots = torch.empty(x.shape, dtype=x.dtype), torch.empty(x.numel() // x.shape[-1])
        given = _pass("root", x, y)
        given.first, given.kept, given.scale = gain.data_ptr(), roots.data_ptr(), epsilon
        run(given, x.numel())
        context.save_for_backward(x, gain, roots)
        return y

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, roots = context.saved_tensors
        upstream, y = with_rows(upstream), by_place(x.shape, x.dtype)
        parts = torch.zeros(-(-len(roots) // CHUNK_ROWS), len(gain))
        given = _pass("root-back", x, y, upstream)
        given.first, given.kept, given.part = gain.data_ptr(), roots.data_ptr(), parts.data_ptr()
        run(given, x.numel())
        return y, parts.sum(0).to(context.type), None


class _Drop(torch.autograd.Function):
    """y = m ∘ act(x), ∂x = act'(x) ∘ m ∘ ∂y, with m of 0 and 1 / P(keep), and for x = z + b: ∂b = Σ ∂x.

    Where act is max(0, x), y tells all: ∂x = ∂y / P(keep) where y > 0. What comes next keeps y anyway, so
    neither x nor the draws are kept.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, draws: Tensor | None, threshold: int, activation: Activation, bias: Tensor | None
    ) -> Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        given = _flat("drop", x, y, draws, threshold, activation)
        run(given, x.numel())
        kept = {"none": (None, draws), "relu": (y, None), "relu2": (x, draws)}
        context.save_for_backward(*kept[activation])
        context.threshold, context.activation, context.bias = threshold, activation, bias is not None and bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, Tensor | None]:
        x, draws = context.saved_tensors
        upstream = upstream.contiguous()
        y = torch.empty_like(upstream)
        given = _flat("drop-back", x, y, draws, context.threshold, context.activation, upstream)
        if not context.bias:
            run(given, upstream.numel())
            return y, None, None, None, None
        width = upstream.shape[-1]
        parts = torch.zeros(-(-upstream.numel() // (CHUNK_ROWS * width)), width)
        given.width, given.part = width, parts.data_ptr()
        run(given, upstream.numel())
        return y, None, None, None, parts.sum(0).to(context.bias)


def with_rows(x: Float[Tensor, "batch heads place width"]) -> Float[Tensor, "batch heads place width"]:
    """As it is where the features of a row lie side by side, else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def by_place(
    shape: torch.Size | tuple[int, int, int, int], type: torch.dtype
) -> Float[Tensor, "batch heads place width"]:
    """Room of this shape in which the heads of a place lie side by side, as projections read them."""
    batch, heads, places, width = shape
    return torch.empty(batch, places, heads, width, dtype=type).transpose(1, 2)


def _pass(kind: str, x: Tensor, y: Tensor, upstream: Tensor | None = None) -> Pass:
    """A pass over rows."""
    given = Pass(kind=KINDS[kind], format=FORMATS[x.dtype], rows=x.numel() // x.shape[-1], width=x.shape[-1])
    given.heads, given.places, given.x, given.y = x.shape[1], x.shape[2], x.data_ptr(), y.data_ptr()
    given.x_step[:], given.y_step[:] = x.stride()[:3], y.stride()[:3]
    if upstream is not None:
        given.g, given.g_step[:] = upstream.data_ptr(), upstream.stride()[:3]
    return given


def _flat(
    kind: str,
    x: Tensor | None,
    y: Tensor,
    draws: Tensor | None,
    threshold: int,
    activation: Activation,
    upstream: Tensor | None = None,
) -> Pass:
    """A pass over numbers that lie one after the other."""
    given = Pass(kind=KINDS[kind], format=FORMATS[y.dtype], rows=y.numel(), y=y.data_ptr(), threshold=threshold)
    given.activation, given.scale = ACTIVATIONS[activation], keep_scale(threshold, y.dtype)
    for name, tensor in (("x", x), ("g", upstream), ("draw", draws)):
        if tensor is not None:
            setattr(given, name, tensor.data_ptr())
    return given


def row_pass(kind: str, type: torch.dtype, rows: int, width: int, **addresses: Tensor | None) -> Pass:
    """A pass over rows that lie one after the other; the tensors are those of the fields of these names."""
    given = Pass(kind=KINDS[kind], format=FORMATS[type], rows=rows, width=width)
    given.tensors = tuple(addresses.values())
    for name, tensor in addresses.items():
        if tensor is not None:
            setattr(given, name, tensor.data_ptr())
    return given


@cache
def keep_scale(threshold: int, type: torch.dtype) -> float:
    """1 / P(keep), as a number of this type."""
    return float(torch.tensor(256 / (256 - threshold), dtype=type))


@cache
def _team() -> int | None:
    """The address of ``GOMP_parallel`` of the OpenMP library that torch computes with; None where it has another."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None


def available() -> bool:
    """Return whether the kernels are there, and can have as many threads as torch has."""
    return library() is not None and (torch.get_num_threads() == 1 or _team() is not None)


def run_heads(kind: Literal["attend", "attend-back"], given: ShortAttention, type: torch.dtype) -> None:
    """Run attention, or its gradient, head by head; gives each thread its scratch."""
    heads, pairs = given.batch * given.heads, given.batch * given.heads * given.queries * given.keys
    scratch = torch.empty(torch.get_num_threads(), given.room)
    given.scratch = scratch.data_ptr()
    whole = Pass(kind=KINDS[kind], format=FORMATS[type], rows=heads, attention=ctypes.addressof(given))
    run(whole, pairs * given.width)


def run(given: Pass, numbers: int) -> None:
    """Run a pass over so many numbers, by as many threads as torch has where they pay."""
    kernels = library()
    assert kernels is not None
    kernels.run_pass(given, 1 if numbers <= ALONE else torch.get_num_threads(), _team())

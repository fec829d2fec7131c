"""Cost and path length of each type of layer: Table 1 of the Transformer's paper, measured.

Claim: per layer, self-attention costs n²·d, a recurrent layer n·d², a convolution k·n·d², and attention restricted to r
neighbors r·n·d. A recurrent layer needs n sequential operations, the others a constant number. The longest path between
two positions is 1, n, n/k (log_k n if dilated) and n/r. Self-attention is therefore cheaper than recurrence if n < d
(Vaswani et al. 2017, §4 and Table 1).

Measured: one layer of each type, without projections around attention (Table 1 excludes them; they add 4·n·d²).
*Operations* are the floating-point operations of all matrix products that torch runs, as torch counts them. *Products
in a row* is the longest chain of products of which each needs the previous one. For *path*, the zeros of a step's
Jacobian, by autograd, show which position depends on which. The path is the smallest number of steps (layers or cell
steps) after which the last position depends on the first. Seconds (medians of repeated runs) and bytes kept for the
backward pass are shown for information. They depend on the machine, and overheads dominate them at small sizes.

Thresholds: exponents are those of a power law fitted over sizes that double. Their tolerance is 0.05, because only a
constant number of products is added to the leading term. Paths must equal ⌈(n−1)/(k−1)⌉, ⌈log_k n⌉ and ⌈(n−1)/r⌉,
because convolutions read the k − 1 previous positions here. The restricted layer computes only the band; it equals
self-attention under the mask |i − j| ≤ r to 1e-12. The cheaper layer of the two changes at n = d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from regard.attention.mask import Mask, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.models.recurrent.cells import Elman
from regard.studies.costs import Function, bytes_kept, exponent, operations, products_in_a_row, seconds, sees
from regard.studies.study import Cell, Criterion, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL, RADIUS = 3, 4
EXACT = 0.05  # tolerance of a fitted exponent


class MeasuredLayer(NamedTuple):
    """A type of layer. ``make(d, size)`` builds one of width d; ``size`` is k or r, or 0 for a type without either."""

    theory: str
    exponents: tuple[int, int]  # exponents of the operations in n and in d
    sequential: int  # exponent of the products in a row, in n
    path: Callable[[int], int]  # n → length of the longest path
    make: Callable[[int, int], Function]
    size: int = 0
    step: Callable[[int, int, int], Function] | None = None  # (d, size, number) → one step, unless the layer is one
    fast: Callable[[int, int], Function] | None = None  # the layer by torch's fused kernels, for seconds


def attend(mask: Mask) -> Function:
    """Return the layer softmax(x xᵀ / √d) x under a mask."""

    def forward(x: Tensor) -> Tensor:
        span = Span.of(torch.ones(x.shape[:2], dtype=torch.bool))
        return Dot()(x[:, None], x[:, None], x[:, None], mask.bind(span, span), need_weights=True).context[:, 0]

    return forward


def band(radius: int) -> Function:
    """Return the same layer under |i − j| ≤ r, computed only within the band."""

    def forward(x: Tensor) -> Tensor:
        n, d = x.shape[1:]
        near = pad(x, (0, 0, radius, radius)).unfold(1, 2 * radius + 1, 1)  # (1, n, d, 2r + 1)
        inside = torch.arange(n)[:, None] + torch.arange(-radius, radius + 1)
        energy = torch.einsum("bnd,bndw->bnw", x, near) / math.sqrt(d)
        weights = energy.masked_fill((inside < 0) | (inside >= n), float("-inf")).softmax(-1)
        return torch.einsum("bnw,bndw->bnd", weights, near)

    return forward


def recur(d: int, size: int) -> Function:
    """Return an Elman cell that runs step by step."""
    cell = Elman(d, d)

    def forward(x: Tensor) -> Tensor:
        step, carry, states = cell.step_function(), cell.start(len(x)), []
        for projected in cell.project_input(x).unbind(1):
            carry = step(projected, carry)
            states.append(carry[0])
        return torch.stack(states, 1)

    return forward


def recur_fused(d: int, size: int) -> Function:
    """Return an Elman cell that runs all steps in one call."""
    cell = Elman(d, d)
    return lambda x: cell.run(x, torch.tensor([x.shape[1]]), cell.start(1))[0]


def recur_once(d: int, size: int, number: int) -> Function:
    """Return one step of the cell at all positions in parallel, each from the state to its left."""
    cell = Elman(d, d).double()
    return lambda x: cell.step_function()(cell.project_input(x[0]), (pad(x[0], (0, 0, 1, -1)),))[0][None]


def convolve(d: int, kernel: int, dilation: int = 1) -> Function:
    """Return the causal convolution y_i = W [x_{i−k+1}; …; x_i]."""
    weight = torch.randn(d, d, kernel, dtype=torch.float64) / math.sqrt(d * kernel)

    def forward(x: Tensor) -> Tensor:
        padded = pad(x, (0, 0, (kernel - 1) * dilation, 0)).transpose(1, 2)
        return conv1d(padded, weight.to(x.dtype), dilation=dilation).transpose(1, 2)

    return forward


LAYERS: dict[str, MeasuredLayer] = {
    "self-attention": MeasuredLayer("n² d", (2, 1), 0, lambda n: 1, lambda d, size: attend(Padding())),
    "recurrent": MeasuredLayer("n d²", (1, 2), 1, lambda n: n - 1, recur, step=recur_once, fast=recur_fused),
    "convolutional": MeasuredLayer("k n d²", (1, 2), 0, lambda n: -(-(n - 1) // (KERNEL - 1)), convolve, KERNEL),
    "convolutional, dilated": MeasuredLayer(
        "k n d²", (1, 2), 0, lambda n: _log(n, KERNEL), convolve, KERNEL, lambda d, k, number: convolve(d, k, k**number)
    ),
    "restricted": MeasuredLayer(
        "r n d", (1, 1), 0, lambda n: -(-(n - 1) // RADIUS), lambda d, radius: band(radius), RADIUS
    ),
}


class Sizes(NamedTuple):
    """Sizes of the measurements: lengths n, widths d, lengths for paths (``short``), and repeated runs for seconds."""

    lengths: list[int]
    widths: list[int]
    short: list[int]
    repeats: int


class Measured(NamedTuple):
    """Measurements of one layer. Pairs are over the lengths n at d = 64 and over the widths d at n = 128."""

    operations: tuple[list[float], list[float]]
    seconds: tuple[list[float], list[float]]
    saved: tuple[list[float], list[float]]
    own: float | None  # exponent of the operations in k, or in the band's 2r + 1
    chains: list[int]
    paths: list[int]


def run(*, seed: int, minimal: bool, report: Report, layers: Mapping[str, MeasuredLayer] = LAYERS) -> Findings:
    """Measure ``layers``; self-attention, recurrent and restricted are also compared with each other."""
    sizes = (
        Sizes([32, 64, 128], [16, 32, 64], [8, 16, 32], 1)
        if minimal
        else Sizes([64, 128, 256, 512, 1024], [32, 64, 128, 256], [8, 16, 32, 64, 128], 7)
    )
    measured: dict[str, Measured] = {}
    for name, layer in layers.items():
        measured[name] = _measure(layer, sizes)
        report(len(measured) / len(layers))
    return Findings(
        columns=(
            *("layer", "theory", "operations ~ n^", "d^", "k or r^", "seconds ~ n^", "d^", "kept ~ n^", "d^"),
            *("products in a row", "path"),
        ),
        rows=[_row(name, layer, measured[name], sizes) for name, layer in layers.items()],
        criteria=_judge(layers, measured, sizes),
        draw=lambda figure: _draw(figure, measured, sizes),
        remarks=(
            f"k = {KERNEL} and r = {RADIUS}; n is {sizes.lengths[0]} to {sizes.lengths[-1]} at d = 64, d is "
            f"{sizes.widths[0]} to {sizes.widths[-1]} at n = 128. Products in a row are those of "
            f"n = {sizes.lengths[-1]}, paths those of n = {sizes.short[-1]}. Seconds and bytes kept depend on the "
            "machine and on its other work; no criterion uses them.",
        ),
    )


def _judge(layers: Mapping[str, MeasuredLayer], measured: Mapping[str, Measured], sizes: Sizes) -> list[Criterion]:
    """Return the criteria that compare the measured exponents, chains and paths with theory."""
    pairs = [(layer, measured[name]) for name, layer in layers.items()]
    in_n, in_d = (
        _worst(exponent(axis, measurement.operations[index]) - layer.exponents[index] for layer, measurement in pairs)
        for index, axis in enumerate((sizes.lengths, sizes.widths))
    )
    d = sizes.widths[-1]
    below, above = (_compare(layers, n, d) for n in (d // 2, 2 * d))
    return [
        at_most("operations: exponent of n, worst difference from theory", in_n, EXACT),
        at_most("operations: exponent of d, worst difference from theory", in_d, EXACT),
        at_most("operations: exponent of k or r, worst difference from 1", _worst_own(measured.values()), EXACT),
        at_most(
            "products in a row: exponent of n, worst difference from theory",
            _worst(exponent(sizes.lengths, measurement.chains) - layer.sequential for layer, measurement in pairs),
            EXACT,
        ),
        at_most(
            "path length, worst difference from theory",
            _worst(
                path - layer.path(n)
                for layer, measurement in pairs
                for n, path in zip(sizes.short, measurement.paths, strict=True)
            ),
            0,
        ),
        at_most("restricted layer against self-attention under its mask", _band_error(layers), 1e-12),
        at_most("operations of self-attention / recurrent at n = d/2", below, 1),
        at_least("operations of self-attention / recurrent at n = 2d", above, 1),
    ]


def _measure(layer: MeasuredLayer, sizes: Sizes) -> Measured:
    shapes = [(n, 64) for n in sizes.lengths], [(128, d) for d in sizes.widths]
    fast = layer.fast or layer.make

    def over(measure: Callable[[int, int], float]) -> tuple[list[float], list[float]]:
        by_length, by_width = ([measure(n, d) for n, d in axis] for axis in shapes)
        return by_length, by_width

    return Measured(
        operations=over(lambda n, d: operations(layer.make(d, layer.size), n, d)),
        seconds=over(lambda n, d: seconds(fast(d, layer.size), n, d, repeats=sizes.repeats)),
        saved=over(lambda n, d: bytes_kept(layer.make(d, layer.size), n, d)),
        own=_own_exponent(layer) if layer.size else None,
        chains=[products_in_a_row(layer.make(8, layer.size), n, 8) for n in sizes.lengths],
        paths=[_path(layer, n) for n in sizes.short],
    )


def _path(layer: MeasuredLayer, n: int, d: int = 4) -> int:
    """Return the least number of steps after which position n − 1 depends on position 0; 2n if it never does."""
    reached = torch.eye(n, dtype=torch.bool)
    for number in range(2 * n):
        if reached[n - 1, 0]:
            return number
        step = layer.step(d, layer.size, number) if layer.step else layer.make(d, layer.size)
        reached = (sees(step, n, d).double() @ reached.double()) > 0
    return 2 * n


def _own_exponent(layer: MeasuredLayer) -> float:
    sizes = [2, 4, 8]
    spans = [2 * size + 1 if "r" in layer.theory else size for size in sizes]
    return exponent(spans, [operations(layer.make(32, size), 64, 32) for size in sizes])


def _worst(differences: Iterable[float]) -> float:
    return max(abs(difference) for difference in differences)


def _worst_own(measured: Iterable[Measured]) -> float:
    return _worst(measurement.own - 1 for measurement in measured if measurement.own is not None)


def _compare(layers: Mapping[str, MeasuredLayer], n: int, d: int) -> float:
    """Return the operations of self-attention divided by those of the recurrent layer."""
    attention, recurrent = (operations(layers[name].make(d, 0), n, d) for name in ("self-attention", "recurrent"))
    return attention / recurrent


def _band_error(layers: Mapping[str, MeasuredLayer]) -> float:
    x = torch.randn(1, 21, 8, dtype=torch.float64)
    expected = attend(Window(RADIUS) & Padding())(x)
    return float((layers["restricted"].make(8, RADIUS)(x) - expected).abs().max())


def _log(n: int, base: int) -> int:
    """Return ⌈log n⌉ to a base, by integers."""
    steps = 0
    while base**steps < n:
        steps += 1
    return steps


def _row(name: str, layer: MeasuredLayer, measurement: Measured, sizes: Sizes) -> tuple[Cell, ...]:
    def fitted(values: tuple[Sequence[float], Sequence[float]]) -> list[str]:
        return [f"{exponent(axis, column):.2f}" for axis, column in zip(sizes[:2], values, strict=True)]

    own = "" if measurement.own is None else f"{measurement.own:.2f}"
    exponents = [*fitted(measurement.operations), own, *fitted(measurement.seconds), *fitted(measurement.saved)]
    return (name, layer.theory, *exponents, measurement.chains[-1], measurement.paths[-1])


def _draw(figure: Figure, measured: Mapping[str, Measured], sizes: Sizes) -> None:
    axes = figure.subplots(1, 3)
    panels = (
        ("operations of one layer, d = 64", "operations", sizes.lengths, lambda m: m.operations[0]),
        ("seconds, on one machine", "seconds", sizes.lengths, lambda m: m.seconds[0]),
        ("longest path", "steps", sizes.short, lambda m: m.paths),
    )
    for (title, label, lengths, pick), panel in zip(panels, axes, strict=True):
        for name, measurement in measured.items():
            panel.loglog(lengths, pick(measurement), "o-", label=name)
        panel.set(title=title, xlabel="n", ylabel=label, xticks=lengths, xticklabels=[str(n) for n in lengths])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(measured))

"""Attention is a soft dictionary lookup.

Claim: an attention function maps a query and a set of key-value pairs to an output (Vaswani et al. 2017, §3.2, Eq. 1).
With weights softmax(q·k / T) it is a soft lookup: for T → 0 its output equals that of a ``dict``, and the order of the
pairs is irrelevant.

Measured: pairs of random unit keys and random values; each query is a key with a little noise. The output of the dict
is the value of the nearest key. Distances are the largest over all queries, in float64.

Thresholds: let gap = q·k_best − q·k_second for n pairs. All other keys together have a weight of at most
(n − 1)·exp(−gap/T). This weight times the largest distance between two values therefore bounds the distance from the
dict's output. At every T, the measured distance divided by this bound is at most 1. Because of rounding, the bound is
at least 1e-12, which also limits the change by another order. At the lowest T, the bound must be below 1e-6; otherwise
the study would show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.attention.contract import Mechanism
from regard.attention.mask import Bound, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.studies.study import Cell, Findings, Report, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12
SHOWN = (1.0, 1 / 4, 1 / 16)  # temperatures in the right panel


def soft(temperature: float) -> Mechanism:
    """Return attention with the weights softmax(q·k / T)."""
    return Dot(scale=1 / temperature)


def run(*, seed: int, minimal: bool, report: Report, lookup: Callable[[float], Mechanism] = soft) -> Findings:
    """Compare attention with a dict; ``lookup`` returns the attention of a temperature."""
    pairs, queries, width = (8, 8, 16) if minimal else (64, 256, 64)
    key = normalize(torch.randn(pairs, width, dtype=torch.float64), dim=-1)
    value = torch.randn(pairs, 4, dtype=torch.float64)
    requested = torch.arange(queries) % pairs
    query = normalize(
        key[requested] + 0.3 * torch.randn(queries, width, dtype=torch.float64) / math.sqrt(width), dim=-1
    )
    answer = value[(query @ key.T).argmax(1)]
    order = torch.randperm(pairs)

    rows: list[tuple[Cell, ...]] = []
    temperatures = [2.0**-power for power in range(-4, 8)]
    for done, temperature in enumerate(temperatures, start=1):
        mechanism = lookup(temperature)
        context, weights = _look_up(mechanism, query, key, value)
        shuffled, _ = _look_up(mechanism, query, key[order], value[order])
        rows.append(
            (
                f"1/{2 ** round(-math.log2(temperature))}" if temperature < 1 else f"{temperature:g}",
                float(weights.gather(1, (query @ key.T).argmax(1, keepdim=True)).mean()),
                float((context - answer).norm(dim=1).max()),
                _bound(query, key, value, temperature),
                float((context - value.mean(0)).norm(dim=1).max()),
                float((context - shuffled).abs().max()),
            )
        )
        report(done / len(temperatures))
    distances, bounds, orders = ([float(row[column]) for row in rows] for column in (2, 3, 5))
    bars = [_look_up(lookup(temperature), query[:1], key, value)[1][0].tolist() for temperature in SHOWN]
    return Findings(
        columns=(
            "temperature",
            "weight of the nearest key",
            "distance from the dict's output",
            "bound",
            "distance from the mean",
            "change by another order",
        ),
        rows=rows,
        criteria=[
            at_most("distance from the dict's output / bound, maximum", _max_ratio(distances, bounds), 1.0),
            at_most("distance from the dict's output at the lowest temperature", distances[-1], 1e-6),
            at_most("bound at the lowest temperature", bounds[-1], 1e-6),
            at_most("change by another order of the pairs, maximum", max(orders), ROUNDING),
        ],
        draw=lambda figure: _draw(figure, temperatures, distances, bounds, bars),
    )


def _look_up(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return context (queries, value) and weights (queries, pairs) of one head and one sentence."""
    bound, keys = _bind_all(query, key), mechanism.prepare(key[None, None])
    attended = mechanism(query[None, None], keys, value[None, None], bound, need_weights=True)
    assert attended.weights is not None
    return attended.context[0, 0], attended.weights[0, 0]


def _bind_all(query: Tensor, key: Tensor) -> Bound:
    queries, keys = (Span.of(torch.ones(1, len(x), dtype=torch.bool)) for x in (query, key))
    return Padding().bind(queries, keys)


def _bound(query: Tensor, key: Tensor, value: Tensor, temperature: float) -> float:
    best = (query @ key.T).topk(2).values
    other_weights = (len(key) - 1) * torch.exp((best[:, 1] - best[:, 0]) / temperature)
    return max(float(other_weights.max().clamp_max(1.0) * torch.cdist(value, value).max()), ROUNDING)


def _max_ratio(values: Sequence[float], bounds: Sequence[float]) -> float:
    return max(value / bound for value, bound in zip(values, bounds, strict=True))


def _draw(
    figure: Figure,
    temperatures: Sequence[float],
    distances: Sequence[float],
    bounds: Sequence[float],
    bars: Sequence[Sequence[float]],
) -> None:
    left, right = figure.subplots(1, 2)
    left.loglog(temperatures, distances, "o-", label="measured, worst query")
    left.loglog(temperatures, bounds, "--", label="bound (n − 1) exp(−gap/T)")
    left.set(xlabel="temperature T", ylabel="distance from the dict's output", title="soft becomes hard")
    left.legend()
    for temperature, weights in zip(SHOWN, bars, strict=True):
        right.semilogx(range(1, len(weights) + 1), sorted(weights, reverse=True), label=f"T = {temperature:.4g}")
    right.set(xlabel="key, by weight", ylabel="weight", title="one query's weights")
    right.legend()

"""Reach, quality and cost of global and local attention against the radius of its window.

Claim: with one global position, any two positions are connected within two layers at any window size. A near symbol
is found as soon as the window reaches it, and a far symbol only through a global position. The cost grows with the
radius, not with the length (Ainslie et al. 2020, §2; Beltagy et al. 2020, §3).

Measured: three quantities.

1. The inputs on which each output of two layers depends, by gradients: 48 positions, radius 1, with and without a
   global position.
2. The accuracy of two layers of width 32 over 64 positions. Each position predicts the symbol five positions before it
   (near), and which of eight marks occurs at one random position of the row (far). Training takes 600 updates of 16
   rows, for radii 1, 4 and 64, with and without a global position. Accuracy is measured on 256 new rows.
3. The seconds of the forward and backward pass of one layer over 8,192 positions, for radii 32, 64 and 128.

Thresholds: with a global position all pairs are connected, without one less than half of them. Two layers of radius 4
reach eight positions, and two of radius 1 only two. The accuracy of near symbols is therefore at least 95 % with radius
4, and at most 50 % with radius 1; chance is 12.5 %. For far marks and radius 4, it is at least 95 % with a global
position. Without one it is at most 60 %, because two layers reach 17 of 64 positions. Time grows at most as the radius
to the power of 1.15.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.models.input import TokenInput, embedding_matrix
from regard.models.transformer.build import encoder
from regard.models.transformer.config import TransformerEncoderConfig
from regard.models.transformer.global_local import GlobalLocal
from regard.studies import costs
from regard.studies.study import Cell, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, SYMBOLS, BEFORE, LENGTH, ROWS = 32, 8, 5, 64, 16
CONNECTED, LONG = 48, 8192
RADII, TIMED = (1, 4, 64), (32, 64, 128)


class MarkedRows(NamedTuple):
    """Rows of symbols with one mark each, and the labels: the near symbol of each position, the mark."""

    tokens: Tensor
    near: Tensor
    mark: Tensor


def run(*, seed: int, minimal: bool, report: Report, first: int = 1) -> Findings:
    """Measure reach, accuracy and time; ``first``: number of global positions."""
    updates, long = (2, 1024) if minimal else (600, LONG)
    reach = _connected(first), _connected(0)
    results: dict[tuple[int, int], tuple[float, float]] = {}
    for enabled in (1, 0):
        for radius in RADII:
            torch.manual_seed(seed)
            results[radius, enabled] = _accuracies(radius, enabled * first, updates, seed)
            report(len(results) / (2 * len(RADII) + 1))
    seconds = [_seconds(radius, first, long) for radius in TIMED]
    report(1.0)
    criteria = [
        at_least("pairs of positions connected, one global position", reach[0], 1.0),
        at_most("pairs of positions connected, no global position", reach[1], 0.5),
        at_least("near, radius 4", results[4, 1][0], 0.95),
        at_most("near, radius 1", results[1, 0][0], 0.5),
        at_least("far, radius 4, one global position", results[4, 1][1], 0.95),
        at_most("far, radius 4, no global position", results[4, 0][1], 0.6),
        at_most("exponent of time in the radius", costs.exponent(TIMED, seconds), 1.15),
    ]
    rows: list[tuple[Cell, ...]] = [
        (radius, enabled * first, *(f"{100 * share:.1f}" for share in shares))
        for (radius, enabled), shares in results.items()
    ]
    times = ", ".join(f"{radius}: {1e3 * duration:.0f} ms" for radius, duration in zip(TIMED, seconds, strict=True))
    return Findings(
        columns=("radius", "global positions", "near, %", "far, %"),
        rows=rows,
        criteria=criteria,
        draw=lambda figure: _draw(figure, results),
        remarks=(f"Forward and backward pass of one layer over {long:,} positions, by radius: {times}.",),
    )


def _connected(global_positions: int) -> float:
    """Return the share of pairs (output, input) in which the output of two layers depends on the input."""
    layers = [GlobalLocal(WIDTH, heads=2, causal=False, radius=1, first=global_positions).double() for _ in range(2)]
    span = Span.of(torch.ones(1, CONNECTED, dtype=torch.bool))

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = x + layer(x, span, ()).output
        return x

    return float(costs.sees(forward, CONNECTED, WIDTH).double().mean())


def _draw_rows(count: int, generator: torch.Generator) -> MarkedRows:
    symbols = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
    mark = torch.randint(SYMBOLS, (count,), generator=generator)
    position = torch.randint(1, LENGTH, (count, 1), generator=generator)
    tokens = torch.where(
        torch.arange(LENGTH) == position, SYMBOLS + mark[:, None], symbols
    )  # the mark replaces the symbol
    return MarkedRows(tokens, symbols.roll(BEFORE, 1), mark)


def _accuracies(radius: int, global_positions: int, updates: int, seed: int) -> tuple[float, float]:
    """Return the accuracies of near symbols and of far marks after ``updates`` updates."""
    settings = {
        "layers": 2, "width": WIDTH, "heads": 4, "feed_forward": 2 * WIDTH, "norm": "pre", "dropout": 0.0,
        "position": "rotary", "mixer": {"kind": "global-local", "radius": radius, "first": global_positions},
    }  # fmt: skip
    words = TokenInput(embedding_matrix(2 * SYMBOLS, WIDTH))
    network, heads = encoder(TransformerEncoderConfig.model_validate(settings), words), nn.Linear(WIDTH, 2 * SYMBOLS)
    optimizer = torch.optim.Adam([*network.parameters(), *heads.parameters()], lr=3e-3, betas=(0.9, 0.98))
    learning_rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates)
    draw = torch.Generator().manual_seed(seed)

    def predict(rows: MarkedRows) -> tuple[Tensor, Tensor]:
        states = network(rows.tokens, Span.without_padding(rows.tokens)).states[:, BEFORE:]
        near, far = heads(states).split(SYMBOLS, -1)
        return near, far

    for _ in range(updates):
        rows = _draw_rows(ROWS, draw)
        near, far = predict(rows)
        marks = rows.mark[:, None].expand(far.shape[:2])
        loss = cross_entropy(near.flatten(0, 1), rows.near[:, BEFORE:].flatten())
        loss = loss + cross_entropy(far.flatten(0, 1), marks.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learning_rates.step()
    with torch.no_grad():
        rows = _draw_rows(256, torch.Generator().manual_seed(seed + 10**6))
        near, far = predict(rows)
    right = near.argmax(2) == rows.near[:, BEFORE:], far.argmax(2) == rows.mark[:, None]
    return float(right[0].double().mean()), float(right[1].double().mean())


def _seconds(radius: int, global_positions: int, length: int) -> float:
    mixer = GlobalLocal(WIDTH, heads=2, causal=False, radius=radius, first=global_positions)
    x, span = torch.randn(1, length, WIDTH, requires_grad=True), Span.of(torch.ones(1, length, dtype=torch.bool))
    durations = []
    for _ in range(4):
        start = time.process_time()
        mixer(x, span, ()).output.sum().backward()
        durations.append(time.process_time() - start)
    return min(durations[1:])


def _draw(figure: Figure, results: dict[tuple[int, int], tuple[float, float]]) -> None:
    axes = figure.subplots()
    for enabled, words in ((1, "one global position"), (0, "none")):
        for which, name in enumerate(("near", "far")):
            shares = [100 * results[radius, enabled][which] for radius in RADII]
            axes.semilogx(RADII, shares, marker="o", linestyle="-" if enabled else "--", label=f"{name}, {words}")
    axes.set(xlabel="radius", ylabel="accuracy, %")
    axes.legend()

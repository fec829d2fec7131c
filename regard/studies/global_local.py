"""Reach, quality and cost of global and local attention against the radius of its window.

Claim: with one global column any two columns are connected within two layers, however narrow the window; what stands
near is found as soon as the window reaches it, what stands anywhere only by way of a global column; and the cost grows
with the radius, not with the length (Ainslie et al. 2020, §2; Beltagy et al. 2020, §3).

Measured: (1) which output of two layers depends on which input, by gradients, 48 columns, radius 1, with a global
column and without. (2) Two layers of width 32 over 64 columns: each column is to tell the symbol five columns before
it (near) and which of eight marks stands at one place, anywhere in the row (far); 600 updates of 16 rows, radii 1, 4
and 64, with and without a global column; accuracy on 256 fresh rows. (3) Seconds forward and backward of one layer
over 8,192 columns, radii 32, 64 and 128.

Thresholds: every pair connected with a global column, and less than half of the pairs without. Two layers of radius 4
reach eight columns, two of radius 1 only two: near at least 95 % with radius 4, at most half with radius 1, where
chance is an eighth. Far at least 95 % with a global column and radius 4, at most 60 % without: two layers reach 17 of
64 columns. Time grows at most as the radius to the power of 1.15.
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
    """Symbols of each column, a mark in one of them, and what columns are to tell: near, far."""

    tokens: Tensor
    near: Tensor
    mark: Tensor


def run(*, seed: int, minimal: bool, report: Report, first: int = 1) -> Findings:
    """Measure reach, accuracy and time; ``first``: global columns of the mixer that has some."""
    updates, long = (2, 1024) if minimal else (600, LONG)
    reach = _connected(first), _connected(0)
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for some in (1, 0):
        for radius in RADII:
            torch.manual_seed(seed)
            found[radius, some] = _accuracies(radius, some * first, updates, seed)
            report(len(found) / (2 * len(RADII) + 1))
    seconds = [_seconds(radius, first, long) for radius in TIMED]
    report(1.0)
    criteria = [
        at_least("pairs of columns connected, one global column", reach[0], 1.0),
        at_most("pairs of columns connected, none", reach[1], 0.5),
        at_least("near, radius 4", found[4, 1][0], 0.95),
        at_most("near, radius 1", found[1, 0][0], 0.5),
        at_least("far, radius 4, one global column", found[4, 1][1], 0.95),
        at_most("far, radius 4, none", found[4, 0][1], 0.6),
        at_most("exponent of time in the radius", costs.exponent(TIMED, seconds), 1.15),
    ]
    rows: list[tuple[Cell, ...]] = [
        (radius, columns * first, *(f"{100 * share:.1f}" for share in shares))
        for (radius, columns), shares in found.items()
    ]
    told = ", ".join(f"{radius}: {1e3 * each:.0f} ms" for radius, each in zip(TIMED, seconds, strict=True))
    return Findings(
        columns=("radius", "global columns", "near, %", "far, %"),
        rows=rows,
        criteria=criteria,
        draw=lambda figure: _draw(figure, found),
        remarks=(f"One layer over {long:,} columns, forward and backward, by radius: {told}.",),
    )


def _connected(columns: int) -> float:
    """Share of pairs (output, input) of which one depends on the other after two layers."""
    layers = [GlobalLocal(WIDTH, heads=2, causal=False, radius=1, first=columns).double() for _ in range(2)]
    span = Span.of(torch.ones(1, CONNECTED, dtype=torch.bool))

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = x + layer(x, span, ()).output
        return x

    return float(costs.sees(forward, CONNECTED, WIDTH).double().mean())


def _draw_rows(count: int, generator: torch.Generator) -> MarkedRows:
    symbols = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
    mark = torch.randint(SYMBOLS, (count,), generator=generator)
    place = torch.randint(1, LENGTH, (count, 1), generator=generator)
    tokens = torch.where(torch.arange(LENGTH) == place, SYMBOLS + mark[:, None], symbols)  # it covers the symbol
    return MarkedRows(tokens, symbols.roll(BEFORE, 1), mark)


def _accuracies(radius: int, columns: int, updates: int, seed: int) -> tuple[float, float]:
    """Shares of columns that tell near and far rightly, after so many updates."""
    settings = {
        "layers": 2, "width": WIDTH, "heads": 4, "feed_forward": 2 * WIDTH, "norm": "pre", "dropout": 0.0,
        "position": "rotary", "mixer": {"kind": "global-local", "radius": radius, "first": columns},
    }  # fmt: skip
    words = TokenInput(embedding_matrix(2 * SYMBOLS, WIDTH))
    network, heads = encoder(TransformerEncoderConfig.model_validate(settings), words), nn.Linear(WIDTH, 2 * SYMBOLS)
    optimizer = torch.optim.Adam([*network.parameters(), *heads.parameters()], lr=3e-3, betas=(0.9, 0.98))
    falling = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates)
    draw = torch.Generator().manual_seed(seed)

    def told(rows: MarkedRows) -> tuple[Tensor, Tensor]:
        states = network(rows.tokens, Span.without_padding(rows.tokens)).states[:, BEFORE:]
        near, far = heads(states).split(SYMBOLS, -1)
        return near, far

    for _ in range(updates):
        rows = _draw_rows(ROWS, draw)
        near, far = told(rows)
        wanted = rows.mark[:, None].expand(far.shape[:2])
        loss = cross_entropy(near.flatten(0, 1), rows.near[:, BEFORE:].flatten())
        loss = loss + cross_entropy(far.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
    with torch.no_grad():
        rows = _draw_rows(256, torch.Generator().manual_seed(seed + 10**6))
        near, far = told(rows)
    right = near.argmax(2) == rows.near[:, BEFORE:], far.argmax(2) == rows.mark[:, None]
    return float(right[0].double().mean()), float(right[1].double().mean())


def _seconds(radius: int, columns: int, length: int) -> float:
    mixer = GlobalLocal(WIDTH, heads=2, causal=False, radius=radius, first=columns)
    x, span = torch.randn(1, length, WIDTH, requires_grad=True), Span.of(torch.ones(1, length, dtype=torch.bool))
    taken = []
    for _ in range(4):
        began = time.process_time()
        mixer(x, span, ()).output.sum().backward()
        taken.append(time.process_time() - began)
    return min(taken[1:])


def _draw(figure: Figure, found: dict[tuple[int, int], tuple[float, float]]) -> None:
    axes = figure.subplots()
    for columns, words in ((1, "one global column"), (0, "none")):
        for which, name in enumerate(("near", "far")):
            shares = [100 * found[radius, columns][which] for radius in RADII]
            axes.semilogx(RADII, shares, marker="o", linestyle="-" if columns else "--", label=f"{name}, {words}")
    axes.set(xlabel="radius", ylabel="accuracy, %")
    axes.legend()

"""Growth of time and memory with the length, for every mixer.

Claim: the time of self-attention over all positions grows with the square of the length, and so does the memory of its
table of weights. Windows with sinks, global and local attention, linear attention and recurrences take time and memory
in proportion to the length (Katharopoulos et al. 2020, §3 and Fig. 1; Beltagy et al. 2020, Fig. 1; Ainslie et al. 2020,
§2).

Measured: one mixer of width 64 and four heads, forward and backward, in float32 by one thread. Lengths are 256 to
65,536 positions, each four times the previous one. Figures are the processor's seconds, the minimum of a few runs, and
the bytes kept for the backward pass. Every mixer of the table is measured in its causal form if it has one; the forms
for encoders are added. Attention over all positions is measured up to 16,384 positions by the kernel without a table,
and up to 2,048 with the table. Exponents are those of the power law through the largest three lengths.

Thresholds: theory predicts an exponent of 1. A constant term lowers the measured exponent; caches, which serve small
inputs faster, raise it. The limit is 1.15. At 16,384 positions a mixer takes at most a quarter of the time of attention
over all positions. The mixer ``ssru``, which computes one position after the other in Python, must meet only the limit
of the exponents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.attention.contract import Mixer
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.core.reference_mode import reference_mode
from regard.models.attention_config import OTHER_MIXERS
from regard.models.transformer.mixers import place_mixer
from regard.studies import costs
from regard.studies.study import Cell, Criterion, Findings, Report, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEADS, RADIUS = 64, 4, 64
LENGTHS, SHORT = (256, 1024, 4096, 16384, 65536), (32, 64, 128)
COMPARED, UPPER, LIMIT, SHARE = 16384, 3, 1.15, 1 / 4
ENOUGH = 0.3  # seconds of repetitions per point


class Entrant(NamedTuple):
    """A mixer to measure.

    Attributes:
        make: builds the mixer.
        theory: exponents of time and of memory.
        longest: largest length at which it is measured.
        table: whether the reference implementation computes it, with a table of weights.
        rival: whether it must be faster than attention over all positions.
    """

    make: Callable[[], Mixer]
    theory: tuple[int, int] = (1, 1)
    longest: int = LENGTHS[-1]
    table: bool = False
    rival: bool = True


def entrants() -> dict[str, Entrant]:
    """Return every mixer of the table of mixers, and several types of self-attention."""
    table = {
        "everything": Entrant(lambda: _attention(Causal() & Padding()), (2, 1), 16384),
        "everything, table": Entrant(lambda: _attention(Causal() & Padding()), (2, 2), 2048, table=True),
        "window": Entrant(lambda: _attention(Causal() & Padding() & Window(RADIUS))),
        "window, sinks": Entrant(lambda: _attention(Causal() & Padding() & Window(RADIUS, sinks=4))),
    }
    for kind in OTHER_MIXERS:
        table[kind] = Entrant(partial(_placed, kind), rival=kind != "ssru")
    for kind in ("global-local", "linear"):
        table[f"{kind}, encoder"] = Entrant(partial(_placed, kind, causal=False))
    return table


def run(*, seed: int, minimal: bool, report: Report, tested: Mapping[str, Entrant] | None = None) -> Findings:
    """Measure the mixers ``tested`` and fit their exponents; the first one is attention over all positions."""
    tested, lengths = tested or entrants(), SHORT if minimal else LENGTHS
    points_by_name: dict[str, list[tuple[int, float, int]]] = {}
    for name, entrant in tested.items():
        torch.manual_seed(seed)
        measured_lengths = (
            [n for n in (256, 1024, 2048) if n in lengths or n > 1024] if entrant.table and not minimal else lengths
        )
        points_by_name[name] = [_point(entrant, n) for n in measured_lengths if n <= entrant.longest]
        report(len(points_by_name) / len(tested))
    fitted = {name: _exponents(points) for name, points in points_by_name.items()}
    compared = min(COMPARED, lengths[-1])
    whole = _seconds_at(next(iter(points_by_name.values())), compared)
    criteria: list[Criterion] = []
    for name, entrant in tested.items():
        if entrant.theory == (1, 1):
            criteria += [
                at_most(f"{name}: exponent of {quantity}", value, LIMIT)
                for quantity, value in zip(("time", "memory"), fitted[name], strict=True)
            ]
            if entrant.rival:
                share = _seconds_at(points_by_name[name], compared) / whole
                criteria.append(
                    at_most(f"{name}: share of the time of everything, {compared:,} positions", share, SHARE)
                )
    rows: list[tuple[Cell, ...]] = [
        (name, points[-1][0], *(f"{1e3 * _seconds_at(points, n):.4g}" for n in (lengths[0], compared)),
         f"{points[-1][2] / 2**20:.4g}", f"{fitted[name][0]:.2f} ({tested[name].theory[0]})",
         f"{fitted[name][1]:.2f} ({tested[name].theory[1]})")
        for name, points in points_by_name.items()
    ]  # fmt: skip
    columns = (
        "mixer", "longest", f"ms at {lengths[0]}", f"ms at {compared:,}", "MiB kept at the longest",
        "time ~ n^ (theory)", "memory ~ n^ (theory)",
    )  # fmt: skip
    return Findings(columns=columns, rows=rows, criteria=criteria, draw=lambda figure: _draw(figure, points_by_name))


def _attention(mask: Mask) -> Mixer:
    return SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask)


def _placed(kind: str, *, causal: bool = True) -> Mixer:
    placed = {"width": WIDTH, "heads": HEADS, "causal": causal, "dropout": 0.0, "rotary": None, "layer": 0}
    return place_mixer(kind, {}, placed, where="mixer")


def _point(entrant: Entrant, length: int) -> tuple[int, float, int]:
    """Return the length, the seconds forward and backward, and the bytes kept in between."""
    mixer = entrant.make()
    span = Span.of(torch.ones(1, length, dtype=torch.bool))

    def forward(x: Tensor) -> Tensor:
        with reference_mode(entrant.table):
            output: Tensor = mixer(x, span, mixer.start(1)).output
            return output

    saved, durations = costs.bytes_kept(forward, length, WIDTH), list[float]()
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    while len(durations) < 2 or (sum(durations) < ENOUGH and len(durations) < 20):
        start = time.process_time()
        forward(x).sum().backward()
        durations.append(time.process_time() - start)
    return length, min(durations), saved


def _exponents(points: list[tuple[int, float, int]]) -> tuple[float, float]:
    lengths, seconds, saved = zip(*points[-UPPER:], strict=True)
    return costs.exponent(lengths, seconds), costs.exponent(lengths, saved)


def _seconds_at(points: list[tuple[int, float, int]], length: int) -> float:
    return next((seconds for n, seconds, _ in points if n == length), float("nan"))


def _draw(figure: Figure, points_by_name: Mapping[str, list[tuple[int, float, int]]]) -> None:
    axes = figure.subplots(1, 2)
    for name, points in points_by_name.items():
        lengths, seconds, saved = zip(*points, strict=True)
        axes[0].loglog(lengths, seconds, marker="o", label=name)
        axes[1].loglog(lengths, [size / 2**20 for size in saved], marker="o")
    axes[0].set(xlabel="positions", ylabel="seconds, forward and backward")
    axes[1].set(xlabel="positions", ylabel="MiB kept for the backward pass")
    figure.set_size_inches(11.0, 4.0)
    figure.legend(loc="outside right upper")

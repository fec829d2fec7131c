"""Growth of time and memory with the length, of every mixer.

Claim: self-attention over everything takes time that grows with the square of the length, and its table of weights as
much memory; windows with sinks, global and local attention, linear attention and recurrences take both in proportion
to the length (Katharopoulos et al. 2020, §3 and Fig. 1; Beltagy et al. 2020, Fig. 1; Ainslie et al. 2020, §2).

Measured: one mixer of width 64 and four heads, forward and backward, over 256 to 65,536 columns, four times as many
each time, in float32 by one thread: seconds of the processor, the best of a few, and the bytes kept for the backward
pass. Every mixer of the table in its causal form, or in the other where it has none; those of encoders beside them.
Attention over everything goes up to 16,384 columns by the kernel without a table, and to 2,048 by the table. Exponents
are those of the power law through the upper three points.

Thresholds: theory says 1, and a straight line with a constant lies below it; small pieces of work that are faster than
large ones in a cache add something: at most 1.15. At 16,384 columns at most a quarter of the time that attention over
everything takes. A mixer that goes column by column in Python (``ssru``) is held to the exponents alone.
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
COMPARED, UPPER, MOST, SHARE = 16384, 3, 1.15, 1 / 4
ENOUGH = 0.3  # seconds of timing a point


class Entrant(NamedTuple):
    """A mixer to be measured; ``theory``: exponents of time and memory. ``longest``: columns it is measured up to.

    ``table``: by its textbook form. ``rival``: whether it is to beat attention over everything.
    """

    make: Callable[[], Mixer]
    theory: tuple[int, int] = (1, 1)
    longest: int = LENGTHS[-1]
    table: bool = False
    rival: bool = True


def entrants() -> dict[str, Entrant]:
    """Every mixer of the table, and self-attention of several kinds."""
    found = {
        "everything": Entrant(lambda: _attention(Causal() & Padding()), (2, 1), 16384),
        "everything, table": Entrant(lambda: _attention(Causal() & Padding()), (2, 2), 2048, table=True),
        "window": Entrant(lambda: _attention(Causal() & Padding() & Window(RADIUS))),
        "window, sinks": Entrant(lambda: _attention(Causal() & Padding() & Window(RADIUS, sinks=4))),
    }
    for kind in OTHER_MIXERS:
        found[kind] = Entrant(partial(_placed, kind), rival=kind != "ssru")
    for kind in ("global-local", "linear"):
        found[f"{kind}, encoder"] = Entrant(partial(_placed, kind, causal=False))
    return found


def run(*, seed: int, minimal: bool, report: Report, tested: Mapping[str, Entrant] | None = None) -> Findings:
    """Measure and fit; ``tested``: the mixers, of which the first is attention over everything."""
    tested, lengths = tested or entrants(), SHORT if minimal else LENGTHS
    found: dict[str, list[tuple[int, float, int]]] = {}
    for name, entrant in tested.items():
        torch.manual_seed(seed)
        ramp = [n for n in (256, 1024, 2048) if n in lengths or n > 1024] if entrant.table and not minimal else lengths
        found[name] = [_point(entrant, n) for n in ramp if n <= entrant.longest]
        report(len(found) / len(tested))
    fitted = {name: _exponents(points) for name, points in found.items()}
    compared = min(COMPARED, lengths[-1])
    whole = _seconds_at(next(iter(found.values())), compared)
    criteria: list[Criterion] = []
    for name, entrant in tested.items():
        if entrant.theory == (1, 1):
            criteria += [
                at_most(f"{name}: exponent of {what}", each, MOST)
                for what, each in zip(("time", "memory"), fitted[name], strict=True)
            ]
            if entrant.rival:
                share = _seconds_at(found[name], compared) / whole
                criteria.append(at_most(f"{name}: share of the time of everything, {compared:,} columns", share, SHARE))
    rows: list[tuple[Cell, ...]] = [
        (name, points[-1][0], *(f"{1e3 * _seconds_at(points, n):.4g}" for n in (lengths[0], compared)),
         f"{points[-1][2] / 2**20:.4g}", f"{fitted[name][0]:.2f} ({tested[name].theory[0]})",
         f"{fitted[name][1]:.2f} ({tested[name].theory[1]})")
        for name, points in found.items()
    ]  # fmt: skip
    columns = (
        "mixer", "columns up to", f"ms at {lengths[0]}", f"ms at {compared:,}", "MiB kept at the most",
        "time ~ n^ (theory)", "memory ~ n^ (theory)",
    )  # fmt: skip
    return Findings(columns=columns, rows=rows, criteria=criteria, draw=lambda figure: _draw(figure, found))


def _attention(mask: Mask) -> Mixer:
    return SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask)


def _placed(kind: str, *, causal: bool = True) -> Mixer:
    placed = {"width": WIDTH, "heads": HEADS, "causal": causal, "dropout": 0.0, "rotary": None, "layer": 0}
    return place_mixer(kind, {}, placed, where="mixer")


def _point(entrant: Entrant, length: int) -> tuple[int, float, int]:
    """Columns, seconds forward and backward, bytes kept in between."""
    mixer = entrant.make()
    span = Span.of(torch.ones(1, length, dtype=torch.bool))

    def forward(x: Tensor) -> Tensor:
        with reference_mode(entrant.table):
            output: Tensor = mixer(x, span, mixer.start(1)).output
            return output

    kept, taken = costs.bytes_kept(forward, length, WIDTH), list[float]()
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    while len(taken) < 2 or (sum(taken) < ENOUGH and len(taken) < 20):
        began = time.process_time()
        forward(x).sum().backward()
        taken.append(time.process_time() - began)
    return length, min(taken), kept


def _exponents(points: list[tuple[int, float, int]]) -> tuple[float, float]:
    lengths, seconds, kept = zip(*points[-UPPER:], strict=True)
    return costs.exponent(lengths, seconds), costs.exponent(lengths, kept)


def _seconds_at(points: list[tuple[int, float, int]], length: int) -> float:
    return next((seconds for n, seconds, _ in points if n == length), float("nan"))


def _draw(figure: Figure, found: Mapping[str, list[tuple[int, float, int]]]) -> None:
    axes = figure.subplots(1, 2)
    for name, points in found.items():
        lengths, seconds, kept = zip(*points, strict=True)
        axes[0].loglog(lengths, seconds, marker=".", label=name)
        axes[1].loglog(lengths, [each / 2**20 for each in kept], marker=".")
    axes[0].set(xlabel="columns", ylabel="seconds, forward and backward")
    axes[1].set(xlabel="columns", ylabel="MiB kept for the backward pass")
    axes[0].legend(fontsize="x-small")

"""Figures of an evaluation and of music: confusions, calibration, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.core.figure import COLORS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.core.task import MetricTable

MAX_NUMBERED = 25  # rows of a square with numbers in its cells


def draw_counts(figure: Figure, table: MetricTable, *, by_size: bool = False) -> None:
    """Draw a matrix of counts, colored by the shares of each row, next to a bar for the size of each row.

    Args:
        figure: an empty figure.
        table: the counts.
        by_size: sort rows and columns by size, largest first.
    """
    names = [str(name) for name in table.columns[1:]]
    counts = [[float(number) for number in row[1:]] for row in table.rows]
    sizes = [sum(row) for row in counts]
    order = sorted(range(len(names)), key=lambda row: -sizes[row]) if by_size else list(range(len(names)))
    names, sizes = [names[row] for row in order], [sizes[row] for row in order]
    counts = [[counts[row][column] for column in order] for row in order]
    side = min(2.5 + 0.36 * len(names), 14.0)
    figure.set_size_inches(side + 3.4, side + 1)
    axes, bars = figure.subplots(1, 2, sharey=True, width_ratios=(side, 1.6))
    shares = [[number / max(size, 1.0) for number in row] for row, size in zip(counts, sizes, strict=True)]
    picture = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel=f"predicted {table.columns[0]}", ylabel=f"true {table.columns[0]}")
    figure.colorbar(picture, ax=bars, label="share of the row", shrink=0.6)
    bars.barh(range(len(names)), sizes, color=INK, height=0.6)
    bars.set(xlabel="examples", xlim=(0, 1.0 if not any(sizes) else None))
    bars.tick_params(axis="y", labelleft=False, length=0)
    bars.locator_params(axis="x", nbins=2)
    for place, row in enumerate(counts if len(names) <= MAX_NUMBERED else []):
        for column, number in enumerate(row):
            shade = "white" if shares[place][column] > 0.5 else "black"
            size = 9 if number < 1e4 else 6
            axes.text(column, place, f"{number:,.0f}", ha="center", va="center", color=shade, fontsize=size)


def draw_calibration(figure: Figure, table: MetricTable) -> None:
    """Draw the accuracy of predictions over their confidence (reliability diagram), and the size of each bin.

    Args:
        figure: an empty figure.
        table: mean confidence, accuracy and examples of each bin.
    """
    figure.set_size_inches(5.0, 5.5)
    axes, bars = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    confidences, accuracies, sizes = ([float(row[column]) for row in table.rows] for column in range(3))
    axes.plot([0, 1], [0, 1], "--", color=INK, label="perfect calibration")
    axes.plot(confidences, accuracies, "o-", color=COLORS[0], label="model")
    axes.set(ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(loc="upper left")
    bars.bar(confidences, sizes, 0.03, color=INK)
    bars.set(xlabel="confidence (probability of the prediction)", ylabel="examples")


def draw_notes(figure: Figure, frames: Sequence[Sequence[int]], steps: int, *, unit: str = "quarter notes") -> None:
    """Draw music: a bar for each note, from left to right in time, by MIDI pitch.

    A pitch in consecutive frames is one bar. The voices of a frame, from the highest, have one color each.

    Args:
        figure: an empty figure.
        frames: the pitches of each step.
        steps: steps of a unit of time.
        unit: the unit of time.
    """
    axes = figure.subplots()
    sounding: dict[int, tuple[int, int]] = {}  # by pitch: the first step, and the voice
    for time, frame in enumerate([*frames, ()]):
        for pitch in [pitch for pitch in sounding if pitch not in frame]:
            begin, voice = sounding.pop(pitch)
            bar = (begin / steps, (time - begin) / steps - 0.04)
            axes.broken_barh([bar], (pitch - 0.4, 0.8), facecolors=COLORS[voice % len(COLORS)])
        for voice, pitch in enumerate(sorted(set(frame), reverse=True)):
            sounding.setdefault(pitch, (time, voice))
    pitches = [pitch for frame in frames for pitch in frame] or [60]
    octaves = [pitch for pitch in range(0, 128, 12) if min(pitches) - 12 < pitch < max(pitches) + 12]
    axes.set_yticks(octaves, [f"C{pitch // 12 - 1}" for pitch in octaves])
    axes.set(xlabel=unit, ylabel="pitch", xlim=(0, len(frames) / steps))
    axes.set_ylim(min(pitches) - 2, max(pitches) + 2)
    axes.grid(axis="y", linewidth=0.5)

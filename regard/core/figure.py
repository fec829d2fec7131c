"""Figures as PNG and SVG, drawn by matplotlib (the extra ``plot``).

Equal numbers give equal bytes: no dates, fixed identifiers. Text in an SVG stays text, which keeps the file small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.atomic_files import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.core.task import MetricTable

SIZE = (9.0, 3.6)  # inches
MAX_NUMBERED = 12  # rows of a square with numbers in its cells
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "regard",
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
}
# The palette of Okabe and Ito, which color-blind readers can distinguish, without its yellow.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save_figure(draw: Callable[[Figure], None], folder: Path) -> list[Path]:
    """Call ``draw`` with an empty figure, write ``figure.svg`` and ``figure.png``, and return the paths."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    paths = []
    with matplotlib.rc_context(STYLE | {"axes.prop_cycle": cycler(color=COLORS)}):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.minorticks_off()  # minor ticks of a logarithmic axis would dominate the file size
        for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            file = BytesIO()
            figure.savefig(file, format=kind, dpi=120, metadata=metadata)
            write_bytes_atomically(folder / f"figure.{kind}", file.getvalue())
            paths.append(folder / f"figure.{kind}")
    return paths


def draw_counts(figure: Figure, table: MetricTable) -> None:
    """Draw a square of counts, each row colored by its shares, with numbers in the cells of a small one."""
    side = min(2.5 + 0.3 * len(table.rows), 12.0)
    figure.set_size_inches(side + 2.2, side + 1)
    counts = [[float(number) for number in row[1:]] for row in table.rows]
    shares = [[number / max(sum(row), 1.0) for number in row] for row in counts]
    axes = figure.subplots()
    picture = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    names = [str(name) for name in table.columns[1:]]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel=table.columns[0])
    figure.colorbar(picture, label=f"share of the {table.columns[0]}")
    for place, row in enumerate(counts if len(names) <= MAX_NUMBERED else []):
        for column, number in enumerate(row):
            shade = "white" if shares[place][column] > 0.5 else "black"
            axes.text(column, place, f"{number:,.0f}", ha="center", va="center", color=shade)


def draw_notes(figure: Figure, frames: Sequence[Sequence[int]], steps: int) -> None:
    """Draw music: a bar for each note, from left to right in time (quarter notes), by MIDI pitch.

    A pitch in consecutive frames is one bar; pitches of a C have a line and their name.
    """
    axes = figure.subplots()
    sounding: dict[int, int] = {}
    for time, frame in enumerate([*frames, ()]):
        for pitch in [pitch for pitch in sounding if pitch not in frame]:
            begin = sounding.pop(pitch)
            axes.broken_barh([(begin / steps, (time - begin) / steps - 0.04)], (pitch - 0.4, 0.8))
        for pitch in frame:
            sounding.setdefault(pitch, time)
    pitches = [pitch for frame in frames for pitch in frame]
    octaves = [pitch for pitch in range(0, 128, 12) if min(pitches) - 12 < pitch < max(pitches) + 12]
    axes.set_yticks(octaves, [f"C{pitch // 12 - 1}" for pitch in octaves])
    axes.set(xlabel="quarter notes", xlim=(0, len(frames) / steps), ylim=(min(pitches) - 2, max(pitches) + 2))
    axes.grid(axis="y", linewidth=0.5, alpha=0.4)

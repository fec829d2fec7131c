"""The frame of all figures (PNG and SVG), drawn by matplotlib (the extra ``plot``).

A figure has a title, named axes and a line with its source. The background is transparent and text is gray, legible
on light and dark pages. Equal data give equal bytes: no dates, fixed identifiers. Text in an SVG remains text, to keep
the file small.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.core.atomic_files import write_bytes_atomically
from regard.core.installation import extra_command
from regard.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SIZE = (9.0, 3.6)  # inches
INK = "#777777"  # contrast above 4 with white and with near-black
# The palette of Okabe and Ito, which color-blind readers can distinguish, without its yellow and black.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", INK)
DASHES = ("-", "--", ":", "-.")  # of the first 7 series, the next 7, …
MARKERS = "osD^"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "regard",
    "svg.fonttype": "none",
    "savefig.transparent": True,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.12,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.3,
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
CHARACTER = 0.075  # width of a character of the title in inches, rounded up
TICK_GAP = 4  # smallest gap of tick labels, in pixels
DECADES = 2  # a logarithmic axis with fewer has ticks at 1, 2 and 5


class Caption(NamedTuple):
    """The title of a figure, such as ``confusions · runs/reviews · test.tsv · n = 872``, and the source of its data."""

    title: str = ""
    source: str = ""


NO_CAPTION = Caption()


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require_drawing(option: str) -> None:
    """Raise ConfigError if matplotlib, which an option needs, is not installed."""
    if not can_draw():
        what = f"{option} needs matplotlib, which is not installed"
        raise ConfigError(what, where=option, help=extra_command("plot"))


def save_figure(
    draw: Callable[[Figure], None], folder: Path, caption: Caption = NO_CAPTION, *, name: str = "figure"
) -> list[Path]:
    """Call ``draw`` with an empty figure, write ``NAME.svg`` and ``NAME.png``, and return the paths."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    write_figure(draw, paths, caption)
    return paths


def write_figure(draw: Callable[[Figure], None], paths: Sequence[Path], caption: Caption = NO_CAPTION) -> None:
    """Call ``draw`` with an empty figure, and write it to each path, which ends in ``.svg`` or ``.png``."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    series = cycler(linestyle=DASHES) * cycler(color=COLORS)
    with matplotlib.rc_context(STYLE | {"axes.prop_cycle": series}):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure)
        _add_caption(figure, caption)
        _finish(figure)
        for path in paths:
            file, svg = BytesIO(), path.suffix == ".svg"
            metadata = {"Date": None, "Creator": None} if svg else {"Software": None}
            figure.savefig(file, format=path.suffix[1:], dpi=120, metadata=metadata)
            write_bytes_atomically(path, file.getvalue())


def _add_caption(figure: Figure, caption: Caption) -> None:
    width = max(int(figure.get_figwidth() / CHARACTER), 20)
    if caption.title:
        figure.suptitle(textwrap.fill(caption.title, width), x=0.01, ha="left", fontsize=10)
    if caption.source:
        figure.supxlabel(textwrap.fill(caption.source, width), x=0.01, ha="left", fontsize=7)


def _finish(figure: Figure) -> None:
    """Set the markers of the series and the ticks of logarithmic axes, after all series are drawn."""
    for axes in figure.axes:
        axes.minorticks_off()  # minor ticks of a logarithmic axis would dominate the file size
        _set_markers(axes)
        if axes.get_xscale() == "log":
            _set_ticks(axes.xaxis, _measured(axes))
        if axes.get_yscale() == "log" and math.dist(*([math.log10(x)] for x in axes.get_ylim())) < DECADES:
            low, high = axes.get_ylim()
            exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
            ticks = [digit * 10.0**exponent for exponent in exponents for digit in (1, 2, 5)]
            _set_ticks(axes.yaxis, [tick for tick in ticks if low <= tick <= high])
    figure.draw_without_rendering()
    for axes in figure.axes:
        if axes.get_xscale() == "log":
            _drop_crowded(axes)


def _set_markers(axes: Axes) -> None:
    """Change the markers of the series after the first 7, if they have markers."""
    series = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    for number, line in enumerate(series[len(COLORS) :], start=len(COLORS)):
        if line.get_marker() not in ("None", "", " ", None):
            line.set_marker(MARKERS[number // len(COLORS) % len(MARKERS)])


def _measured(axes: Axes) -> list[float]:
    """Return the distinct positive x values of all series."""
    import numpy as np

    columns = [np.asarray(line.get_xdata(), dtype=float) for line in axes.lines]
    values = {value for column in columns for value in column.tolist() if 0 < value < math.inf}
    low, high = sorted(axes.get_xlim())
    return sorted(value for value in values if low <= value <= high)


def _set_ticks(axis: Axis, values: Sequence[float]) -> None:
    if values:
        axis.set_ticks(list(values), [f"{value:,.6g}" for value in values])


def _drop_crowded(axes: Axes) -> None:
    """Remove the labels of ticks that would touch the previous label; the ticks stay."""
    end = -math.inf
    labels = axes.get_xticklabels()
    for label in labels:
        box = label.get_window_extent()
        if box.x0 < end + TICK_GAP:
            label.set_visible(False)
        else:
            end = box.x1
    axes.xaxis.set_ticks(axes.get_xticks(), [label.get_text() if label.get_visible() else "" for label in labels])

"""Figures as PNG and SVG, by matplotlib (the extra ``plot``).

The same numbers give the same bytes: no dates, fixed identifiers. Text in an SVG stays text, which keeps it small.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.atomic_files import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["can_draw", "save_figure"]

SIZE = (9.0, 3.6)  # inches
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
# The palette of Okabe and Ito, which colour-blind readers can tell apart, without its yellow.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save_figure(draw: Callable[[Figure], None], folder: Path) -> list[Path]:
    """Let ``draw`` fill an empty figure, and write ``figure.svg`` and ``figure.png``; returns the paths."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    paths = []
    with matplotlib.rc_context(STYLE | {"axes.prop_cycle": cycler(color=COLOURS)}):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.minorticks_off()  # minor ticks of a logarithmic axis would be most of the file
        for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            file = BytesIO()
            figure.savefig(file, format=kind, dpi=120, metadata=metadata)
            write_bytes_atomically(folder / f"figure.{kind}", file.getvalue())
            paths.append(folder / f"figure.{kind}")
    return paths

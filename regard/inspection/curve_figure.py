"""Training curves of a run as small multiples: one panel for each metric, and one for the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from regard.core.baseline import FOLDER, baseline_summary
from regard.core.figure import COLORS, INK
from regard.errors import DataError
from regard.inspection.run_history import is_shown, training_curves
from regard.runs.checkpoint import read_best
from regard.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # of panels
PANEL = (3.6, 3.0)  # inches, with its legend
HIDDEN = {"temperature", "majority"}  # a setting of the predictions, and a share of the data: no results of training
RATE = "learning rate"

Points = Sequence[tuple[int, float]]


class Panel(NamedTuple):
    """The curves of one metric.

    Attributes:
        name: the metric.
        unit: its unit, if it has one.
        validated: the validations, (update, value).
        trained: values of the training data.
        baselines: constants by name.
    """

    name: str
    unit: str
    validated: Points = ()
    trained: Points = ()
    baselines: Mapping[str, float] = {}


def panels(run: RunFolder) -> list[Panel]:
    """Return the panels of a run. Raises DataError if it has no updates."""
    curves = {curve["name"]: curve["points"] for curve in training_curves(run.path / "metrics.jsonl")}
    validated = {name.removeprefix("validation "): points for name, points in curves.items() if "validation " in name}
    if not curves:
        help = f"regard train --resume {run.path}"
        raise DataError("the run has no training curves", where=str(run.path / "metrics.jsonl"), help=help)
    saved = baseline_summary(run.path / FOLDER)
    metrics = run.task.metrics
    constant = {metric.baseline for metric in metrics.values()}
    drawn = []
    for name in dict.fromkeys(["loss", *validated]):
        if name in constant | HIDDEN or not is_shown(name, validated.get(name, ()), metrics):
            continue
        baselines = {} if saved is None or name not in saved.figures else {saved.description: saved.figures[name]}
        reference = metrics[name].baseline if name in metrics else None
        if isinstance(reference, float):
            baselines["no information"] = reference
        elif reference in validated:
            baselines[str(reference).replace("_", " ")] = validated[reference][-1][1]
        trained = curves.get("training loss", ()) if name == "loss" else ()
        unit = run.config.loss_unit if name == "loss" else ""
        drawn.append(Panel(name, unit, validated.get(name, ()), trained, baselines))
    return drawn + ([Panel(RATE, "", trained=curves["training rate"])] if "training rate" in curves else [])


def draw_curves(figure: Figure, run: RunFolder) -> None:
    """Draw the panels of a run; the update of the best checkpoint is a dotted line."""
    drawn, best = panels(run), read_best(run.checkpoints)
    columns = min(COLUMNS, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    figure.set_size_inches(PANEL[0] * columns, PANEL[1] * rows + 0.6)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, panel in zip(grid, drawn, strict=False):
        _draw_panel(axes, panel)
        if best is not None and panel.name != RATE:
            axes.axvline(best.step, color=INK, linestyle=":", linewidth=1, label=f"best: {best.step:,}")
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.32))  # no curve is below it
    for axes in grid[len(drawn) :]:
        axes.set_visible(False)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    if panel.trained:
        axes.plot(*zip(*panel.trained, strict=True), "-", color=COLORS[4], linewidth=1, label="training")
    if panel.validated:
        axes.plot(*zip(*panel.validated, strict=True), "o-", color=COLORS[0], label="validation")
    for color, (name, value) in zip(COLORS[1:4], panel.baselines.items(), strict=False):
        axes.axhline(value, color=color, linestyle="--", linewidth=1, label=_cut(name))
    name = panel.name.replace("_", " ")
    axes.set(title=name, xlabel="update", ylabel=f"{name}, {panel.unit}" if panel.unit else name)
    axes.locator_params(nbins=4)
    axes.locator_params(axis="x", integer=True)


def _cut(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"

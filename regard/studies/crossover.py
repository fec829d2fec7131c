"""Learning curves of the baseline, of the network alone, and of the automatic choice of both.

Claim: learning curves of simple and of flexible models cross (Perlich et al. 2003). With few examples the baseline is
better than the network alone; the network gains more from further examples. A model of both parts, trained jointly
(Cheng et al. 2016), is not worse than either at any size. The automatic choice may therefore depend on the data alone.

Measured: six tasks. They are sentiment (SST-2, accuracy), tags (UD English LinES, accuracy) and characters (lines of
tiny Shakespeare, nats). The others are links (edges of Cora, AUC), next items (generated sessions, hit rate at 10) and
translation (Multi30k, BLEU). Sizes are 100 to 30,000 examples as far as the data go. Each of five seeds draws other
examples; a share of them is held out as in ``regard train FILE``. The baseline is that of the run; the network alone
has ``model.wide = false``; both is the automatic choice. Where it has no wide part, both is the network alone. The test
part is measured once for each model: at most 1,000 examples, which are the same for all. Test sentences with a tag that
the training examples lack are left out for all models.

Thresholds: differences are paired by seed. A difference counts if a one-sided t-test has p < .05 after Holm's
correction over all tasks and sizes. No difference of both to the baseline, and none to the network alone, is below
zero. At the smallest size the baseline is better than the network alone in at least half of the tasks. From the
smallest size to the largest, the network alone gains on the baseline in at least half of the tasks.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from regard.config.explain import explain
from regard.core import VERSION
from regard.core.atomic_files import explain_os_errors, write_json
from regard.core.figure import INK
from regard.core.wording import pluralize
from regard.errors import ConfigError
from regard.studies.curve_corpora import TASKS, open_problems
from regard.studies.learning_curves import (
    CurvePoint,
    Difference,
    LineProblem,
    Problem,
    crossing,
    holm,
    paired_difference,
    train_and_measure,
)
from regard.studies.study import Cell, Criterion, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
SEEDS, SIGNIFICANT = 5, 0.05
MODELS = ("baseline", "network", "both")


def _as_list(value: Any) -> Any:
    """Return a list for one value or for values between commas, such as ``tags,links`` or ``100``."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int) else value


class Settings(BaseModel):
    """Settings of the study by ``--set``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(TASKS, min_length=1)
    sizes: Annotated[tuple[Annotated[int, Field(ge=10)], ...], BeforeValidator(_as_list)] = Field(SIZES, min_length=1)
    seeds: int = Field(SEEDS, ge=1)
    minutes: float | None = Field(None, gt=0, description="limit of each training")
    sentiment: Path | None = None
    tags: Path | None = None
    characters: Path | None = None
    links: Path | None = None
    items: Path | None = None
    translation: Path | None = None

    @field_validator("tasks")
    @classmethod
    def _known(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [task for task in tasks if task not in TASKS]
        if unknown:
            raise ValueError(f"unknown task {unknown[0]!r}; the tasks are {', '.join(TASKS)}")
        return tuple(dict.fromkeys(tasks))

    @field_validator("sizes")
    @classmethod
    def _ascending(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({*sizes}))

    @property
    def files(self) -> dict[str, Path]:
        """Files of the user by task."""
        paths = {task: getattr(self, task) for task in TASKS}
        return {task: path for task, path in paths.items() if path is not None}


def parse_settings(options: Mapping[str, Any]) -> Settings:
    """Return the settings. Raises ConfigError, with the name, for a value that is not allowed."""
    try:
        return Settings.model_validate(dict(options))
    except ValidationError as error:
        raise explain(error, Settings, (), [(name,) for name in options]) from error


class ModelValues(NamedTuple):
    """The three models of one task and size; values by seed, in equal order."""

    baseline: list[float]
    network: list[float]
    both: list[float]


Curves = dict[str, dict[int, ModelValues]]


class CurvePlan(NamedTuple):
    """Problems by name, the sizes of each, and remarks about omitted sizes."""

    problems: Mapping[str, Problem]
    sizes: Mapping[str, Sequence[int]]
    remarks: list[str]


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    data: Path | None = None,
    folder: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Findings:
    """Train all models and compare their learning curves.

    Args:
        seed: the first seed of the draws.
        minimal: whether to train two updates on generated data.
        report: receives the share of work done.
        data: folder of the public corpora.
        folder: folder for the figures of finished trainings, from which an interrupted study continues.
        options: see ``Settings``.

    Raises:
        ConfigError: for a wrong setting or missing data.
    """
    settings = parse_settings(_MINIMAL | dict(options or {}) if minimal else options or {})
    plan = _plan(_generated() if minimal else open_problems(settings.tasks, data, settings.files), settings.sizes)
    keys = [f"train.threads={torch.get_num_threads()}", *(["train.steps=2"] if minimal else [])]
    if settings.minutes is not None:
        keys.append(f"train.minutes={settings.minutes}")
    jobs = [(task, size, seed + number) for task, sizes in plan.sizes.items() for size in sizes
            for number in range(settings.seeds)]  # fmt: skip
    costs = [math.sqrt(size) for _, size, _ in jobs]  # training time grows more slowly than the data
    curves: Curves = {task: {size: ModelValues([], [], []) for size in sizes} for task, sizes in plan.sizes.items()}
    omitted: dict[str, list[int]] = defaultdict(list)
    narrow: dict[str, None] = {}  # tasks in which the automatic choice has no wide part
    spent = 0.0
    for (task, size, job_seed), cost in zip(jobs, costs, strict=True):
        report(spent / sum(costs))
        both, network = _measure(plan.problems[task], task, size, job_seed, keys, folder)
        if both.baseline is None:
            raise ConfigError("the run has no baseline", where=task, help="use more examples or another file")
        for values, value in zip(curves[task][size], (both.baseline, network.model, both.model), strict=True):
            values.append(value)
        omitted[task].append(both.omitted)
        narrow |= {} if both.wide else {task: None}
        spent += cost
    report(1.0)
    if narrow:
        plan.remarks.append(f"Both is the network alone, at some size or at all: {', '.join(narrow)}.")
    return _findings(curves, plan, omitted)


_MINIMAL: dict[str, Any] = {"sizes": [40, 80], "seeds": 1}


def _plan(problems: Mapping[str, Problem], sizes: Sequence[int]) -> CurvePlan:
    """Return the sizes that each problem has examples for. ConfigError if one is too small for all of them."""
    remarks, available = [], {}
    for task, problem in problems.items():
        available[task] = [size for size in sizes if size <= len(problem)]
        if skipped := [size for size in sizes if size > len(problem)]:
            names = ", ".join(f"{size:,}" for size in skipped)
            remarks.append(f"{task}: {names} examples are omitted; {pluralize(len(problem), 'example')} exist.")
        if not available[task]:
            help = f"--set sizes={len(problem)}"
            raise ConfigError("too few examples for every size", where=task, why=remarks[-1], help=help)
    return CurvePlan(problems, available, remarks)


def _measure(
    problem: Problem, task: str, size: int, seed: int, keys: Sequence[str], folder: Path | None
) -> tuple[CurvePoint, CurvePoint]:
    """Return the automatic choice and the network alone; they are one run if the choice has no wide part."""

    def measure(name: str, further: Sequence[str]) -> CurvePoint:
        file = folder / "rows" / f"{task}-{size}-{seed}-{name}.json" if folder else None
        return _load_or_measure(problem, size, seed, [*keys, *further], file)

    both = measure("both", [])
    return both, measure("network", ["model.wide=false"]) if both.wide else both


def _load_or_measure(problem: Problem, size: int, seed: int, keys: Sequence[str], file: Path | None) -> CurvePoint:
    """Return the figures in ``file`` if equal inputs produced them; otherwise train and write them."""
    inputs = {"size": size, "seed": seed, "keys": [*keys], "examples": problem.digest(), "version": VERSION}
    if file is not None and file.is_file():
        saved = json.loads(file.read_text(encoding="utf-8"))
        if {key: saved.get(key) for key in inputs} == inputs:
            return CurvePoint(**saved["measured"])
    measured = train_and_measure(problem, size, seed, keys)
    if file is not None:
        with explain_os_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**inputs, "measured": measured._asdict()})
    return measured


class _Row(NamedTuple):
    """A task, a size, its values, and the differences of both to the other models."""

    task: str
    size: int
    values: ModelValues
    to_baseline: Difference
    to_network: Difference


def _row(task: str, size: int, values: ModelValues, *, lower_is_better: bool) -> _Row:
    differences = (
        paired_difference(values.both, other, lower_is_better=lower_is_better)
        for other in (values.baseline, values.network)
    )
    return _Row(task, size, values, *differences)


def _findings(curves: Curves, plan: CurvePlan, omitted: Mapping[str, Sequence[int]]) -> Findings:
    rows = [
        _row(task, size, values, lower_is_better=plan.problems[task].lower_is_better)
        for task, cells in curves.items()
        for size, values in cells.items()
    ]
    corrected = holm([row.to_baseline.p for row in rows])
    gaps = {task: _gaps(cells, plan.problems[task]) for task, cells in curves.items()}
    crossings = {task: crossing([*curves[task]], values) for task, values in gaps.items()}
    remarks = [*plan.remarks, "The network alone is better than the baseline: "
               + "; ".join(f"{task} {_from(value)}" for task, value in crossings.items()) + "."]  # fmt: skip
    if any(map(sum, omitted.values())):
        counts = ", ".join(f"{task} up to {max(values)}" for task, values in omitted.items() if sum(values))
        remarks.append(f"Test examples left out, as they have a label that the training examples lack: {counts}.")
    metrics = ", ".join(f"{task} {problem.metric}" for task, problem in plan.problems.items())
    return Findings(
        columns=("task", "examples", *(f"{name}{part}" for name in (*MODELS, "both − baseline") for part in ("", " ±")),
                 "p (Holm)", "seeds"),
        rows=[_cells(row, p) for row, p in zip(rows, corrected, strict=True)],
        criteria=_criteria(rows, gaps, corrected),
        remarks=(f"Metrics: {metrics}. A positive difference means that both parts are better. ± are standard errors.",
                 *remarks),
        draw=lambda figure: _draw(figure, curves, crossings, plan.problems),
    )  # fmt: skip


def _gaps(cells: Mapping[int, ModelValues], problem: Problem) -> list[float]:
    """Return by size how much better the network alone is than the baseline, on average."""
    lower = problem.lower_is_better
    return [paired_difference(cell.network, cell.baseline, lower_is_better=lower).mean for cell in cells.values()]


def _criteria(rows: Sequence[_Row], gaps: Mapping[str, Sequence[float]], corrected: Sequence[float]) -> list[Criterion]:
    half = len(gaps) / 2
    starts = sum(values[0] < 0 for values in gaps.values())
    gains = sum(values[-1] > values[0] for values in gaps.values())
    of_network = holm([row.to_network.p for row in rows])
    return [
        at_most("tasks and sizes with both below the baseline", _significant(corrected), 0),
        at_most("tasks and sizes with both below the network alone", _significant(of_network), 0),
        at_least("tasks with the network alone below the baseline at the smallest size", starts, half),
        at_least("tasks in which the network alone gains on the baseline", gains, half),
    ]


def _significant(corrected: Sequence[float]) -> float:
    """Return the number of significant p-values; NaN, which never holds, if any is undefined (a single seed)."""
    return math.nan if any(map(math.isnan, corrected)) else sum(p < SIGNIFICANT for p in corrected)


def _cells(row: _Row, p: float) -> tuple[Cell, ...]:
    summaries = [number for values in row.values for number in (fmean(values), _error(values))]
    return (row.task, row.size, *summaries, *row.to_baseline[:2], p, len(row.values.both))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; NaN for a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def _from(size: float) -> str:
    if size == 0:
        return "at every size"
    return "at no size" if math.isinf(size) else f"from {size:,.0f} examples on"


def _draw(
    figure: Figure, curves: Curves, crossings: Mapping[str, float], problems: Mapping[str, Problem]
) -> None:  # fmt: skip
    across = min(len(curves), 3)
    down = math.ceil(len(curves) / across)
    figure.set_size_inches(3.0 * across, 2.7 * down)
    for number, (task, cells) in enumerate(curves.items(), start=1):
        axes = figure.add_subplot(down, across, number)
        _draw_task(axes, cells, crossings[task])
        axes.set(title=task, xscale="log", xlabel="examples", ylabel=problems[task].metric.replace("_", " "))
        if number == 1:
            axes.legend()


def _draw_task(axes: Axes, cells: Mapping[int, ModelValues], crossed: float) -> None:
    """Draw the curves of one task, with standard errors, and a dashed line at the crossing."""
    for index, name in enumerate(MODELS):
        values = [cell[index] for cell in cells.values()]
        errors = [0.0 if math.isnan(error) else error for error in map(_error, values)]
        axes.errorbar([*cells], [fmean(own) for own in values], errors, marker="o", capsize=2, label=name)
    if 0 < crossed < math.inf:
        axes.axvline(crossed, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"{crossed:,.0f}", (crossed, 1), xycoords=("data", "axes fraction"), fontsize=7)


def _generated() -> dict[str, Problem]:
    """Return a small generated problem, for the minimal version."""
    words = {"good": ("fine", "great", "lovely"), "bad": ("poor", "dull", "awful")}
    texts = [f"the film number {number} is {word} indeed\t{label}\n"
             for number in range(30) for label, own in words.items() for word in own]  # fmt: skip
    sentiment = LineProblem(texts[60:], texts[:60], "data.tsv", "accuracy", keys=("task=classification",))
    return {"sentiment": sentiment}

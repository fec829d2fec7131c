"""Results of a comparison (quality with spread, sizes and speeds) as a text table, as Markdown and as a figure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.core.figure import INK
from regard.metrics.text import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME_WIDTH = 25  # characters; the text table then fits into 100 columns


class Summary(NamedTuple):
    """A row summarized over its seeds: means, and the maximum of memory; None if no seed has a value yet."""

    name: str
    seeds: int
    values: list[float]
    parameters: int | None
    updates: float | None
    minutes: float | None  # updates only
    train_speed: float | None  # target tokens per second, without padding
    decode_speed: float | None  # output tokens per second
    memory: int | None  # bytes, peak of training
    errors: list[str]

    @property
    def mean(self) -> float | None:
        """Mean over seeds; None without values."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Sample standard deviation over seeds; None for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def summarize(name: str, members: Sequence[Mapping[str, Any]]) -> Summary:
    """Summarize the members of one row, given as in ``results.json``."""
    done = [member for member in members if member["state"] == "done"]

    def mean(key: str) -> float | None:
        return statistics.fmean(member[key] for member in done) if done else None

    seconds = mean("train_seconds")
    return Summary(
        name=name,
        seeds=len(members),
        values=[member["value"] for member in done],
        parameters=done[0]["parameters"] if done else None,
        updates=mean("updates"),
        minutes=None if seconds is None else seconds / 60,
        train_speed=mean("train_tokens_per_second"),
        decode_speed=mean("decode_tokens_per_second"),
        memory=max((member["peak_memory"] for member in done), default=None),
        errors=list(dict.fromkeys(member["error"]["what"] for member in members if member["state"] == "failed")),
    )


def lower_is_better(metric: str) -> bool:
    """Return whether lower values of a metric, or of ``loss``, are better."""
    return metric == "loss" or METRICS[metric].lower_is_better


HEAD = ("±", "seeds", "params", "updates", "minutes", "train/s", "decode/s", "memory")
WIDTHS = (7, 7, 6, 8, 10, 8, 10, 9, 10)


def text_table(rows: Sequence[Summary], metric: str) -> str:
    """Format the rows with columns of fixed width, at most 100 characters in total."""
    lines = [f"{metric:>{NAME_WIDTH + WIDTHS[0]}}" + _aligned(HEAD, WIDTHS[1:])]  # leaves space for long metric names
    for row in rows:
        name = row.name if len(row.name) < NAME_WIDTH else row.name[: NAME_WIDTH - 2] + "…"
        lines.append(f"{name:<{NAME_WIDTH}}" + _aligned(_cells(row, metric), WIDTHS))
        lines += [f"  {error}"[:99] for error in row.errors]
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _cells(row: Summary, metric: str) -> list[str]:
    digits = 4 if metric == "loss" else 2
    done = len(row.values)
    return [
        "failed" if not done and row.errors else _shown(row.mean, f".{digits}f"),
        _shown(row.spread, f".{digits}f"),
        str(done) if done == row.seeds else f"{done}/{row.seeds}",
        _short(row.parameters),
        _shown(row.updates, ",.0f"),
        _shown(row.minutes, ".3g"),
        _shown(row.train_speed, ",.0f"),
        _shown(row.decode_speed, ",.0f"),
        "–" if row.memory is None else f"{row.memory / 2**20:,.0f} MB",
    ]


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _short(number: int | None) -> str:
    """Format a number with three digits: 17.7k, 6.35M, 1.3G."""
    if number is None:
        return "–"
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}" if number < 999.5 * size else f"{number / size:.0f}{letter}"
    return str(number)


def markdown(results: Mapping[str, Any], rows: Sequence[Summary]) -> str:
    """Format the table as Markdown, followed by everything that determines the figures."""
    metric, machine = results["metric"], results["environment"]
    head = [metric, *HEAD]
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for row in rows:
        lines.append(f"| {_escaped(row.name)} | " + " | ".join(_cells(row, metric)) + " |")
    failures = [f"- {row.name}: {error}" for row in rows for error in row.errors]
    better = "lower" if lower_is_better(metric) else "higher"
    notes = [
        f"{metric} ({better} is better), mean and sample standard deviation (±) over seeds; on {results['test']}.",
        "Minutes count updates only; speeds are in target tokens per second; memory is the peak of training.",
        "",
        f"- command: `{results['command']}`",
        f"- budget: {results['budget'] or 'that of the configs'}; seeds: {results['seeds']}",
        *(f"- signature: `{signature}`" for signature in results["signatures"]),
        f"- machine: {machine['accelerator'] or machine['processor']}, {machine['cores']} cores, {machine['system']}",
        f"- versions: regard {machine['regard']}, torch {machine['torch']}, Python {machine['python']}",
        f"- written: {machine['written']}",
    ]
    return "\n".join([*lines, "", *notes, *(["", "Failed:", "", *failures] if failures else []), ""])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def draw(figure: Figure, rows: Sequence[Summary], metric: str) -> None:
    """Draw quality with every seed and the spread, and both speeds, with rows in the order of the table."""
    shown = [row for row in rows if row.values]
    figure.set_size_inches(9.0, 1.3 + 0.3 * len(shown))
    quality, train, decode = figure.subplots(1, 3, sharey=True)
    positions = range(len(shown))
    for position, row in zip(positions, shown, strict=True):
        quality.plot(row.values, [position] * len(row.values), ".", color=INK)
        quality.errorbar(row.mean, position, xerr=row.spread or 0.0, fmt="o", capsize=3, color="C0")
    train.barh(positions, [row.train_speed for row in shown], color="C2", height=0.6)
    decode.barh(positions, [row.decode_speed for row in shown], color="C1", height=0.6)
    quality.set_yticks(list(positions), [row.name for row in shown])
    quality.invert_yaxis()
    quality.grid(axis="x")
    better = "lower" if lower_is_better(metric) else "higher"
    quality.set(xlabel=f"{metric}, {better} is better", ylabel="recipe")
    train.set_xlabel("training, target tokens/s")
    decode.set_xlabel("decoding, tokens/s")

"""One or two sentences about a model: its purpose, and its validation metric compared with its baseline."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from regard.core.language_names import NAMES
from regard.core.untrusted_files import shortened
from regard.runs import checkpoint
from regard.runs.network_comparison import read_comparison
from regard.runs.run_examples import read_examples
from regard.runs.run_folder import RunFolder

SPELLED = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "macro_f1": "Macro F1",
    "auc": "AUC",
    "rouge-l": "ROUGE-L",
}  # others: as they are
BASELINES = {  # of figures of models that ignore their inputs, or all but one word
    "majority": "the most frequent label", "most_frequent_tag": "the most frequent tag of each word",
    "popular_hit_rate_10": "the most popular items", "unigram_accuracy": "the most frequent token",
}  # fmt: skip


def about(run: RunFolder, purpose: str, curves: Sequence[Mapping[str, Any]]) -> str:
    """Return sentences on the purpose and the quality of a model. Unknown parts are omitted.

    Args:
        run: the run of the model.
        purpose: the purpose of its predictor (``PredictorInterface.purpose``); translation adds the languages.
        curves: the training curves, with metrics by step (``run_history.training_curves``).
    """
    if "translate" in run.task.serves:
        purpose = _translation(*run.config.languages)
    return " ".join(part for part in (purpose, _quality(run, curves)) if part)


def _translation(source: str | None, target: str | None) -> str:
    names = [NAMES.get(code, shortened(code, 40)) for code in (source, target) if code]
    if len(names) < 2:
        return "Translates a text."
    return f"Writes {names[1]} texts for {names[0]} texts." if source == target else f"Translates {' to '.join(names)}."


def _quality(run: RunFolder, curves: Sequence[Mapping[str, Any]]) -> str:
    """Return the main validation metric of the model and of its baseline."""
    weight = read_examples(run).validation
    data = "the validation data" if weight is None else _counted(run.task.unit, weight)
    compared = read_comparison(run.path)
    name = None if compared is None else _main_metric(run, compared.metrics)
    if compared is None or name is None:
        return _validated(run, curves, data)
    figures, baseline = compared.metrics[name], shortened(" ".join(compared.description.split()), 100)
    other = _value(name, figures.baseline)
    if run.is_baseline():
        return f"It is a baseline without a network ({baseline}), with {_spelled(name)} {other} on the validation data."
    return f"{_spelled(name)} {_value(name, figures.network)} on {data}; the baseline ({baseline}) has {other}."


def _validated(run: RunFolder, curves: Sequence[Mapping[str, Any]], data: str) -> str:
    """Return the main metric of the best checkpoint, and that of a model that ignores its inputs."""
    best = checkpoint.read_best(run.checkpoints)
    if best is None:
        return ""
    figures = {best.metric: best.value}
    for curve in curves:
        kind, _, name = curve["name"].partition(" ")
        at_best = dict(curve["points"]).get(best.step) if kind == "validation" else None
        figures |= {} if at_best is None else {name: at_best}
    name = _main_metric(run, figures) or best.metric
    sentence = f"{_spelled(name)} {_value(name, figures[name])} on {data}"
    ignorant = run.task.metrics[name].baseline if name in run.task.metrics else None
    if isinstance(ignorant, str) and ignorant in figures:
        baseline = f" ({BASELINES[ignorant]})" if ignorant in BASELINES else ""
        sentence += f"; the baseline{baseline} has {_value(name, figures[ignorant])}"
    return f"{sentence}."


def _main_metric(run: RunFolder, figures: Collection[str]) -> str | None:
    """Return the first metric of the task that was measured, otherwise the first measured one, or None."""
    return next((name for name in (*run.task.metrics, *figures) if name in figures), None)


def _counted(unit: str, weight: int) -> str:
    return f"{weight:,} validation {unit if weight != 1 else unit.removesuffix('s')}"


def _plain(name: str) -> str:
    return shortened(re.sub(r" (\d+)$", r" at \1", " ".join(name.replace("_", " ").split())), 40)


def _spelled(name: str) -> str:
    return SPELLED.get(name, _plain(name).capitalize())


def _value(name: str, value: float) -> str:
    return f"{value:.1%}".replace("%", " %") if name.endswith("accuracy") else f"{value:.4g}"

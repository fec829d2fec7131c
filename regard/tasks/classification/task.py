"""Classification as a task: the record that training, validation and serving go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.contents import PreparedParts
from regard.core.state import State
from regard.core.task import (
    Advance,
    Card,
    Data,
    LossTerms,
    Metric,
    MetricSums,
    MetricTable,
    Objective,
    Report,
    RunFiles,
    Task,
)
from regard.core.wording import counted
from regard.data.shared_files import FilesConfig
from regard.errors import DataError
from regard.metrics.classes import calibration_error, class_metrics, class_tables
from regard.metrics.label_sets import label_set_metrics, label_set_tables
from regard.metrics.numbers import number_metrics
from regard.models.classifier import SequenceClassifier, build_classifier
from regard.tasks.answer_losses import best_temperature, class_loss, label_set_loss, number_loss
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.codecs import LabelCodec, make_codec, open_codec, open_run
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.examples import LabelledBatch, LabelledExamples, network_inputs
from regard.tasks.classification.labelled_text import LabelledText, read_labelled, read_labelled_part, read_texts
from regard.tasks.held_out_samples import validated_on
from regard.tasks.split import is_own_split, report_moved

__all__ = ["TASK"]


def _prepare(run: RunFiles, say: Report, progress: Advance | None = None) -> Data:
    config: ClassificationConfig = run.config
    codec = make_codec(run, say) if run.makes_codecs else open_codec(run)
    parts = PreparedParts(run.contents, say)

    def examples(name: str, rows: list[LabelledText], corpora: tuple[FilesConfig, ...]) -> LabelledExamples:
        if not rows:
            raise DataError("there is no example", where=corpora[0].name, why="the files, or their share, are empty")
        found = LabelledExamples(rows, config, codec)
        cut = f", {sum(found.cut):,} of them cut to {config.data.max_length} pieces" if any(found.cut) else ""
        report = f"{name}: {counted(len(found), 'example')}{cut}"
        parts.add(name, found.digest(), report, what="texts", where=corpora[0].name)
        return found

    valid, data = None, config.data
    if data.valid:
        rows = read_labelled_part(data, "valid")
        report_moved(data, lambda corpora: read_labelled(corpora, data), len(rows), say)
        valid = examples("valid", rows, data.valid) if rows or not is_own_split(data) else None
    train = examples("train", read_labelled_part(data, "train"), data.train)
    return Data(train, valid, codec, codec.spec, parts.contents, max(map(len, train.rows)))


def _build(config: ClassificationConfig, spec: Mapping[str, int]) -> SequenceClassifier:
    return build_classifier(config.model, types=spec["types"], classes=spec["classes"])


def _objective(config: ClassificationConfig) -> Objective:
    """Loss of the label, times the row's cost, under the label smoothing of the config."""
    smoothing, kind = config.train.label_smoothing, config.data.label_kind

    def loss(net: nn.Module, batch: LabelledBatch, carry: State = ()) -> LossTerms:
        logits = net(*network_inputs(batch.tokens, batch.valid)).logits
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        if kind == "number":
            found = number_loss(logits[:, 0], batch.label, batch.unit)
        elif kind == "several":
            found = label_set_loss(logits, batch.label)
        else:
            found = class_loss(logits, batch.label, smoothing=smoothing, evaluating=not net.training)
        return LossTerms((found.loss * batch.cost.to(found.loss.dtype)).sum(), found.sums)

    return loss


def _compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Figures of the kind of label whose sums these are.

    ``temperature``: the divisor of logits under which these examples are likeliest. ``scaled_calibration_error``: that
    of the probabilities that the predictor tells, which are divided by the temperature of validation.
    """
    if "moments" in sums:
        return number_metrics(sums)
    if "label_counts" in sums:
        return label_set_metrics(sums)
    found = class_metrics(sums)
    if "scaled_nll" in sums:
        found["temperature"] = best_temperature(sums)
    if "scaled_reliability" in sums:
        found["scaled_calibration_error"] = calibration_error(sums["scaled_reliability"])
    return found


def _tables(sums: MetricSums, codec: LabelCodec) -> Mapping[str, MetricTable]:
    if "confusion" in sums:
        return class_tables(sums, codec.labels.names)
    return label_set_tables(sums, codec.labels.names) if "label_counts" in sums else {}


def _predictor(net: Any, codecs: LabelCodec, config: ClassificationConfig, *, engine: Any = None) -> Classifier:
    return Classifier(net, codecs, config, engine)


def _sample(folder: Path) -> dict[str, Any]:
    """Short texts of which the label is the first word's kind."""
    kinds = {"good": "fine great lovely".split(), "bad": "poor dull awful".split()}
    lines = [
        f"{word} {' '.join('a film it is'.split()[: 1 + at])}\t{label}\n"
        for label, words in kinds.items() for at, word in enumerate(words)
    ]  # fmt: skip
    (folder / "sample.tsv").write_text("".join(lines), encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus]},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention"},
        "train": {"batch_tokens": 16},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "fine a film\tgood\npoor a\tbad\n", "a zebra\tbad\nfine\tbad\nquite dull it\tgood\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield texts, labels and places: see ``core.task.Task.lint_rows``."""
    for each in read_labelled(corpora, data):
        yield "\t".join(each.texts), "\n".join(sorted(each.labels)), each.where


TASK = Task(
    name="classification",
    unit="texts",
    open=open_run,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8, "classes": 2},
    objective=_objective,
    predictor=_predictor,
    compute_metrics=_compute_metrics,
    metrics={
        "accuracy": Metric(lower_is_better=False, baseline="majority"),
        "macro_f1": Metric(lower_is_better=False),
        "calibration_error": Metric(lower_is_better=True),
        "majority": Metric(lower_is_better=False),
        "temperature": Metric(lower_is_better=True, ratio=False),
        "scaled_calibration_error": Metric(lower_is_better=True, by_predictor=True),
        "exact_match": Metric(lower_is_better=False),
        "micro_f1": Metric(lower_is_better=False, baseline="usual_micro_f1"),
        "usual_micro_f1": Metric(lower_is_better=False),
        "rmse": Metric(lower_is_better=True, baseline="mean_rmse"),
        "mae": Metric(lower_is_better=True),
        "pearson": Metric(lower_is_better=False),
        "mean_rmse": Metric(lower_is_better=True),
    },
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_texts,
    lint_rows=_lint_rows,
    sample_lines=("a fine film", "dull", "it is", ""),
    tables=_tables,
    card=Card("text-classification", 'print(model(["…"])[0])', "classify {run} < in.txt"),
)

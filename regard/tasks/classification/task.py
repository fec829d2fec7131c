"""Classification as a task: the record that training, validation and serving go by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.core import atomic_files
from regard.core.state import State
from regard.core.task import Advance, Card, Data, LossTerms, Metric, Objective, Report, RunFiles, Task
from regard.errors import DataError
from regard.metrics.classes import class_metrics, class_tables, prediction_sums
from regard.models.classifier import SequenceClassifier, build_classifier
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.codecs import LabelCodec, make_codec, open_codec, open_run
from regard.tasks.classification.config import ClassificationConfig, LabelledConfig
from regard.tasks.classification.examples import LabelledBatch, LabelledExamples

__all__ = ["TASK"]


def _prepare(run: RunFiles, say: Report, progress: Advance | None = None) -> Data:
    config: ClassificationConfig = run.config
    codec = make_codec(run, say) if run.makes_codecs else open_codec(run)
    known, contents = run.contents or {}, dict[str, str]()

    def examples(name: str, corpora: tuple[LabelledConfig, ...]) -> LabelledExamples:
        found = LabelledExamples(corpora, config.data, codec, tokens=config.train.batch_tokens, seed=config.seed)
        contents[name] = found.digest()
        if known.get(name, contents[name]) != contents[name]:
            what = "the texts are not those that the run began with"
            raise DataError(what, where=corpora[0].name, help="restore them, or begin another run")
        most = config.data.max_length
        cut = f", {sum(found.cut):,} of them cut to {most} pieces" if any(found.cut) else ""
        say(f"{name}: {len(found):,} examples{cut}")
        atomic_files.fault_point("corpus")
        return found

    valid = examples("valid", config.data.valid) if config.data.valid else None
    train = examples("train", config.data.train)
    return Data(train, valid, codec, codec.spec, contents, max(map(len, train.rows)))


def _build(config: ClassificationConfig, spec: Mapping[str, int]) -> SequenceClassifier:
    return build_classifier(config.model, types=spec["types"], classes=spec["classes"])


def _objective(config: ClassificationConfig) -> Objective:
    """Cross-entropy of the label, in nats, times the row's cost, under the label smoothing of the config."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: LabelledBatch, carry: State = ()) -> LossTerms:
        logits = net(batch.tokens, batch.valid).logits
        log_p = logits.float().log_softmax(-1) if logits.dtype.itemsize < 4 else logits.log_softmax(-1)
        nll = -log_p.gather(1, batch.label[:, None])[:, 0]
        smoothed = (1 - smoothing) * nll - smoothing * log_p.mean(-1)
        sums = {"nll": nll.detach().double().sum(), **prediction_sums(log_p.detach(), batch.label)}
        return LossTerms((smoothed * batch.cost.to(smoothed.dtype)).sum(), sums)

    return loss


def _predictor(net: Any, codecs: LabelCodec, config: ClassificationConfig, *, engine: Any = None) -> Classifier:
    return Classifier(net, codecs, config)


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


TASK = Task(
    name="classification",
    open=open_run,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8, "classes": 2},
    objective=_objective,
    predictor=_predictor,
    compute_metrics=class_metrics,
    metrics={
        "accuracy": Metric(lower_is_better=False),
        "macro_f1": Metric(lower_is_better=False),
        "calibration_error": Metric(lower_is_better=True),
        "majority": Metric(lower_is_better=False),
    },
    sample=_sample,
    sample_lines=("a fine film", "dull", "it is", ""),
    tables=lambda sums, codec: class_tables(sums, codec.labels.names),
    card=Card("text-classification", 'print(model(["…"])[0].label)', "classify {run} < in.txt"),
)

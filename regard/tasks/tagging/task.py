"""Tagging as a task: the record that training, validation and serving go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.attention.mask import Span
from regard.core.contents import PreparedParts
from regard.core.state import State
from regard.core.task import Advance, Card, Data, LossTerms, Metric, MetricSums, Objective, Report, RunFiles, Task
from regard.core.wording import counted
from regard.errors import ConfigError
from regard.metrics.classes import class_metrics, class_tables, prediction_sums
from regard.models.cross_entropy import smoothed_nll
from regard.models.tagger import TokenTagger, build_tagger
from regard.tasks.held_out_samples import validated_on
from regard.tasks.split import is_own_split, report_moved
from regard.tasks.tagging.codecs import TagCodec, make_codec, open_codec, open_run
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.examples import NO_TAG, TaggedBatch, TaggedExamples
from regard.tasks.tagging.tagged_text import read_tagged, read_tagged_part, read_words
from regard.tasks.tagging.tagger import Tagger

__all__ = ["TASK"]


def _prepare(run: RunFiles, say: Report, progress: Advance | None = None) -> Data:
    config: TaggingConfig = run.config
    codec = make_codec(run, say) if run.makes_codecs else open_codec(run)
    if config.train.best_by == "entity_f1" and codec.scheme is None:
        why = f"no tags of spans (IOB1, IOB2, IOBES, BILOU), such as B-X, I-X, O: {', '.join(codec.tags.names[:5])} …"
        raise ConfigError("entity_f1 cannot be measured", where="train.best_by", why=why, help="accuracy, or macro_f1")
    parts = PreparedParts(run.contents, say)

    def examples(name: str) -> TaggedExamples:
        found = TaggedExamples(name, config, codec)
        tokens, further = int(found.token_counts().sum()), len(found) - len(found.sentences)
        longest = config.data.max_length
        cut = f", {counted(further, 'more part')} of those longer than {longest} pieces" if further else ""
        report = f"{name}: {counted(tokens, 'token')} in {counted(len(found.sentences), 'sentence')}{cut}"
        parts.add(name, found.digest(), report, what="sentences", where=found.where(0))
        return found

    valid, data = None, config.data
    if data.valid:
        left = len(read_tagged_part(data, "valid"))
        report_moved(data, lambda corpora: read_tagged(corpora, data), left, say)
        valid = examples("valid") if left or not is_own_split(data) else None
    train = examples("train")
    return Data(train, valid, codec, codec.spec, parts.contents, max(len(row.columns) for row in train.rows))


def _build(config: TaggingConfig, spec: Mapping[str, int]) -> TokenTagger:
    return build_tagger(config.model, types=spec["types"], classes=spec["classes"])


def _objective(config: TaggingConfig) -> Objective:
    """Cross-entropy of the tag of each token, in nats, under the label smoothing of the config."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: TaggedBatch, carry: State = ()) -> LossTerms:
        chosen = batch.tag != NO_TAG
        logits, tag = net(batch.tokens, Span.of(batch.valid))[chosen], batch.tag[chosen]
        log_p = logits.float().log_softmax(-1) if logits.dtype.itemsize < 4 else logits.log_softmax(-1)
        smoothed, nll = smoothed_nll(log_p, tag, smoothing=smoothing)
        sums = {"nll": nll.detach().double(), **prediction_sums(log_p.detach(), tag)}
        return LossTerms(smoothed, sums | {"usual": (batch.usual[chosen] == tag).sum().double()})

    return loss


def _compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Figures of tokens as in ``class_metrics``; ``most_frequent_tag``: accuracy of the tag a word had most often.

    ``entity_f1``: 2 · both / (wanted + told) spans, where the tags spell spans.
    """
    found = class_metrics(sums)
    found["most_frequent_tag"] = float(sums["usual"]) / float(sums["confusion"].sum())
    if "spans" in sums:
        wanted, told, both = sums["spans"].tolist()
        found["entity_f1"] = 2 * both / max(wanted + told, 1.0)
    return found


def _predictor(net: Any, codecs: TagCodec, config: TaggingConfig, *, engine: Any = None) -> Tagger:
    return Tagger(net, codecs, config, engine)


def _sample(folder: Path) -> dict[str, Any]:
    """Short sentences of which each word tells its tag, but for one that its neighbour tells."""
    kinds = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "sees": "VERB", "hears": "VERB"}
    lines = [
        "the dog sees a cat",
        "a cat hears",
        "the run",
        "cat run a dog",
        "a dog hears the cat",
        "the cat sees the run",
    ]
    told = ""
    for line in lines:
        before = ""
        for word in line.split():
            tag = kinds.get(word, "NOUN" if kinds.get(before) == "DET" else "VERB")
            told, before = told + f"{word}\t{tag}\n", word
        told += "\n"
    (folder / "sample.tsv").write_text(told, encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "hidden_tokens": 0.1},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "affixes": 50},
        "train": {"batch_tokens": 16},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "the\tDET\ndog\tNOUN\n\n", "zebras\tVERB\nrun\tDET\nthe\tNOUN\n\nquickly\tVERB\n\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _lint_rows(data: Any, corpora: Sequence[Any]) -> Iterator[tuple[str, str | None, str]]:
    """Yield words, tags and places: see ``core.task.Task.lint_rows``."""
    for each in read_tagged(corpora, data):
        yield " ".join(each.tokens), "\n".join(each.tags), each.where


TASK = Task(
    name="tagging",
    unit="words",
    open=open_run,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8, "classes": 2},
    objective=_objective,
    predictor=_predictor,
    compute_metrics=_compute_metrics,
    metrics={
        "accuracy": Metric(lower_is_better=False, baseline="most_frequent_tag"),
        "macro_f1": Metric(lower_is_better=False),
        "calibration_error": Metric(lower_is_better=True),
        "majority": Metric(lower_is_better=False),
        "most_frequent_tag": Metric(lower_is_better=False),
        "entity_f1": Metric(lower_is_better=False, by_predictor=True),
    },
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_words,
    lint_rows=_lint_rows,
    sample_lines=("the dog runs", "run", '["a", "cat"]', ""),
    tables=lambda sums, codec: class_tables(sums, codec.tags.names),
    card=Card("token-classification", 'print(model(["…"])[0].tags)', "tag {run} < in.txt"),
)

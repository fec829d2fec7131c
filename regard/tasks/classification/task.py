"""Classification: predict a class, several labels or a number for an input such as one or several texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.answers.label_set import SeveralLabels
from regard.answers.number import Number
from regard.answers.one_class import OneClass
from regard.core.export_forms import EncoderForm
from regard.models.classifier import SequenceClassifier, build_classifier
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.inputs import input_of
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.held_out_samples import validated_on
from regard.tasks.row_inputs import forward_form
from regard.tasks.supervised import Supervised


def _build(config: ClassificationConfig, spec: Mapping[str, int]) -> SequenceClassifier:
    input = input_of(config.data.input).network(config.model, spec)
    return build_classifier(config.model, input, classes=spec["classes"], window=config.data.window)


def _sample(folder: Path) -> dict[str, Any]:
    """Write short texts whose label depends on their first word."""
    kinds = {"good": "fine great lovely".split(), "bad": "poor dull awful".split()}
    lines = [
        f"{word} {' '.join('a film it is'.split()[: 1 + number])}\t{label}\n"
        for label, words in kinds.items() for number, word in enumerate(words)
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


def _export_form(config: ClassificationConfig) -> EncoderForm:
    data, model, obstacles = config.data, config.model, dict[str, str]()
    if model.pooling != "first":
        obstacles[f"its pooling is {model.pooling}"] = "model.pooling=first"
    if model.pairs == "apart":
        obstacles["it encodes texts separately"] = "model.pairs=together"
    if data.window is not None:
        obstacles["it reads long texts in windows"] = "data.long_texts=cropped"
    if model.wide:
        obstacles["a baseline is added to its outputs"] = "model.wide=false"
    if data.input != "text":
        obstacles[f"its input is {data.input}, but the exported model reads tokens"] = ""
    form = EncoderForm(
        head="sequence", longest=config.longest, label_kind=data.label_kind, obstacles=obstacles,
        texts=lambda: (text for text, _, _ in input_of("text").lint_rows(data, (data.valid or data.train)[:1])),
    )  # fmt: skip
    if data.input == "text":
        return form
    files = forward_form(config, input_of(data.input).row_inputs)
    return replace(form, texts=files.texts, read=files.read)


CLASSIFICATION = Supervised(
    fields=lambda config: {config.data.input: input_of(config.data.input).field(config.data, config.model)},
    answer=lambda config: make_answer(config.data),
    answers=(OneClass, SeveralLabels, Number),
    rows=lambda data, corpora: input_of(data.input).rows(data, corpora),
    baseline=lambda config: input_of(config.data.input).baseline(config.data),
)
TASK = CLASSIFICATION.task(
    name="classification",
    unit="examples",
    build=_build,
    small_spec={"types": 8, "channels": 8, "classes": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=lambda config, path, columns: input_of(config.data.input).row_inputs(config, path, columns),
    lint_rows=lambda data, corpora: input_of(data.input).lint_rows(data, corpora),
    export_form=_export_form,
    lint_unit=lambda data: input_of(data.input).lint_unit,
    sample_lines=("a fine film", "dull", "it is", ""),
    card=lambda config: input_of(config.data.input).card,
)

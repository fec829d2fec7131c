"""A classifier's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.data.column_names import LABELS, first_of, text_columns
from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.inputs import INPUTS
from regard.tasks.classification.label_columns import LabelColumns, fasta_labels, labeled_columns, unnamed_label_column
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.found_files import common_head, describe_columns, found_corpus, held_out_parts


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for columns that are named as text and label, or whose cells may be labels, and for arrays."""
    common, named = common_head(files), given.get("data", {})
    if common is None:
        return Confidence.NONE
    if common.head.form == "npz":
        return Confidence.FORM if INPUTS.keys() & {*common.head.names} else Confidence.NONE
    if names := common.head.names:
        texts = text_columns(names) or "text" in named
        labels = first_of([name for name in names if name not in text_columns(names)], LABELS) or "label" in named
        return Confidence.NONE if not texts else Confidence.NAMES if labels else Confidence.CONTENTS
    fasta = common.head.form == "fasta" and given.get("task") == "classification"
    return Confidence.CONTENTS if fasta or common.head.form == "tsv" else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """Choose a classifier where columns are texts and labels, by their names or by their cells; else None."""
    corpus = found_corpus(files)
    if corpus is None or corpus.head.form == "npz":
        return None
    found = labeled_columns(corpus.first, given.get("data", {}))
    if found is None and corpus.head.form == "tsv" and not corpus.head.names:
        found = unnamed_label_column(corpus.first)
    if found is None and corpus.head.form == "fasta" and given.get("task") == "classification":
        found = fasta_labels(corpus.first)
    if found is None:
        return None
    total, spaced = found.examples, found.spaced
    small = total <= 20_000
    parts, told = held_out_parts(corpus, valid, examples="texts", hashed="what they say", keys=_keys(found))
    settings = training_settings(given, epochs=10 if small else 5, early_stopping=4)
    if not spaced:  # letters carry less than words do
        settings = training_settings(given, epochs=40, early_stopping=10)
    reasons = [f"{found.told}: a classifier (task.kind = classification)", told]
    if corpus.head.names:
        labels = found.data["label"]
        labels = [labels] if isinstance(labels, str) else labels
        reasons += describe_columns(corpus, {"text": found.data["text"], "label": labels})
    elif corpus.head.form == "fasta":
        reasons.append("the label of a record is the last word of the line above its sequence")
    else:
        reasons[0] += "; --task translation would learn to write them"
    model: dict[str, Any] = {"preset": "tiny" if small else "small", "pooling": "attention"}
    if not spaced:
        reasons.append("texts have no spaces: letter by letter, by convolutions, which find short motifs")
        model = {"encoder": {"kind": "convolutional", "blocks": [[64, 7, 3]]}, "width": 64, "dropout": 0.3}
        model |= {"pooling": "attention"}
    if len(found.data.get("text", ())) == 2:
        reasons.append("each text of a pair is read by itself, and both are compared: model.pairs = apart")
        model |= {"pairs": "apart"}
    if "valid" not in parts:
        settings.pop("early_stopping", None)
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, **found.data, "tokenizer": {"kind": "word" if spaced else "character"}},
        "model": model,
        "train": settings,
    }
    return Proposal(config, reasons)


def training_settings(given: Mapping[str, Any], *, epochs: int, early_stopping: int) -> dict[str, Any]:
    """Return the section ``train``, without the keys that depend on those that are ``given``."""
    settings: dict[str, Any] = {"batch_tokens": 2048, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": epochs, "early_stopping": early_stopping}
    return settings


def _keys(found: LabelColumns) -> Callable[[FilesConfig], Iterator[str]]:
    """Return the reader of the texts that shares are taken by."""

    def keys(corpus: FilesConfig) -> Iterator[str]:
        data = LabeledDataConfig.model_validate({"train": [corpus], **found.data})
        return ("\t".join(each.texts) for each in read_labeled([corpus], data))

    return keys

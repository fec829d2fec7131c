"""Automatic choice of a classifier's config for files, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import count_tokens, training_settings
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.label_columns import LabelColumns, fasta_labels, labeled_columns, unnamed_label_column
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.classification.long_texts import LongTexts, choose_long_texts
from regard.tasks.detect_files import (
    DetectedCorpus,
    describe_columns,
    detect_corpus,
    held_out_parts,
    wide_reasons,
)

SMALL = 20_000  # texts
ADAMW = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1}


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return a config if the names or the cells of columns are those of texts and labels; else None."""
    corpus = detect_corpus(files)
    if corpus is None or corpus.head.form == "npz":
        return None
    detected = labeled_columns(corpus.first, overrides.get("data", {}))
    if detected is None and corpus.head.form == "tsv" and not corpus.head.names:
        detected = unnamed_label_column(corpus.first)
    if detected is None and corpus.head.form == "fasta" and overrides.get("task") == "classification":
        detected = fasta_labels(corpus.first)
    if detected is None:
        return None
    total, spaced = detected.examples, detected.spaced
    small, pair = total <= SMALL, len(detected.data.get("text", ())) == 2
    keys = _keys(detected)
    parts, held_out = held_out_parts(corpus, valid, examples="texts", hashed="their content", keys=keys)

    def lengths() -> Iterator[int]:
        texts = keys(FilesConfig.model_validate(parts["train"][0]))
        return (len(text.split()) if spaced else len(text) for text in texts)

    tokens = count_tokens(lengths())
    long = LongTexts() if len(detected.data["text"]) > 1 else choose_long_texts(overrides, lengths())
    # A character carries less information than a word, so training takes more epochs.
    epochs, patience = (20 if pair else 6 if small else 4, 3) if spaced else (40, 10)
    settings = training_settings(
        overrides, tokens=tokens, epochs=epochs, optimizer=ADAMW, largest=2048, smallest=long.batch,
        patience=patience if "valid" in parts else None,
    )  # fmt: skip
    reasons = _described(corpus, detected, held_out)
    model, data, network = _network(small=small, spaced=spaced)
    reasons += [network, *long.reasons]
    if pair:
        model |= _pair(reasons, by_words=small and spaced)
    combined = "valid" in parts  # where the weights are chosen
    model |= {"wide": overrides.get("baseline", True), "wide_training": "apart" if combined else "together"}
    reasons += wide_reasons(overrides, combined=combined)
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, **detected.data, **data, **long.data},
        "model": model,
        "train": settings,
    }
    return Proposal(config, reasons)


def _described(corpus: DetectedCorpus, detected: LabelColumns, held_out: str) -> list[str]:
    """Return the reasons that name the columns and the validation data."""
    reasons = [f"{detected.description} → classification", held_out]
    if corpus.head.names:
        labels = detected.data["label"]
        labels = [labels] if isinstance(labels, str) else labels
        reasons += describe_columns(corpus, {"text": detected.data["text"], "label": labels})
    elif corpus.head.form == "fasta":
        reasons.append("label of a record: the last word of its header line")
    else:
        reasons[0] += " (for translation: --task translation)"
    return reasons


def _network(*, small: bool, spaced: bool) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the sections ``model`` and ``data`` for texts with or without spaces, and the reason."""
    data: dict[str, Any] = {"tokenizer": {"kind": "word" if spaced else "character"}}
    if not spaced:
        encoder = {"kind": "convolutional", "blocks": [[64, 7, 3]]}
        reason = "texts without spaces → character tokenizer, convolutional encoder (it detects short motifs)"
        return {"encoder": encoder, "width": 64, "dropout": 0.3, "pooling": "attention"}, data, reason
    if not small:
        reason = f"more than {SMALL:,} texts → Transformer (preset `small`)"
        return {"preset": "small", "pooling": "attention"}, data, reason
    encoder = {"kind": "convolutional", "blocks": [[128, 3, 1]], "position": "none"}
    model = {"encoder": encoder, "width": 128, "dropout": 0.5, "affixes": 20_000, "pooling": "attention"}
    reason = f"up to {SMALL:,} texts → convolutions over three words; inputs: words with their prefixes and suffixes"
    return model, data | {"hidden_tokens": 0.2}, reason


def _pair(reasons: list[str], *, by_words: bool) -> dict[str, Any]:
    """Return keys of the section ``model`` for two texts, and add the reason."""
    if not by_words:
        reasons.append("two texts per example → encoded together (model.pairs = together)")
        return {"pairs": "together"}
    reasons.append("two texts per example → encoded apart; words that both have are marked (model.matches)")
    return {"pairs": "apart", "matches": True, "pooling": "mean"}


def _keys(detected: LabelColumns) -> Callable[[FilesConfig], Iterator[str]]:
    """Return a function that yields the text of each example, by whose hash examples are divided into parts."""

    def keys(corpus: FilesConfig) -> Iterator[str]:
        data = LabeledDataConfig.model_validate({"train": [corpus], **detected.data})
        return ("\t".join(example.texts) for example in read_labeled([corpus], data))

    return keys

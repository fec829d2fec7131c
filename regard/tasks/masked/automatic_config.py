"""Automatic choice of a masked model's config for texts, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.wording import pluralize
from regard.data.documents import Cut, is_json_lines, read_documents
from regard.data.stream import TextConfig
from regard.data.tables import is_table
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import count_tokens, training_settings

HELD_OUT = 0.1  # share of the distinct texts
CONTEXTS = (64, 128, 256)  # words
MAX_WIDE = 1_000_000  # words up to which the wide part is chosen
TYPES = 8_000  # size of the vocabulary of a large text
LARGE = 10_000  # different words of a large text; its training part has more than ``TYPES``


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal:
    """Return the config of a model of whole words; a text is a line, a JSON line, a row, or a file of a folder.

    Raises:
        DataError: the files cannot be read.
    """
    kind = _kind(files)
    longest, types = 0, set[str]()

    def lengths() -> Iterator[int]:
        nonlocal longest
        for file in files:
            for document in read_documents(TextConfig(source=file), Cut(kind, completions=False)):
                words = document.text.split()
                types.update(words)
                longest = max(longest, len(words))
                yield len(words)

    tokens = count_tokens(lengths(), MAX_WIDE)
    wide = tokens < MAX_WIDE and bool(overrides.get("baseline", True))
    context = next((size for size in CONTEXTS if longest + 2 <= size), CONTEXTS[-1])
    adamw = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1}
    settings = training_settings(overrides, tokens=tokens, epochs=20, optimizer=adamw, largest=2048)
    tokenizer = {"kind": "word"} | ({"size": TYPES} if len(types) >= LARGE else {})
    parts, held_out = _parts(files, valid)
    reasons = [
        f"text → masked model of words ({'at least ' if tokens >= MAX_WIDE else ''}"
        f"{pluralize(tokens, 'word')}, a text is a {kind.replace('-', ' ')}, context {context}, preset `tiny`)",
        held_out,
        *(["probabilities: those of the network, multiplied by those of tables (model.wide)"] if wide else []),
    ]
    config = {
        "task": {"kind": "masked"},
        "data": {**parts, "documents": kind, "context": context, "tokenizer": tokenizer},
        "model": {"preset": "tiny", "wide": wide},
        "train": settings,
    }
    return Proposal(config, reasons)


def _kind(files: Sequence[Path]) -> Any:
    """Return the rule that divides the files into texts."""
    if any(file.is_dir() for file in files) or any(map(is_table, files)):
        return "file"
    return "json-line" if any(map(is_json_lines, files)) else "line"


def _parts(files: Sequence[Path], valid: Sequence[Path]) -> tuple[dict[str, Any], str]:
    """Return the keys ``train`` and ``valid`` of the section ``data``, and the reason."""
    if valid:
        parts = {"train": [{"source": str(file)} for file in files], "valid": [{"source": str(file)} for file in valid]}
        return parts, "validation: the given files"
    shares = {"train": [0.0, 1 - HELD_OUT], "valid": [1 - HELD_OUT, 1.0]}
    shared = {part: [{"source": str(file), "share": share} for file in files] for part, share in shares.items()}
    return shared, f"validation: {HELD_OUT:.0%} of the distinct texts, selected by a hash"

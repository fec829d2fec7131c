"""Vocabularies of a run, trained on its data or opened: the tokenizer of texts, and one token for each item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from regard.core.task import Report, RunFiles
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.errors import DataError, ModelError


def make_text_tokenizer(run: RunFiles, lines: Iterable[str], log: Report) -> Tokenizer:
    """Train the tokenizer of the config on these lines and save it, or load the inherited one."""
    start, config = run.config.start, run.config.data.tokenizer
    if start is None:
        tokenizer = train_tokenizer(lines, config)
        tokenizer.save(run.tokenizers, "text")
        log(f"vocabulary: {len(tokenizer):,} {config.kind} pieces")
    else:
        tokenizer = load_tokenizer(run.tokenizers, "text")
        log(f"vocabulary: {len(tokenizer):,} {config.kind} pieces of {start.origin.run}")
    return tokenizer


def learn_items(run: RunFiles, sessions: Sequence[Sequence[str]]) -> Tokenizer:
    """Learn the items of training sessions, and save them. Raises DataError if there are fewer than two."""
    if len({item for items in sessions for item in items}) < 2:
        what = "the training data has fewer than two items"
        raise DataError(what, where=run.config.data.train[0].name, why="each session must be a list of items")
    tokenizer = train_tokenizer((" ".join(items) for items in sessions), run.config.data.tokenizer)
    tokenizer.save(run.tokenizers, "text")
    return tokenizer


def open_items(run: RunFiles) -> Tokenizer:
    """Open the saved items. Raises ModelError if they are missing or damaged."""
    tokenizer = load_tokenizer(run.tokenizers, "text")
    items = range(len(SPECIALS), len(tokenizer))
    if tokenizer.config.kind != "word" or len({*tokenizer.pieces(items)}) < len(items):
        what = "the item vocabulary is damaged"
        raise ModelError(what, where=str(run.tokenizers), why="it is not a list of distinct items")
    return tokenizer


def item_numbers(tokenizer: Tokenizer, items: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the number of each item; UNKNOWN for items that are not in the training data."""
    return np.array(tokenizer.encode(" ".join(items)), np.int64)

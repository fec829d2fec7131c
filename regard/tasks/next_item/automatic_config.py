"""The automatic choice of a config for sessions of items, with a reason for each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.data.column_names import ITEM_LISTS, first_of, session_columns, time_column
from regard.data.rows import FileHead
from regard.data.sessions import ITEMS, SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.found_files import common_head, describe_columns, found_corpus, held_out_parts


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: these are next items in rows with a list ``items``, or a session and an item."""
    common = common_head(files)
    return Confidence.NONE if common is None or _columns(common.head) is None else Confidence.NAMES


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """Propose a config for rows with a list ``items``, or a session and an item. Returns None for other files."""
    corpus = found_corpus(files)
    columns = None if corpus is None else _columns(corpus.head)
    if corpus is None or columns is None:
        return None
    time = time_column(corpus.head.names) if len(columns) == 2 else None
    parts, split = held_out_parts(corpus, valid, examples="sessions", hashed="their items", keys=_read(columns, time))
    settings: dict[str, Any] = {"batch_tokens": 2048, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.1, "warmup": 200}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 40, "early_stopping": 5}
    if "valid" not in parts:
        settings.pop("early_stopping", None)
    config = {
        "task": {"kind": "next-item"},
        "data": parts | _keys(columns, time),
        "model": {"layers": 2, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.2},
        "train": settings,
    }
    what = "its columns are" if corpus.head.form != "json-lines" or len(columns) > 1 else "its lines have lists of"
    reasons = [f"{what} {' and '.join(columns)}: a model of next items (task.kind = next-item)", split]
    if len(columns) == 2:
        meanings = {"session": columns[:1], "item": columns[1:], "time": [] if time is None else [time]}
        order = "in the order of the rows: no column is named timestamp" if time is None else f"sorted by {time}"
        reasons += [*describe_columns(corpus, meanings), f"items of a session are {order}"]
    return Proposal(config, reasons)


def _columns(head: FileHead) -> tuple[str, ...] | None:
    """Return the column of lists of items, or those of a session and an item; None for other names."""
    if head.form not in ("csv", "parquet", "json-lines", "tsv"):
        return None
    items = first_of(head.names, ITEM_LISTS)
    return session_columns(head.names) if items is None else (items,)


def _keys(columns: Sequence[str], time: str | None) -> dict[str, str]:
    """Return the keys of data that name the columns."""
    if len(columns) == 1:
        return {"items": columns[0]}
    return {"session": columns[0], "item": columns[1]} | ({} if time is None else {"time": time})


def _read(columns: Sequence[str], time: str | None) -> Callable[[FilesConfig], Iterator[str]]:
    """Return the reader of the texts whose hash divides the sessions."""

    def keys(corpus: FilesConfig) -> Iterator[str]:
        rows = read_sessions([corpus], SessionColumns(**_keys(columns, time)))
        return ("\t".join(row.cells[ITEMS]) for row in rows)

    return keys

"""Automatic choice of a config for sessions of items, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_names import ITEM_LISTS, first_of, session_columns, time_column
from regard.data.rows import FileHead
from regard.data.sessions import ITEMS, SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.automatic_training import count_tokens, training_settings
from regard.tasks.detect_files import common_head, describe_columns, detect_corpus, held_out_parts

MAX_WIDE = 50_000_000  # outputs of the wide part for all events, in memory


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads rows with a list ``items``, or with a session and an item."""
    common = common_head(files)
    return Confidence.NONE if common is None or _columns(common.head) is None else Confidence.NAMES


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return a config for rows with a list ``items``, or with a session and an item; else None."""
    corpus = detect_corpus(files)
    columns = None if corpus is None else _columns(corpus.head)
    if corpus is None or columns is None:
        return None
    time = time_column(corpus.head.names) if len(columns) == 2 else None
    keys = _key_reader(columns, time)
    parts, split = held_out_parts(corpus, valid, examples="sessions", hashed="their items", keys=keys)
    tokens = count_tokens(key.count("\t") + 1 for key in keys(FilesConfig.model_validate(parts["train"][0])))
    adamw = {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.1}
    settings = training_settings(
        overrides, tokens=tokens, epochs=20, optimizer=adamw, largest=2048,
        patience=5 if "valid" in parts else None,
    )  # fmt: skip
    wide: dict[str, Any] = {}
    if overrides.get("baseline", True) and _outputs(keys(FilesConfig.model_validate(parts["train"][0]))) <= MAX_WIDE:
        wide = {"wide": True, "share": "none"}
    config = {
        "task": {"kind": "next-item"},
        "data": parts | _keys(columns, time),
        "model": {"layers": 2, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.2, **wide},
        "train": settings,
    }
    what = "columns" if corpus.head.form != "json-lines" or len(columns) > 1 else "lines with lists of"
    reasons = [f"{what} {' and '.join(columns)} → next-item", split]
    if len(columns) == 2:
        meanings = {"session": columns[:1], "item": columns[1:], "time": [] if time is None else [time]}
        order = "row order, because no column is named timestamp" if time is None else f"sorted by {time}"
        reasons += [*describe_columns(corpus, meanings), f"order of the items in a session: {order}"]
    if wide:
        reasons.append("outputs: those of the network are added to those of tables of items (model.wide)")
    return Proposal(config, reasons)


def _outputs(sessions: Iterator[str]) -> int:
    """Return the number of events times that of different items, or at least ``MAX_WIDE``."""
    events, items = 0, set[str]()
    for session in sessions:
        names = session.split("\t")
        events += len(names)
        items.update(names)
        if events * len(items) > MAX_WIDE:
            break
    return events * len(items)


def _columns(head: FileHead) -> tuple[str, ...] | None:
    """Return the column of item lists, or the columns of a session and an item; None for other names."""
    if head.form not in ("csv", "parquet", "json-lines", "tsv"):
        return None
    items = first_of(head.names, ITEM_LISTS)
    return session_columns(head.names) if items is None else (items,)


def _keys(columns: Sequence[str], time: str | None) -> dict[str, str]:
    """Return the keys of ``data`` that name the columns."""
    if len(columns) == 1:
        return {"items": columns[0]}
    return {"session": columns[0], "item": columns[1]} | ({} if time is None else {"time": time})


def _key_reader(columns: Sequence[str], time: str | None) -> Callable[[FilesConfig], Iterator[str]]:
    """Return a function that yields a text for each session, by whose hash sessions are divided into parts."""

    def keys(corpus: FilesConfig) -> Iterator[str]:
        rows = read_sessions([corpus], SessionColumns(**_keys(columns, time)))
        return ("\t".join(row.cells[ITEMS]) for row in rows)

    return keys

"""Checkpoints that several ranks write together: all files appear, or none, and all ranks know the outcome.

Rank 0 creates the hidden folder. Every rank writes and syncs its own rows there. Rank 0 adds the unsharded files and
the manifest, and renames the folder. After each of these three steps, all ranks exchange whether they succeeded. If one
failed, for example because its disk is full or it does not see the folder, all stop. The hidden folder is removed, and
each rank raises StorageError. A rank that is killed meanwhile leaves the hidden folder, which the next save removes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from regard.core import atomic_files
from regard.errors import StorageError
from regard.runs.checkpoint import prune, step_path
from regard.runs.checkpoint_files import write_files, write_recorded
from regard.runs.row_files import Rows, file_names, row_bytes

HELP = "all ranks need access to the run folder, on a shared disk with enough space"


class Ranks(NamedTuple):
    """The rank of this process among the writers; ``gather`` returns the payloads of all ranks, by rank."""

    rank: int
    world: int
    gather: Callable[[bytes], list[bytes]]


def save_shared(
    folder: Path,
    step: int,
    rows: Mapping[str, Mapping[str, Rows]],
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    ranks: Ranks,
    *,
    keep: int,
    protect: Collection[str] = (),
) -> Path:
    """Store one checkpoint like ``regard.runs.checkpoint.save``; called by every rank.

    ``rows``: this rank's rows of every tensor of a group. ``groups``: unsharded groups, which rank 0 writes.
    """
    final = step_path(folder, step)
    temporary = atomic_files.hidden_sibling(final, "tmp")

    def make() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.sweep(folder)
        temporary.mkdir()

    def write() -> dict[str, Any]:
        if not temporary.is_dir():
            raise StorageError(f"rank {ranks.rank} does not see {temporary}", where=str(folder), help=HELP)
        names = {group: file_names(group, ranks.world)[ranks.rank] for group in rows}
        records = {name: write_recorded(temporary / name, row_bytes(rows[group])) for group, name in names.items()}
        atomic_files.fault_point("rows-written")
        return records

    def commit() -> None:
        write_files(temporary, step, groups, state, ranks=dict.fromkeys(rows, ranks.world), written=written)
        atomic_files.commit_folder(temporary, final)
        prune(folder, step, keep, protect)

    leads = ranks.rank == 0
    _together(ranks, folder, make if leads else None)
    try:
        written: dict[str, Any] = {}
        for records in _together(ranks, folder, write):
            written |= records
    except StorageError:
        if leads:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    _together(ranks, folder, commit if leads else None)
    return final


def _together(ranks: Ranks, folder: Path, work: Callable[[], Any] | None) -> list[Any]:
    """Run ``work`` on this rank and return the results of all ranks; StorageError on all of them if one failed."""
    failure: StorageError | None = None
    result = None
    try:
        with atomic_files.explain_os_errors(folder):
            result = work() if work is not None else None
    except StorageError as error:
        failure = error
    message = [failure.what, failure.why] if failure is not None else None
    payload = json.dumps({"result": result, "failure": message}).encode()
    outcomes = [json.loads(outcome) for outcome in ranks.gather(payload)]
    if failure is not None:
        raise failure
    for rank, outcome in enumerate(outcomes):
        if outcome["failure"] is not None:
            what, why = outcome["failure"]
            raise StorageError(f"rank {rank} failed: {what}", where=str(folder), why=why, help=HELP)
    return [outcome["result"] for outcome in outcomes]

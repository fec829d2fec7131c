"""A checkpoint that several ranks write together: all of it appears, or nothing, and all ranks know which.

Rank 0 makes the hidden folder; every rank writes and syncs its own rows there; rank 0 adds what is whole and the
manifest, and renames. After each of the three steps all ranks say whether they could: where one could not, its disk
full or the folder out of its reach, none goes on, nothing is left behind, and each raises StorageError. A rank that is
killed meanwhile leaves the hidden folder, which the next save sweeps away.
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

HELP = "all ranks need the run folder, on a disk that they share and that has room"


class Ranks(NamedTuple):
    """This process among those that write; ``gather`` gives the payloads of all, by rank."""

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
    """Store one checkpoint as ``regard.runs.checkpoint.save`` does; called by every rank.

    ``rows``: this rank's of every tensor of a group. ``groups``: groups that are whole, of which those of rank 0 count.
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
        found = {name: write_recorded(temporary / name, row_bytes(rows[group])) for group, name in names.items()}
        atomic_files.fault_point("rows-written")
        return found

    def commit() -> None:
        write_files(temporary, step, groups, state, ranks=dict.fromkeys(rows, ranks.world), written=written)
        atomic_files.commit_folder(temporary, final)
        prune(folder, step, keep, protect)

    leads = ranks.rank == 0
    _together(ranks, folder, make if leads else None)
    try:
        written: dict[str, Any] = {}
        for each in _together(ranks, folder, write):
            written |= each
    except StorageError:
        if leads:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    _together(ranks, folder, commit if leads else None)
    return final


def _together(ranks: Ranks, folder: Path, work: Callable[[], Any] | None) -> list[Any]:
    """Return what ``work`` gave on every rank; StorageError on all of them where one could not do it."""
    failure: StorageError | None = None
    result = None
    try:
        with atomic_files.explain_os_errors(folder):
            result = work() if work is not None else None
    except StorageError as error:
        failure = error
    told = [failure.what, failure.why] if failure is not None else None
    every = [json.loads(each) for each in ranks.gather(json.dumps({"result": result, "failure": told}).encode())]
    if failure is not None:
        raise failure
    for rank, each in enumerate(every):
        if each["failure"] is not None:
            what, why = each["failure"]
            raise StorageError(f"rank {rank} failed: {what}", where=str(folder), why=why, help=HELP)
    return [each["result"] for each in every]

"""Bulk processing of large files, as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regard.bulk.run import BulkRequest, BulkResult, process_files
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError
from regard.functions.opening import RunPath


def predict_files(
    run: RunPath, *files: str | Path, output: str | Path, column: Sequence[str] = (), json: bool = False,
    workers: int | None = None, on: Literal["ray"] | None = None, shard: str | None = None, block: int | None = None,
    merge: bool = False, strict: bool = False, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None, **settings: Any,
) -> BulkResult:  # fmt: skip
    """Predict large files in blocks, by several processes: ``regard.predict_files(run, "in.txt", output="out")``.

    Each file gives a file in the output folder, line by line. The same call resumes the work after an interruption.

    Args:
        run: the run folder.
        files: the files, or patterns of their names.
        output: the folder for the outputs.
        column: the columns of the input in files with columns. Default: as in training.
        json: whether to write one JSON object per line.
        workers: the number of processes, or of Ray actors.
        on: ``ray`` for Ray actors.
        shard: process only shard ``I/N``, counted from 1.
        block: the number of lines of a block. Default: 512 to 8,192.
        merge: only join the blocks of all shards.
        strict: raise an error at the end if a line could not be processed.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: the number of CPU threads of all workers. Default: all.
        settings: settings of the predictor.

    Raises:
        ConfigError: if the arguments contradict each other.
        DataError: with ``strict``, for lines that failed.
    """
    spec = {
        "verb": "predict", "settings": settings, "json": json, "seed": None, "checkpoint": checkpoint,
        "device": device, "threads": threads,
    }  # fmt: skip
    if on not in (None, "ray"):
        raise ConfigError(f"unknown value {on!r}", where="on", help='on="ray", or leave it out for processes')
    request = BulkRequest(
        [Path(file) for file in files], Path(output), column, workers, on, shard, block, merge
    )  # fmt: skip
    result = process_files(request, Path(run), spec)
    if strict and result.quarantined:
        raise DataError(f"{pluralize(result.quarantined, 'line')} failed", where=result.named[0])
    return result

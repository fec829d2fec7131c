"""One bulk job from files to an output folder: blocks, workers, and the joined outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.bulk.block_file import read
from regard.bulk.job import BulkJob
from regard.bulk.merge import merge
from regard.bulk.processes import run_processes
from regard.bulk.ray_actors import run_on_ray
from regard.bulk.worker import Order, Report, Share, open_order, parse_share
from regard.core import atomic_files
from regard.core.processor import usable_cores
from regard.core.wording import pluralize_with_verb
from regard.data.file_names import named_files
from regard.data.packed_files import is_gzipped
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.tasks.row_inputs import has_rows, read_row_inputs

NAMED = 5  # failed lines that are listed
Showing = Callable[[str, int | None, str], AbstractContextManager[Callable[[int], None]]]  # (doing, total, unit)


def unseen(doing: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress: the default ``Showing``."""
    return nullcontext(lambda count: None)


class BulkRequest(NamedTuple):
    """A bulk job of a command or a program.

    Attributes:
        files: the input files; names may be patterns.
        output: the output folder.
        columns: the columns of the input in files that have columns.
        workers: the number of processes or Ray actors.
        on: ``ray`` for Ray actors.
        shard: ``I/N``: only these blocks.
        block: the number of lines of a block; None chooses it.
        merge: only join finished blocks.
    """

    files: Sequence[Path]
    output: Path
    columns: Sequence[int | str] = ()
    workers: int | None = None
    on: Literal["ray"] | None = None
    shard: str | None = None
    block: int | None = None
    merge: bool = False


class BulkResult(NamedTuple):
    """The lines of a bulk job, or of one of its shards.

    Attributes:
        lines: the number of lines.
        distinct: the number of different lines.
        quarantined: the number of lines that failed and have a blank output.
        named: some of these, with the reason.
        seconds: the time of the job.
    """

    lines: int
    distinct: int
    quarantined: int
    named: list[str]
    seconds: float


def process_files(
    request: BulkRequest, run: Path, spec: Mapping[str, Any], *, doing: str = "predicting", showing: Showing = unseen,
    log: Callable[[str], None] = lambda message: None,
) -> BulkResult:  # fmt: skip
    """Run a bulk job, or one shard of it, and join the outputs. The same call resumes it after an interruption.

    Args:
        request: the files, the output and the division of the work.
        run: the run folder of the model.
        spec: the description of the work; see ``bulk.work``.
        doing: the verb of the progress, such as "translating".
        showing: opens a progress display.
        log: receives messages about workers, and about the rest of an interrupted job.

    Raises:
        ConfigError: if the request is not a bulk job.
    """
    if spec.get("engine") == "auto":
        why = "each machine could choose another engine, and outputs would depend on the machine"
        help = "--engine float32, or int8"
        raise ConfigError("`--engine auto` cannot be used in bulk", where="--engine", why=why, help=help)
    request = request._replace(files=[file for name in request.files for file in named_files(name)])
    request, spec = _with_rows_as_lines(request, run, spec)
    share = Share() if request.shard is None else parse_share(request.shard)
    threads = spec["threads"] or max(1, usable_cores() // (request.workers or 1))
    spec = {**spec, "run": str(run), "threads": threads}
    paths = [str(path) for path in request.files]
    order = Order(str(request.output), paths, spec, (share.number, share.of), request.block)
    began = time.monotonic()
    total = sum(file.stat().st_size for file in request.files if file.is_file() and not is_gzipped(file))
    with showing("reading", total or None, "bytes") as advance:
        job = open_order(order, advance)
    if not request.merge:
        _work(order, job, share, request, lambda lines: showing(doing, lines, "lines"), log)
    counts = merge(job)._asdict() if request.shard is None else _shard_counts(job, share)
    return BulkResult(**counts, seconds=time.monotonic() - began)


def _with_rows_as_lines(
    request: BulkRequest, run: Path, spec: Mapping[str, Any]
) -> tuple[BulkRequest, Mapping[str, Any]]:
    """Convert table files to lines: each row becomes one JSON text in a file that is written once.

    Blocks are addressed by line, and a row of a table may span several lines or none.
    """
    rows = [has_rows(path) for path in request.files]
    if not any(rows) or spec["verb"] == "score":
        return request, spec
    if not all(rows):
        what, help = "one bulk job cannot read both tables and plain text", "use one command for each format"
        raise ConfigError(what, where=str(request.files[rows.index(False)]), help=help)
    folder, lines = request.output / ".bulk" / "inputs", []
    with atomic_files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in request.files:
        lines.append(folder / f"{path.name}.txt")
        if not lines[-1].exists() or lines[-1].stat().st_mtime_ns < path.stat().st_mtime_ns:
            with atomic_files.replacing(lines[-1]) as file:
                for _, text in read_row_inputs(RunFolder.open(run), path, request.columns):
                    file.write(json.dumps(text).encode() + b"\n")
    return request._replace(files=lines), {**spec, "rows": list(request.columns)}


def _work(
    order: Order, job: BulkJob, share: Share, request: BulkRequest,
    showing: Callable[[int], AbstractContextManager[Callable[[int], None]]], log: Callable[[str], None],
) -> None:  # fmt: skip
    missing = job.missing(share.blocks(job))
    if not missing:
        return
    run: Callable[..., None] = run_on_ray if request.on == "ray" else run_processes
    with _reporting_rest(job, share, log), showing(sum(block.lines for block in missing)) as advance:
        run(order, min(request.workers or 1, len(missing)), _once(advance), log)


@contextmanager
def _reporting_rest(job: BulkJob, share: Share, log: Callable[[str], None]) -> Iterator[None]:
    """Report the number of unfinished blocks after an interruption."""
    try:
        yield
    except BaseException:
        left = len(job.missing(share.blocks(job)))
        log(f"{pluralize_with_verb(left, 'block', 'is', 'are')} left; run the same command again to resume")
        raise


def _once(advance: Callable[[int], None]) -> Report:
    """Return a report of the finished lines of each block; lines of a block that starts again count once."""
    finished: dict[int, int] = {}

    def report(block: int, done: int) -> None:
        if done > finished.get(block, 0):
            advance(done - finished.get(block, 0))
            finished[block] = done

    return report


def _shard_counts(job: BulkJob, share: Share) -> dict[str, Any]:
    """Return the counts of a shard, summed over its blocks."""
    counts: dict[str, Any] = {"lines": 0, "distinct": 0, "quarantined": 0, "named": []}
    for block in share.blocks(job) if not job.finished.exists() else ():
        about, _ = read(job.block_path(block), job.digest, block.lines)
        counts["lines"] += block.lines
        counts["distinct"] += about["distinct"]
        counts["quarantined"] += len(about["quarantined"])
        path = job.paths[block.input]
        counts["named"] += [f"{path}:{failure['line']}: {failure['why']}" for failure in about["quarantined"]]
        counts["named"] = counts["named"][:NAMED]
    return counts

"""Bulk processing for verbs that read lines: files into an output folder, in blocks, by restartable processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from regard.commands.progress import progress
from regard.commands.setting_options import SharedOption, option_group
from regard.core.processor import usable_cores
from regard.core.wording import pluralize, pluralize_with_verb
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.bulk.job import BulkJob
    from regard.bulk.worker import Order, Report, Share

NAMED = 5  # failed lines that are listed at the end

Folder = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT/",
        help="Write one output file per input file to this folder (bulk processing).",
        rich_help_panel="Output",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Process only shard I of N, counted from 1; --merge joins the shards.",
        rich_help_panel="Bulk",
    ),
]
Merge = Annotated[
    bool,
    typer.Option("--merge", help="Check that all blocks are complete, and join them.", rich_help_panel="Bulk"),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Use N processes, or N Ray actors.", show_default="1", rich_help_panel="Bulk"
    ),
]
On = Annotated[
    Literal["ray"] | None, typer.Option(help="Run on Ray actors instead of local processes.", rich_help_panel="Bulk")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Fail at the end if any line could not be processed.", rich_help_panel="Bulk"),
]
Block = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Process N lines per block.", show_default="512 to 8,192", rich_help_panel="Bulk"
    ),
]
ColumnName = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME|N",
        help="Read the input from this column of a .csv, .tsv, .jsonl, .parquet or .conllu file; may be repeated.",
        show_default="as in training",
        rich_help_panel="Input",
    ),
]


class Bulk(NamedTuple):
    """Options of bulk processing, with the input files and the output of the command."""

    shard: str | None = None
    merge: bool = False
    workers: int | None = None
    on: Literal["ray"] | None = None
    strict: bool = False
    block: int | None = None
    column: list[str] | None = None
    files: Sequence[Path] = ()
    output: str | None = None

    @property
    def columns(self) -> tuple[int | str, ...]:
        """Columns of the input in files that have columns: numbers from 1, or names."""
        return tuple(int(name) if name.isdecimal() else name for name in self.column or ())

    def with_files(self, files: Sequence[Path] | None, output: str | None, *, folder: bool = False) -> Bulk:
        """Return a copy with these files and this output; with ``folder`` the output is always a folder."""
        return self._replace(files=files or (), output=f"{output}/" if folder and output is not None else output)

    @property
    def source(self) -> Path | None:
        """Input file of a command that does not run in bulk; None for standard input."""
        return next((file for file in self.files if str(file) != "-"), None)

    @property
    def requested(self) -> bool:
        """True if the command runs in bulk: several files, an output folder, or a bulk option."""
        return self.requested_above(1)

    def requested_above(self, files: int) -> bool:
        """Return whether the command runs in bulk, for a verb that otherwise reads up to ``files`` files."""
        folder = self.output is not None and (self.output.endswith("/") or Path(self.output).is_dir())
        return folder or len(self.files) > files or bool(self.option_names())

    def option_names(self) -> list[str]:
        """Return the options of bulk processing that are set."""
        options = {
            "--shard": self.shard, "--merge": self.merge, "--workers": self.workers, "--on": self.on,
            "--strict": self.strict, "--block": self.block,
        }  # fmt: skip
        return [name for name, value in options.items() if value]

    def require(self, verb: str) -> Path:
        """Return the output folder; raise ConfigError if the options do not define a bulk job."""
        help = f"regard {verb} RUN IN… -o OUT/"
        if self.output is None:
            what = f"{self.option_names()[0]} requires" if self.option_names() else "several input files require"
            raise ConfigError(f"{what} an output folder (bulk processing)", help=help)
        if Path(self.output).exists() and not Path(self.output).is_dir():
            raise ConfigError("the output of bulk processing must be a folder", where=self.output, help=help)
        if not self.files or any(str(file) == "-" for file in self.files):
            why = "the input is read more than once and by several processes"
            raise ConfigError("bulk processing cannot read standard input", why=why, help=help)
        if self.merge and (self.shard or self.on or self.workers):
            raise ConfigError(
                "--merge cannot be combined with --shard, --on or --workers", why="it only joins finished blocks"
            )
        return Path(self.output)


BULK_OPTIONS = {
    "shard": SharedOption(Shard),
    "merge": SharedOption(Merge, False),
    "workers": SharedOption(Workers),
    "on": SharedOption(On),
    "strict": SharedOption(Strict, False),
    "block": SharedOption(Block),
    "column": SharedOption(ColumnName),
}
takes_bulk = option_group("bulk", BULK_OPTIONS, Bulk)


def run_bulk(bulk: Bulk, run: Path, spec: Mapping[str, Any], *, doing: str) -> None:
    """Run a bulk job, or one shard of it, and join the outputs.

    Args:
        bulk: the options, files and output.
        run: the run folder of the model.
        spec: the description of the work; see ``bulk.work``.
        doing: the verb of the progress line, such as "translating".
    """
    from regard.bulk.merge import merge
    from regard.bulk.worker import Order, Share, open_order, parse_share

    if spec.get("engine") == "auto":
        why = "each machine could choose another engine, and outputs would depend on the machine"
        help = "--engine float32, or int8"
        raise ConfigError("`--engine auto` cannot be used in bulk", where="--engine", why=why, help=help)
    from regard.data.file_names import named_files

    out = bulk.require(spec["verb"])
    bulk = bulk._replace(files=[file for name in bulk.files for file in named_files(name)])
    bulk, spec = _with_rows_as_lines(bulk, run, out, spec)
    share = Share() if bulk.shard is None else parse_share(bulk.shard)
    workers = bulk.workers or 1
    spec = {**spec, "run": str(run), "threads": spec["threads"] or max(1, usable_cores() // workers)}
    order = Order(str(out), [str(path) for path in bulk.files], spec, (share.number, share.of), bulk.block)
    began = time.monotonic()
    with _reading(bulk.files) as advance:
        job = open_order(order, advance)
    if not bulk.merge:
        _work(order, job, share, bulk, doing)
    seconds = time.monotonic() - began
    if bulk.shard is None:
        counts: dict[str, Any] = merge(job)._asdict()
    else:
        counts = _shard_counts(job, share)
    named = counts.pop("named")
    _report(counts, named, seconds, out, bulk, as_json=spec["json"])
    if bulk.strict and counts["quarantined"]:
        what = f"{pluralize(counts['quarantined'], 'line')} failed, which --strict does not allow"
        raise DataError(what, where=named[0])


def _with_rows_as_lines(bulk: Bulk, run: Path, out: Path, spec: Mapping[str, Any]) -> tuple[Bulk, Mapping[str, Any]]:
    """Convert table files to lines: each row becomes one JSON text in a file that is written once.

    Blocks are addressed by line, and a row of a table may span several lines or none.
    """
    from regard.core import atomic_files
    from regard.runs.run_folder import RunFolder
    from regard.tasks.row_inputs import has_rows, read_row_inputs

    rows = [has_rows(path) for path in bulk.files]
    if not any(rows) or spec["verb"] == "score":
        return bulk, spec
    if not all(rows):
        what, help = "one bulk job cannot read both tables and plain text", "use one command for each format"
        raise ConfigError(what, where=str(bulk.files[rows.index(False)]), help=help)
    folder, lines = out / ".bulk" / "inputs", []
    with atomic_files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in bulk.files:
        lines.append(folder / f"{path.name}.txt")
        if not lines[-1].exists() or lines[-1].stat().st_mtime_ns < path.stat().st_mtime_ns:
            with atomic_files.replacing(lines[-1]) as file:
                for _, text in read_row_inputs(RunFolder.open(run), path, bulk.columns):
                    file.write(json.dumps(text).encode() + b"\n")
    return bulk._replace(files=lines), {**spec, "rows": list(bulk.columns)}


def _work(order: Order, job: BulkJob, share: Share, bulk: Bulk, doing: str) -> None:
    from regard.bulk.processes import run_processes
    from regard.bulk.ray_actors import run_on_ray

    missing = job.missing(share.blocks(job))
    if not missing:
        return
    run: Callable[..., None] = run_on_ray if bulk.on == "ray" else run_processes
    try:
        with progress(doing, sum(block.lines for block in missing)) as advance:
            run(order, min(bulk.workers or 1, len(missing)), _once(advance), lambda text: typer.echo(text, err=True))
    except BaseException:
        left = len(job.missing(share.blocks(job)))
        typer.echo(
            f"{pluralize_with_verb(left, 'block', 'is', 'are')} left; run the same command again to resume", err=True
        )
        raise


def _once(advance: Callable[[int], None]) -> Report:
    """Return a report of the finished lines of each block; lines of a block that starts again count once."""
    seen: dict[int, int] = {}

    def report(block: int, done: int) -> None:
        if done > seen.get(block, 0):
            advance(done - seen.get(block, 0))
            seen[block] = done

    return report


@contextmanager
def _reading(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    from regard.data.packed_files import is_gzipped

    total = sum(file.stat().st_size for file in files if file.is_file() and not is_gzipped(file))
    with progress("reading", total or None, unit="bytes") as advance:
        yield advance


def _shard_counts(job: BulkJob, share: Share) -> dict[str, Any]:
    """Return the counts of a shard, summed over its blocks."""
    from regard.bulk.block_file import read

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


def _report(
    counts: dict[str, Any], named: Sequence[str], seconds: float, out: Path, bulk: Bulk, *, as_json: bool
) -> None:
    where = f"to {out}" if bulk.shard is None else f"as shard {bulk.shard} of {out} (--merge joins the shards)"
    typer.echo(
        f"{pluralize(counts['lines'], 'line')} ({counts['distinct']:,} distinct) written {where} in {seconds:,.1f} s",
        err=True,
    )
    if counts["quarantined"]:
        place = "" if bulk.shard is not None else f"; see {out / 'quarantine.jsonl'}"
        typer.echo(f"{pluralize(counts['quarantined'], 'line')} failed and got a blank output{place}:", err=True)
        for failure in named:
            typer.echo(f"  {failure}", err=True)
    if as_json:
        typer.echo(json.dumps(counts | {"seconds": round(seconds, 3), "output": str(out)}))

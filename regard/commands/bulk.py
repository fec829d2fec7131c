"""Bulk work of the verbs that take lines: files into an output folder, in blocks, by processes that may die."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from regard.commands.progress import progress
from regard.commands.shared_arguments import SharedOption, taken_together
from regard.core.cores import usable_cores
from regard.core.wording import pluralize, pluralize_with_verb
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.bulk.job import BulkJob
    from regard.bulk.worker import Order, Report, Share

NAMED = 5  # lines set aside that the end names

Folder = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT/",
        help="Folder for the outputs of all files, for work in bulk.",
        rich_help_panel="Output",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="In bulk: do only the I-th of N parts, counted from 1; join them by --merge.",
        rich_help_panel="Bulk",
    ),
]
Merge = Annotated[
    bool,
    typer.Option("--merge", help="In bulk: check that all blocks are there, and join them.", rich_help_panel="Bulk"),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="In bulk: processes, or actors of Ray.", show_default="1", rich_help_panel="Bulk"
    ),
]
On = Annotated[
    Literal["ray"] | None, typer.Option(help="In bulk: ray, for actors of Ray Data.", rich_help_panel="Bulk")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="In bulk: fail at the end if a line had to be set aside.", rich_help_panel="Bulk"),
]
Block = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="In bulk: lines of a block.", show_default="512 to 8,192", rich_help_panel="Bulk"
    ),
]
ColumnName = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME|N",
        help="Column of the input in a .csv, .tsv, .jsonl, .parquet or .conllu; may be repeated.",
        show_default="as in training",
        rich_help_panel="Input",
    ),
]


class Bulk(NamedTuple):
    """The options of bulk work, as given, and the command's files and output."""

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
        """The columns of an input, of files that have columns: numbers from 1, or names."""
        return tuple(int(name) if name.isdecimal() else name for name in self.column or ())

    def of(self, files: Sequence[Path] | None, output: str | None, *, folder: bool = False) -> Bulk:
        """The same for these files and this output, which may be a ``folder`` only."""
        return self._replace(files=files or (), output=f"{output}/" if folder and output is not None else output)

    @property
    def source(self) -> Path | None:
        """The one file of a command that is not of bulk work; None for standard input."""
        return next((file for file in self.files if str(file) != "-"), None)

    @property
    def wanted(self) -> bool:
        """Return whether the command is one of bulk work: several files, a folder, or an option for it."""
        return self.wanted_beside(1)

    def wanted_beside(self, files: int) -> bool:
        """The same for a verb that takes so many files otherwise."""
        folder = self.output is not None and (self.output.endswith("/") or Path(self.output).is_dir())
        return folder or len(self.files) > files or bool(self._given())

    def _given(self) -> list[str]:
        named = {
            "--shard": self.shard, "--merge": self.merge, "--workers": self.workers, "--on": self.on,
            "--strict": self.strict, "--block": self.block,
        }  # fmt: skip
        return [name for name, value in named.items() if value]

    def require(self, verb: str) -> Path:
        """The output folder. ConfigError for options that do not make a job of bulk work."""
        help = f"regard {verb} RUN IN… -o OUT/"
        if self.output is None:
            what = f"{self._given()[0]} is" if self._given() else "several files are"
            raise ConfigError(f"{what} for work in bulk, which needs an output folder", help=help)
        if Path(self.output).exists() and not Path(self.output).is_dir():
            raise ConfigError("the output of work in bulk is a folder", where=self.output, help=help)
        if not self.files or any(str(file) == "-" for file in self.files):
            why = "it is read more than once, and by several processes"
            raise ConfigError("work in bulk reads files, not standard input", why=why, help=help)
        if self.merge and (self.shard or self.on or self.workers):
            raise ConfigError("--merge only joins what is done", help="leave out --shard, --on and --workers")
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
takes_bulk = taken_together("bulk", BULK_OPTIONS, Bulk)


def run_bulk(bulk: Bulk, run: Path, spec: Mapping[str, Any], *, doing: str) -> None:
    """Do a job of bulk work, or a share of it, and join the outputs; ``spec`` describes its work (``bulk.work``)."""
    from regard.bulk.merge import merge
    from regard.bulk.worker import Order, Share, open_order, parse_share

    if spec.get("engine") == "auto":
        why = "each machine would choose its own, and outputs would depend on where a block was done"
        raise ConfigError("work in bulk has one engine", where="--engine", why=why, help="--engine float32, or int8")
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
        found = merge(job)
        made: dict[str, Any] = found._asdict()
    else:
        made = _told_of(job, share)
    named = made.pop("named")
    _tell(made, named, seconds, out, bulk, as_json=spec["json"])
    if bulk.strict and made["quarantined"]:
        raise DataError("some lines have no output, which --strict forbids", where=named[0])


def _with_rows_as_lines(bulk: Bulk, run: Path, out: Path, spec: Mapping[str, Any]) -> tuple[Bulk, Mapping[str, Any]]:
    """Return the job for files of rows: a file of a JSON text for each row is written once, and its lines are read."""
    from regard.core import atomic_files
    from regard.runs.run_folder import RunFolder
    from regard.tasks.row_inputs import has_rows, read_row_inputs

    rows = [has_rows(path) for path in bulk.files]
    if not any(rows) or spec["verb"] == "score":
        return bulk, spec
    if not all(rows):
        what, help = "files of rows and plain text do not go into one job", "give them to two commands"
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
        typer.echo(f"{pluralize_with_verb(left, 'block', 'is', 'are')} left; the same command goes on", err=True)
        raise


def _once(advance: Callable[[int], None]) -> Report:
    """Progress of lines, told of each block as the number that are done, once more after a death."""
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


def _told_of(job: BulkJob, share: Share) -> dict[str, Any]:
    """The counts of a share, from what its blocks say."""
    from regard.bulk.block_file import read

    made: dict[str, Any] = {"lines": 0, "distinct": 0, "quarantined": 0, "named": []}
    for block in share.blocks(job) if not job.finished.exists() else ():
        about, _ = read(job.block_path(block), job.digest, block.lines)
        made["lines"] += block.lines
        made["distinct"] += about["distinct"]
        made["quarantined"] += len(about["quarantined"])
        path = job.paths[block.input]
        made["named"] += [f"{path}:{each['line']}: {each['why']}" for each in about["quarantined"]]
        made["named"] = made["named"][:NAMED]
    return made


def _tell(made: dict[str, Any], named: Sequence[str], seconds: float, out: Path, bulk: Bulk, *, as_json: bool) -> None:
    where = f"in {out}" if bulk.shard is None else f"as shard {bulk.shard} of {out}, for --merge"
    typer.echo(
        f"{pluralize(made['lines'], 'line')}, {made['distinct']:,} of them different, {where}; {seconds:,.1f} s",
        err=True,
    )
    if made["quarantined"]:
        place = "" if bulk.shard is not None else f", see {out / 'quarantine.jsonl'}"
        typer.echo(f"{pluralize(made['quarantined'], 'line')} failed, with a blank output{place}:", err=True)
        for each in named:
            typer.echo(f"  {each}", err=True)
    if as_json:
        typer.echo(json.dumps(made | {"seconds": round(seconds, 3), "output": str(out)}))

"""Bulk processing for verbs that read lines: files into an output folder, in blocks, by restartable processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from regard.commands.progress import progress
from regard.commands.setting_options import SharedOption, option_group
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    pass

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
    """Run a bulk job, or one shard of it, join the outputs, and print its counts.

    Args:
        bulk: the options, files and output.
        run: the run folder of the model.
        spec: the description of the work; see ``bulk.work``.
        doing: the verb of the progress line, such as "translating".
    """
    from regard.bulk.run import BulkRequest, process_files

    def showing(doing: str, total: int | None, unit: str) -> Any:
        return progress(doing, total, unit=unit)

    out = bulk.require(spec["verb"])
    request = BulkRequest(
        bulk.files, out, bulk.columns, bulk.workers, bulk.on, bulk.shard, bulk.block, bulk.merge
    )  # fmt: skip
    result = process_files(
        request, run, spec, doing=doing, showing=showing, log=lambda text: typer.echo(text, err=True)
    )  # fmt: skip
    counts = result._asdict()
    named, seconds = counts.pop("named"), counts.pop("seconds")
    _report(counts, named, seconds, out, bulk, as_json=spec["json"])
    if bulk.strict and counts["quarantined"]:
        what = f"{pluralize(counts['quarantined'], 'line')} failed, which --strict does not allow"
        raise DataError(what, where=named[0])


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

"""``regard data``: list and fetch public corpora, convert music to text, write the standard library as documents."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands import completion, data_music
from regard.commands.options import AsJson
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.data.public.catalog import PublicCorpus, PublicFile
    from regard.data.public.fetch import FetchedFile, Progress

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of a corpus; see `regard data list`.", autocompletion=completion.corpora),
]
Origin = Annotated[
    Path | None, typer.Option("--from", metavar="DIR", help="Copy the files from this folder instead of downloading.")
]
To = Annotated[
    Path | None, typer.Option("--to", metavar="DIR", help="Write the files to this folder.", show_default="data/NAME")
]


def register(app: typer.Typer) -> None:
    """Add ``regard data`` to the command line."""
    help = "List public corpora, fetch one by name, convert music to text and back."
    commands = typer.Typer(help=help, no_args_is_help=True)
    commands.command("list")(list_corpora)
    commands.command("fetch")(fetch_corpus)
    data_music.register(commands)
    commands.command("stdlib")(stdlib)
    app.add_typer(commands, name="data")


def list_corpora(*, as_json: AsJson = False) -> None:
    """List the corpora that can be fetched, with sizes and licenses."""
    from regard.data.public.catalog import corpora

    if as_json:
        print(json.dumps([_described(corpus) for corpus in corpora().values()], indent=2))
        return
    for corpus in corpora().values():
        means = "" if corpus.can_be_downloaded else ", only with --from"
        print(f"{corpus.name:<16} {corpus.title}")
        print(
            f"{'':<16} {pluralize(len(corpus.files), 'file')}, {_megabytes(corpus.size)}{means} · {corpus.repository}"
        )
        print(f"{'':<16} license: {corpus.license}")


def fetch_corpus(name: Name, *, origin: Origin = None, to: To = None, as_json: AsJson = False) -> None:
    """Download a public corpus to data/NAME and verify its pinned checksums.

    Complete files are not downloaded again; an interrupted download resumes.
    """
    from regard.data.public.catalog import corpus_named
    from regard.data.public.fetch import copy, fetch

    corpus = corpus_named(name)
    folder = to if to is not None else Path("data") / corpus.name
    typer.echo(f"{corpus.title}\nfrom {corpus.repository}\nlicense: {corpus.license}", err=as_json)
    if origin is not None:
        fetched = copy(corpus, origin, folder)
    else:
        with _progress(corpus) as progress:
            fetched = fetch(corpus, folder, progress=progress)
    if as_json:
        print(json.dumps(_described(corpus) | {"folder": str(folder), "files": _files(fetched)}, indent=2))
        return
    for entry in fetched:
        print(f"{entry.state:<10}  {_megabytes(entry.file.size):>9}  {entry.path}")
    print("verified: all sha256 checksums match")
    if corpus.hint:
        print(f"next: {corpus.hint.format(folder=shlex.quote(str(folder)))}")


@contextmanager
def _progress(corpus: PublicCorpus) -> Iterator[Progress]:
    """Report downloads on standard error: a progress bar on a terminal, otherwise one line per file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_for_each_file()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        tasks = {file: bars.add_task(file.name, visible=False, total=None) for file in corpus.files}
        yield lambda file, done, total: bars.update(tasks[file], completed=done, total=total, visible=True)


def _line_for_each_file() -> Progress:
    seen: set[str] = set()

    def report(file: PublicFile, done: int, total: int | None) -> None:
        if file.name not in seen:
            seen.add(file.name)
            typer.echo(f"downloading {file.name}", err=True)

    return report


def _described(corpus: PublicCorpus) -> dict[str, object]:
    return {
        "name": corpus.name,
        "title": corpus.title,
        "license": corpus.license,
        "repository": corpus.repository,
        "address": corpus.address or (corpus.original.address if corpus.original else None),
        "bytes": corpus.size,
        "files": [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in corpus.files],
    }


def _files(fetched: list[FetchedFile]) -> list[dict[str, object]]:
    return [
        {
            "name": entry.file.name,
            "path": str(entry.path),
            "bytes": entry.file.size,
            "sha256": entry.file.sha256,
            "state": entry.state,
        }
        for entry in fetched
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def stdlib(
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Write the files to this folder.")] = Path(
        "data/stdlib"
    ),
    library: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="DIR", help="Read the library in this folder.", show_default="this interpreter's"
        ),
    ] = None,
) -> None:
    """Write Python's standard library as JSON lines, one document per file, for `regard train`.

    All .py files except tests are divided into train.jsonl, valid.jsonl and test.jsonl by the hash of the file name.
    """
    import platform
    import sysconfig

    from regard.data.standard_library import write_parts

    source = Path(sysconfig.get_path("stdlib")) if library is None else library
    for name, part in write_parts(source, to).items():
        print(f"{part.path}: {pluralize(part.files, 'file')}, {pluralize(part.bytes, 'byte')} ({name})")
    if library is None:
        print(f"source: {platform.python_implementation()} {platform.python_version()}")

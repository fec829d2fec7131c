"""``regard data stdlib``: the standard library of the Python that runs Regard, as documents for a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.core.wording import pluralize


def register(commands: typer.Typer) -> None:
    """Add the command to ``regard data``."""
    commands.command("stdlib")(stdlib)


def stdlib(
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")] = Path("data/stdlib"),
    library: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Library to read.", show_default="this interpreter's"),
    ] = None,
) -> None:
    """Write Python's standard library as JSON lines, a document a file, for `regard train`.

    Its .py files without tests: train.jsonl, valid.jsonl and test.jsonl, by the hash of each file's name.
    """
    import platform
    import sysconfig

    from regard.data.standard_library import write_parts

    source = Path(sysconfig.get_path("stdlib")) if library is None else library
    for name, part in write_parts(source, to).items():
        print(f"{part.path}: {pluralize(part.files, 'file')}, {pluralize(part.bytes, 'byte')} ({name})")
    if library is None:
        print(f"of {platform.python_implementation()} {platform.python_version()}")

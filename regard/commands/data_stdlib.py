"""``regard data stdlib``: write Python's standard library as documents for a language model."""

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

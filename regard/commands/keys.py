"""``regard keys``: add, list and remove the API keys of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import AsJson, epilog

File = Annotated[Path, typer.Argument(metavar="FILE", help="File of API keys, such as keys.json.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Owner of the key.")]
Requests = Annotated[
    int | None,
    typer.Option("--req-limit", min=1, help="Limit the requests per minute.", show_default="the server's limit"),
]
Characters = Annotated[
    int | None,
    typer.Option(
        "--char-limit",
        min=1,
        help="Limit the total number of characters, counted from the start of the server.",
        show_default="none",
    ),
]


Admin = Annotated[bool, typer.Option("--admin", help="Allow the client to reload the models of a server.")]


def register(app: typer.Typer) -> None:
    """Add ``regard keys`` to the command line."""
    keys = typer.Typer(help="Add, list and remove the API keys of a server.", no_args_is_help=True)
    keys.command("add", epilog=epilog("regard keys add keys.json alice && regard serve runs/m30k --keys keys.json"))(
        add
    )
    keys.command("list")(list_)
    keys.command("remove")(remove)
    app.add_typer(keys, name="keys")


def add(
    file: File, name: Name, *, req_limit: Requests = None, char_limit: Characters = None, admin: Admin = False
) -> None:
    """Create an API key and print it. The file stores only a digest, so the key cannot be shown again."""
    from regard.server.keys import add_key

    typer.echo(add_key(file, name, requests_per_minute=req_limit, characters=char_limit, admin=admin))


def list_(file: File, *, as_json: AsJson = False) -> None:
    """List the owners of keys and their limits."""
    import json

    from regard.server.keys import KeyFile

    keys = [key.model_dump(exclude={"sha256"}) for key in KeyFile.read(file).keys]
    if as_json:
        typer.echo(json.dumps(keys))
        return
    for key in keys:
        limits = ["administrator" if key["admin"] else None,
                  f"{key['requests_per_minute']:,} requests per minute" if key["requests_per_minute"] else None,
                  f"{key['characters']:,} characters" if key["characters"] else None]  # fmt: skip
        typer.echo("\t".join([key["name"], ", ".join(filter(None, limits)) or "the server's limits"]))


def remove(file: File, name: Name) -> None:
    """Remove a key; running servers reject it immediately."""
    from regard.server.keys import remove_key

    remove_key(file, name)

"""Configuration of ``regard serve`` by a TOML file and by environment variables.

The keys of the file are the names of the options, and ``runs``. The variable of an option is ``REGARD_SERVE_`` and its
name in capitals: ``REGARD_SERVE_CHAR_LIMIT`` for ``--char-limit``. An option of the command line has priority over its
variable, which has priority over the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.core.wording import describe_error, did_you_mean
from regard.errors import ConfigError

PREFIX = "REGARD_SERVE"
CONFIG = "config"
LIMIT = 1 << 18  # maximum number of bytes of a file
LISTS = ("runs", "allow-host")


def load(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a file the defaults of the options: the callback of ``--config``."""
    if path is not None:
        names = {parameter.name or "" for parameter in context.command.params} - {CONFIG, "help"}
        context.default_map = read(path, {name.replace("_", "-") for name in names})
    return path


def read(path: Path, names: set[str]) -> dict[str, Any]:
    """Return the values of a file by parameter, as texts: they are then parsed like those of variables.

    Args:
        path: the file.
        names: the valid keys.

    Raises:
        ConfigError: if the file is not valid TOML, or has an unknown key or a value of a wrong type.
    """
    from regard.core.untrusted_files import parse_toml, read_bytes, shortened

    try:
        values = parse_toml(read_bytes(path, LIMIT).decode())
    except (OSError, ValueError) as error:
        what, why = "cannot read the config of the server", describe_error(error)
        raise ConfigError(what, where=str(path), why=why, help="regard serve --help lists the options") from error
    unknown = next((key for key in values if key.replace("_", "-") not in names), None)
    if unknown is not None:
        hint = did_you_mean(unknown, names) or "the keys are the names of the options, and `runs`"
        raise ConfigError(f"unknown key {shortened(unknown)!r}", where=str(path), help=hint)
    return {key.replace("-", "_"): _text(path, key, value) for key, value in values.items()}


def _text(path: Path, key: str, value: Any) -> Any:
    """Return a value as a text, or a list as texts; raise ConfigError for another type."""
    is_list = key.replace("_", "-") in LISTS
    values = value if isinstance(value, list) else [value]
    if isinstance(value, list) != is_list or not all(isinstance(part, str | int | float) for part in values):
        expected = "a list of texts" if is_list else "a text, a number, true or false"
        raise ConfigError(f"{key!r} has a value of a wrong type", where=str(path), why=f"expected {expected}")
    return [str(part) for part in values] if is_list else str(value)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", is_eager=True, callback=load,
        help="Read options from this TOML file; its keys are the names of the options.",
    ),
]  # fmt: skip

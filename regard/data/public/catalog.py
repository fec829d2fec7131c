"""Catalog of public corpora: license, address, and the SHA-256 of each file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from regard.core.wording import did_you_mean
from regard.data.public.originals import Original
from regard.errors import ConfigError


@dataclass(frozen=True)
class PublicFile:
    """Text file of a public corpus; ``size`` (bytes) and ``sha256`` are those of the unpacked text."""

    name: str  # name in the user's folder
    size: int
    sha256: str
    path: str = ""  # below the corpus's address, if different from the name
    arrays: str = ""  # of a .npz: SHA-256 of its unpacked members, names included

    @property
    def remote(self) -> str:
        """Path below the corpus's address."""
        return self.path or self.name


@dataclass(frozen=True)
class PublicCorpus:
    """Published corpus.

    Without an ``address``, it is converted from its ``original``, or it can only be copied from local files.
    """

    name: str
    title: str
    license: str
    repository: str
    files: tuple[PublicFile, ...]
    address: str | None = None
    original: Original | None = None
    hint: str | None = None  # a command to use the corpus; {folder} is replaced by its folder

    @property
    def can_be_downloaded(self) -> bool:
        """True if its files or its original have an address."""
        return (self.address or self.original) is not None

    @property
    def size(self) -> int:
        """Total size of all files in bytes, unpacked."""
        return sum(file.size for file in self.files)


@cache
def corpora() -> dict[str, PublicCorpus]:
    """Return every corpus by name, in the order of the table ``public.toml``."""
    table = tomllib.loads(resources.files("regard.data.public").joinpath("public.toml").read_text("utf-8"))
    return {name: _corpus(name, **entry) for name, entry in table.items()}


def _corpus(
    name: str, *, files: list[dict[str, Any]], original: dict[str, Any] | None = None, **entry: Any
) -> PublicCorpus:
    source = None if original is None else Original(**original | {"files": tuple(original.get("files", ()))})
    return PublicCorpus(name=name, files=tuple(PublicFile(**file) for file in files), original=source, **entry)


def corpus_named(name: str) -> PublicCorpus:
    """Return the corpus with this name. ConfigError, with the nearest name, if it does not exist."""
    known = corpora()
    if name not in known:
        raise ConfigError(
            f"unknown public corpus {name!r}",
            why=f"the corpora are {', '.join(known)}",
            help=did_you_mean(name, known) or "regard data list",
        )
    return known[name]

"""Catalog of public corpora: license, address, and the SHA-256 of each file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from regard.core.wording import did_you_mean
from regard.errors import ConfigError


@dataclass(frozen=True)
class PublicFile:
    """Text file of a public corpus; ``size`` (bytes) and ``sha256`` are those of the unpacked text."""

    name: str  # name in the user's folder
    size: int
    sha256: str
    path: str = ""  # below the corpus's address, if different from the name

    @property
    def remote(self) -> str:
        """Path below the corpus's address."""
        return self.path or self.name


@dataclass(frozen=True)
class PublicCorpus:
    """Published corpus. Without an ``address``, it can only be copied from local files."""

    name: str
    title: str
    license: str
    repository: str
    files: tuple[PublicFile, ...]
    address: str | None = None
    hint: str | None = None  # a command to use the corpus; {folder} is replaced by its folder

    @property
    def size(self) -> int:
        """Total size of all files in bytes, unpacked."""
        return sum(file.size for file in self.files)


@cache
def corpora() -> dict[str, PublicCorpus]:
    """Return every corpus by name, in the order of the table ``public.toml``."""
    table = tomllib.loads(resources.files("regard.data.public").joinpath("public.toml").read_text("utf-8"))
    return {
        name: PublicCorpus(name=name, files=tuple(PublicFile(**file) for file in entry.pop("files")), **entry)
        for name, entry in table.items()
    }


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

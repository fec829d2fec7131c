"""Public corpora by name: what they are, under which licence, where they lie, and the sha256 of each file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from regard.core.wording import did_you_mean
from regard.errors import ConfigError

__all__ = ["PublicCorpus", "PublicFile", "corpora", "corpus_named"]


@dataclass(frozen=True)
class PublicFile:
    """One text file of a public corpus. ``size`` (bytes) and ``sha256`` are those of the text, unpacked."""

    name: str  # in the folder of a user
    size: int
    sha256: str
    path: str = ""  # below the corpus's address, where it is called otherwise

    @property
    def remote(self) -> str:
        """Its path below the corpus's address."""
        return self.path or self.name


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus that others published. Without an ``address`` it can only be copied."""

    name: str
    title: str
    licence: str
    repository: str
    files: tuple[PublicFile, ...]
    address: str | None = None
    hint: str | None = None  # what to do with it: a command, in which {folder} stands for where it lies

    @property
    def size(self) -> int:
        """Bytes of all its files, unpacked."""
        return sum(file.size for file in self.files)


@cache
def corpora() -> dict[str, PublicCorpus]:
    """Every corpus by its name, in the order of the table ``public.toml``."""
    table = tomllib.loads(resources.files("regard.data.public").joinpath("public.toml").read_text("utf-8"))
    return {
        name: PublicCorpus(name=name, files=tuple(PublicFile(**file) for file in entry.pop("files")), **entry)
        for name, entry in table.items()
    }


def corpus_named(name: str) -> PublicCorpus:
    """The corpus called ``name``. Raises ConfigError naming the nearest where there is none."""
    known = corpora()
    if name not in known:
        raise ConfigError(
            f"There is no public corpus {name!r}.",
            why=f"known are {', '.join(known)}",
            help=did_you_mean(name, known) or "regard data list",
        )
    return known[name]

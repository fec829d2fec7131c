"""Glossaries that clients keep here: in memory, or as files of a folder. Each sees its own."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict

from regard.core import atomic_files
from regard.core.untrusted_files import LARGE, read_bytes
from regard.errors import ConfigError, StorageError
from regard.server.api_error import ApiError
from regard.server.text.glossary import Glossary

__all__ = ["Glossaries", "StoredGlossary"]

log = logging.getLogger("regard.server")
WHOLE = 100  # times what one client may keep, all may


class StoredGlossary(BaseModel):
    """A glossary and whose it is. Languages are upper-case codes without regions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: uuid.UUID
    owner: str
    name: str
    source: str
    target: str
    created: AwareDatetime
    entries: dict[str, str]

    @cached_property
    def glossary(self) -> Glossary:
        return Glossary(self.entries)


class Glossaries:
    """``most`` of each client, with ``entries`` each. Their names are drawn here: no client names a file."""

    def __init__(self, folder: Path | None = None, *, most: int = 100, entries: int = 5_000) -> None:
        self._folder, self._most, self._entries = folder, most, entries
        self._lock = threading.Lock()
        self._kept: dict[uuid.UUID, StoredGlossary] = {}
        if folder is not None:
            self._read(folder)

    def add(self, owner: str, name: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """ApiError where there are too many of them, or of these."""
        if len(entries) > self._entries:
            raise ApiError(413, f"A glossary has at most {self._entries} entries.")
        kept = StoredGlossary(
            id=uuid.uuid4(), owner=owner, name=name, source=source, target=target,
            created=datetime.now(UTC), entries=dict(entries),
        )  # fmt: skip
        with self._lock:
            mine = sum(each.owner == owner for each in self._kept.values())
            if mine >= self._most or len(self._kept) >= WHOLE * self._most:
                raise ApiError(400, f"Too many glossaries: {self._most} are kept at most.")
            if self._folder is not None:
                try:
                    atomic_files.write_bytes_atomically(self._path(kept.id), kept.model_dump_json(indent=1).encode())
                except StorageError as error:
                    log.error("a glossary cannot be stored: %s", error.what)
                    raise ApiError(503, "The glossary cannot be stored.", retry_after=60) from error
            self._kept[kept.id] = kept
        return kept

    def of(self, owner: str) -> list[StoredGlossary]:
        """The oldest first."""
        with self._lock:
            return sorted((each for each in self._kept.values() if each.owner == owner), key=lambda each: each.created)

    def find(self, owner: str, id: str) -> StoredGlossary:
        """ApiError where this client has none of this name."""
        found = self._kept.get(_number(id))
        if found is None or found.owner != owner:
            raise ApiError(404, "There is no such glossary.")
        return found

    def remove(self, owner: str, id: str) -> None:
        with self._lock:
            found = self.find(owner, id)
            if self._folder is not None:
                self._path(found.id).unlink(missing_ok=True)
            del self._kept[found.id]

    def _path(self, id: uuid.UUID) -> Path:
        assert self._folder is not None
        return self._folder / f"{id}.json"

    def _read(self, folder: Path) -> None:
        """What is no glossary there is left alone."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            paths = sorted(folder.glob("*.json"))
        except OSError as error:
            raise ConfigError(
                f"{folder} is no folder for glossaries", where="--glossaries", why=error.strerror
            ) from error
        for path in paths:
            try:
                kept = StoredGlossary.model_validate_json(read_bytes(path, LARGE))
            except (OSError, ValueError):
                log.error("%s is no glossary", path.name)
                continue
            if path == self._path(kept.id):
                self._kept[kept.id] = kept


def _number(id: str) -> uuid.UUID:
    try:
        return uuid.UUID(id)
    except ValueError as error:
        raise ApiError(404, "There is no such glossary.") from error

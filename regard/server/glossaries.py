"""Glossaries that clients store on the server, in memory or as files of a folder; each client sees its own."""

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

log = logging.getLogger("regard.server")
STORE_FACTOR = 100  # all clients together may store this many times the glossaries of one


class StoredGlossary(BaseModel):
    """Glossary and its owner, the name of a client. Languages are upper-case codes without regions."""

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
        """Entries as a glossary that finds terms."""
        return Glossary(self.entries)


class GlossaryStore:
    """Store of at most ``limit`` glossaries of each client, of ``max_entries`` each.

    Names of files are drawn here: no client names a file.
    """

    def __init__(self, folder: Path | None = None, *, limit: int = 100, max_entries: int = 5_000) -> None:
        self._folder, self._limit, self._max_entries = folder, limit, max_entries
        self._lock = threading.Lock()
        self._stored: dict[uuid.UUID, StoredGlossary] = {}
        if folder is not None:
            self._read(folder)

    def add(self, owner: str, name: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Store a glossary and return it. ApiError for too many glossaries or entries."""
        if len(entries) > self._max_entries:
            raise ApiError(413, f"A glossary has at most {self._max_entries} entries.")
        stored = StoredGlossary(
            id=uuid.uuid4(), owner=owner, name=name, source=source, target=target,
            created=datetime.now(UTC), entries=dict(entries),
        )  # fmt: skip
        with self._lock:
            own = sum(each.owner == owner for each in self._stored.values())
            if own >= self._limit or len(self._stored) >= STORE_FACTOR * self._limit:
                raise ApiError(400, f"Too many glossaries: the limit is {self._limit}.")
            if self._folder is not None:
                try:
                    atomic_files.write_bytes_atomically(
                        self._path(stored.id), stored.model_dump_json(indent=1).encode()
                    )
                except StorageError as error:
                    log.error("a glossary cannot be stored: %s", error.what)
                    raise ApiError(503, "The glossary cannot be stored.", retry_after=60) from error
            self._stored[stored.id] = stored
        return stored

    def owned_by(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an owner, the oldest first."""
        with self._lock:
            return sorted(
                (each for each in self._stored.values() if each.owner == owner), key=lambda each: each.created
            )

    def find(self, owner: str, id: str) -> StoredGlossary:
        """Return the glossary of this owner with this id. ApiError 404 if there is none."""
        found = self._stored.get(_parse_id(id))
        if found is None or found.owner != owner:
            raise ApiError(404, "There is no such glossary.")
        return found

    def remove(self, owner: str, id: str) -> None:
        """Delete the glossary of this owner with this id. ApiError 404 if there is none."""
        with self._lock:
            found = self.find(owner, id)
            if self._folder is not None:
                self._path(found.id).unlink(missing_ok=True)
            del self._stored[found.id]

    def _path(self, id: uuid.UUID) -> Path:
        """Return the file of a glossary."""
        assert self._folder is not None
        return self._folder / f"{id}.json"

    def _read(self, folder: Path) -> None:
        """Read the glossaries of a folder; other files in it are left alone."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            paths = sorted(folder.glob("*.json"))
        except OSError as error:
            raise ConfigError(f"{folder} cannot hold glossaries", where="--glossaries", why=error.strerror) from error
        for path in paths:
            try:
                stored = StoredGlossary.model_validate_json(read_bytes(path, LARGE))
            except (OSError, ValueError):
                log.error("%s is not a glossary", path.name)
                continue
            if path == self._path(stored.id):
                self._stored[stored.id] = stored


def _parse_id(id: str) -> uuid.UUID:
    """Return the UUID. ApiError 404 if ``id`` is none."""
    try:
        return uuid.UUID(id)
    except ValueError as error:
        raise ApiError(404, "There is no such glossary.") from error

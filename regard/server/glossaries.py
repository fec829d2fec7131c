"""Glossaries that clients store on the server, in memory or in files; each client can access only its own."""

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
STORE_FACTOR = 100  # limit of the glossaries of all clients, as a multiple of the limit of one client


class StoredGlossary(BaseModel):
    """Glossary of a client, the owner. Languages are upper-case codes without regions."""

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
        """Glossary with these entries, which finds terms."""
        return Glossary(self.entries)


class GlossaryStore:
    """Store of glossaries. File names are random ids of the server: no client chooses a file name.

    Args:
        folder: the folder of the files; None keeps glossaries in memory.
        limit: the maximum number of glossaries per client.
        max_entries: the maximum number of entries per glossary.
    """

    def __init__(self, folder: Path | None = None, *, limit: int = 100, max_entries: int = 5_000) -> None:
        self._folder, self._limit, self._max_entries = folder, limit, max_entries
        self._lock = threading.Lock()
        self._stored: dict[uuid.UUID, StoredGlossary] = {}
        if folder is not None:
            self._read(folder)

    def add(self, owner: str, name: str, source: str, target: str, entries: Mapping[str, str]) -> StoredGlossary:
        """Store a glossary and return it; raise ApiError for too many glossaries or entries."""
        if len(entries) > self._max_entries:
            raise ApiError(413, f"A glossary has at most {self._max_entries} entries.")
        stored = StoredGlossary(
            id=uuid.uuid4(), owner=owner, name=name, source=source, target=target,
            created=datetime.now(UTC), entries=dict(entries),
        )  # fmt: skip
        with self._lock:
            own = sum(glossary.owner == owner for glossary in self._stored.values())
            if own >= self._limit or len(self._stored) >= STORE_FACTOR * self._limit:
                raise ApiError(400, f"Too many glossaries: the limit is {self._limit}.")
            if self._folder is not None:
                try:
                    atomic_files.write_bytes_atomically(
                        self._path(stored.id), stored.model_dump_json(indent=1).encode()
                    )
                except StorageError as error:
                    log.error("cannot store a glossary: %s", error.what)
                    raise ApiError(503, "The glossary cannot be stored.", retry_after=60) from error
            self._stored[stored.id] = stored
        return stored

    def owned_by(self, owner: str) -> list[StoredGlossary]:
        """Return the glossaries of an owner, oldest first."""
        with self._lock:
            owned = [glossary for glossary in self._stored.values() if glossary.owner == owner]
            return sorted(owned, key=lambda glossary: glossary.created)

    def find(self, owner: str, id: str) -> StoredGlossary:
        """Return the glossary of this owner with this id; raise ApiError 404 if it does not exist."""
        stored = self._stored.get(_parse_id(id))
        if stored is None or stored.owner != owner:
            raise ApiError(404, "The glossary does not exist.")
        return stored

    def remove(self, owner: str, id: str) -> None:
        """Delete the glossary of this owner with this id; raise ApiError 404 if it does not exist."""
        with self._lock:
            stored = self.find(owner, id)
            if self._folder is not None:
                self._path(stored.id).unlink(missing_ok=True)
            del self._stored[stored.id]

    def _path(self, id: uuid.UUID) -> Path:
        """Return the file of a glossary."""
        assert self._folder is not None
        return self._folder / f"{id}.json"

    def _read(self, folder: Path) -> None:
        """Read the glossaries in a folder; other files are ignored."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            paths = sorted(folder.glob("*.json"))
        except OSError as error:
            what = f"cannot store glossaries in {folder}"
            raise ConfigError(what, where="--glossaries", why=error.strerror) from error
        for path in paths:
            try:
                stored = StoredGlossary.model_validate_json(read_bytes(path, LARGE))
            except (OSError, ValueError):
                log.error("%s is not a glossary", path.name)
                continue
            if path == self._path(stored.id):
                self._stored[stored.id] = stored


def _parse_id(id: str) -> uuid.UUID:
    """Parse a UUID; raise ApiError 404 if ``id`` is not a UUID."""
    try:
        return uuid.UUID(id)
    except ValueError as error:
        raise ApiError(404, "The glossary does not exist.") from error

"""API keys in a JSON file, stored as digests, which a reader of the file cannot use.

    {"version": 1, "keys": [{"name": "alice", "sha256": "…", "requests_per_minute": 600, "characters": 1000000}]}

The file is read again when it changes, so a removed key is rejected immediately.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.core import atomic_files
from regard.core.untrusted_files import LARGE, read_bytes
from regard.core.wording import describe_error
from regard.errors import ConfigError

Positive = Annotated[int, Field(gt=0)]


class ApiKey(BaseModel):
    """API key of a client.

    Attributes:
        name: the owner of the key.
        sha256: the digest of the key.
        requests_per_minute: the limit of requests; None for the limit of the server.
        characters: the quota of characters since the start of the server; None for no quota.
        admin: whether the client may reload the models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    requests_per_minute: Positive | None = None
    characters: Positive | None = None
    admin: bool = False


class KeyFile(BaseModel):
    """Content of a file of API keys. Names are unique."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    keys: tuple[ApiKey, ...] = ()

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Read a file; raise ConfigError if it is not a file of API keys."""
        try:
            return cls.model_validate_json(read_bytes(path, LARGE))
        except (OSError, ValueError) as error:
            why = describe_error(error)
            raise ConfigError(
                f"{path} is not a file of API keys", where=str(path), why=why, help=f"regard keys add {path} NAME"
            ) from error

    def write(self, path: Path) -> None:
        """Write the file, readable only by its owner."""
        atomic_files.write_bytes_atomically(path, (self.model_dump_json(indent=2, exclude_none=True) + "\n").encode())
        path.chmod(0o600)


def add_key(
    path: Path, name: str, *, requests_per_minute: int | None, characters: int | None, admin: bool = False
) -> str:
    """Add a key for ``name`` to the file, which is created if missing. Return the key, which is not stored."""
    file = KeyFile.read(path) if path.exists() else KeyFile()
    if any(key.name == name for key in file.keys):
        raise ConfigError(f"{path} already has a key for {name}", where=name, help=f"regard keys remove {path} {name}")
    secret = secrets.token_urlsafe(24)
    key = ApiKey(
        name=name, sha256=_digest(secret), requests_per_minute=requests_per_minute, characters=characters, admin=admin
    )
    KeyFile(keys=(*file.keys, key)).write(path)
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove the key of ``name``; raise ConfigError if it does not exist."""
    file = KeyFile.read(path)
    left = tuple(key for key in file.keys if key.name != name)
    if len(left) == len(file.keys):
        names = ", ".join(key.name for key in file.keys) or "no one"
        raise ConfigError(f"{path} has no key for {name}", where=name, why=f"it has keys for {names}")
    KeyFile(keys=left).write(path)


class KeyStore:
    """API keys in the current version of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file, self._read_at = KeyFile.read(path), path.stat().st_mtime_ns

    def find(self, secret: str) -> ApiKey | None:
        """Return the API key with this secret; None if unknown. The duration does not depend on other keys."""
        digest = _digest(secret)
        matching = [key for key in self._current().keys if hmac.compare_digest(key.sha256, digest)]
        return matching[0] if matching else None

    def _current(self) -> KeyFile:
        """Return the content of the file; read it again if it changed."""
        with self._lock:
            try:
                changed = self.path.stat().st_mtime_ns
                if changed != self._read_at:
                    self._file, self._read_at = KeyFile.read(self.path), changed
            except (OSError, ConfigError):  # incomplete or missing: keep the last valid version
                pass
            return self._file


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret. Secrets are random, so a slow hash would not improve security."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

"""API keys in a JSON file, each as a digest, so that a reader of the file cannot use them.

    {"version": 1, "keys": [{"name": "alice", "sha256": "…", "requests_per_minute": 600, "characters": 1000000}]}

The file is read again when it changes: a key that is removed from it is refused at once.
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

    ``requests_per_minute``: the server's own limit if None. ``characters``: quota since the server began; None: no
    quota.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    requests_per_minute: Positive | None = None
    characters: Positive | None = None


class KeyFile(BaseModel):
    """Content of a file of API keys. Names are unique."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    keys: tuple[ApiKey, ...] = ()

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Read a file. ConfigError if it is not a file of API keys."""
        try:
            return cls.model_validate_json(read_bytes(path, LARGE))
        except (OSError, ValueError) as error:
            why = describe_error(error)
            raise ConfigError(
                f"{path} is not a file of API keys", where=str(path), why=why, help=f"regard keys add {path} NAME"
            ) from error

    def write(self, path: Path) -> None:
        """Write the file, readable by its owner alone."""
        atomic_files.write_bytes_atomically(path, (self.model_dump_json(indent=2, exclude_none=True) + "\n").encode())
        path.chmod(0o600)


def add_key(path: Path, name: str, *, requests_per_minute: int | None, characters: int | None) -> str:
    """Add a key for ``name`` to the file, which is made if missing. Return the key, which is stored nowhere else."""
    file = KeyFile.read(path) if path.exists() else KeyFile()
    if any(key.name == name for key in file.keys):
        raise ConfigError(f"{path} already has a key for {name}", where=name, help=f"regard keys remove {path} {name}")
    secret = secrets.token_urlsafe(24)
    key = ApiKey(name=name, sha256=_digest(secret), requests_per_minute=requests_per_minute, characters=characters)
    KeyFile(keys=(*file.keys, key)).write(path)
    return secret


def remove_key(path: Path, name: str) -> None:
    """Remove the key of ``name``. ConfigError if the file has none."""
    file = KeyFile.read(path)
    left = tuple(key for key in file.keys if key.name != name)
    if len(left) == len(file.keys):
        names = ", ".join(key.name for key in file.keys) or "no one"
        raise ConfigError(f"{path} has no key for {name}", where=name, why=f"it has keys for {names}")
    KeyFile(keys=left).write(path)


class KeyStore:
    """API keys of a file, as it is at present."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file, self._read_at = KeyFile.read(path), path.stat().st_mtime_ns

    def find(self, secret: str) -> ApiKey | None:
        """Return the API key with this secret, None if unknown. The time taken tells nothing about other keys."""
        digest = _digest(secret)
        matching = [key for key in self._current().keys if hmac.compare_digest(key.sha256, digest)]
        return matching[0] if matching else None

    def _current(self) -> KeyFile:
        """Return the content of the file, read again if it changed."""
        with self._lock:
            try:
                changed = self.path.stat().st_mtime_ns
                if changed != self._read_at:
                    self._file, self._read_at = KeyFile.read(self.path), changed
            except (OSError, ConfigError):  # half written, or gone: the last whole file holds
                pass
            return self._file


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret. Secrets are random: a slow hash would add nothing against guessing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

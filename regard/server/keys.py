"""Who may ask: keys in a JSON file, each as a digest, so that whoever reads the file cannot use them.

    {"version": 1, "keys": [{"name": "alice", "sha256": "…", "requests_per_minute": 600, "characters": 1000000}]}

The file is read anew when it changes: a key that is removed there is refused at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.core import atomic_files
from regard.core.untrusted_files import LARGE, read_bytes
from regard.core.wording import describe_validation_error
from regard.errors import ConfigError

__all__ = ["Key", "KeyFile", "Keys", "add_key", "remove_key"]

Positive = Annotated[int, Field(gt=0)]


class Key(BaseModel):
    """``requests_per_minute``: the server's own limit unless given; ``characters`` since the server began."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    requests_per_minute: Positive | None = None
    characters: Positive | None = None


class KeyFile(BaseModel):
    """What the file holds. Names are unique."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    keys: tuple[Key, ...] = ()

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """ConfigError where it is none."""
        try:
            return cls.model_validate_json(read_bytes(path, LARGE))
        except (OSError, ValueError) as error:
            why = describe_validation_error(error) if isinstance(error, ValidationError) else str(error)
            raise ConfigError(
                f"{path} is no file of keys", where=str(path), why=why, help=f"regard keys add {path} NAME"
            ) from error

    def write(self, path: Path) -> None:
        atomic_files.write_bytes_atomically(path, (self.model_dump_json(indent=2, exclude_none=True) + "\n").encode())
        path.chmod(0o600)


def add_key(path: Path, name: str, *, requests_per_minute: int | None, characters: int | None) -> str:
    """A new key for ``name`` in the file, which is made if it is not there. Returns the key: it is kept nowhere."""
    file = KeyFile.read(path) if path.exists() else KeyFile()
    if any(key.name == name for key in file.keys):
        raise ConfigError(f"{path} has a key for {name}", where=name, help=f"regard keys remove {path} {name}")
    given = secrets.token_urlsafe(24)
    key = Key(name=name, sha256=_digest(given), requests_per_minute=requests_per_minute, characters=characters)
    KeyFile(keys=(*file.keys, key)).write(path)
    return given


def remove_key(path: Path, name: str) -> None:
    """ConfigError where there is none of this name."""
    file = KeyFile.read(path)
    left = tuple(key for key in file.keys if key.name != name)
    if len(left) == len(file.keys):
        names = ", ".join(key.name for key in file.keys) or "nobody"
        raise ConfigError(f"{path} has no key for {name}", where=name, why=f"it has keys for {names}")
    KeyFile(keys=left).write(path)


class Keys:
    """The keys of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file, self._read_at = KeyFile.read(path), path.stat().st_mtime_ns

    def find(self, given: str) -> Key | None:
        """Whose key this is. All are looked at, each in the same time whatever it has in common with it."""
        digest = _digest(given)
        matching = [key for key in self._current().keys if hmac.compare_digest(key.sha256, digest)]
        return matching[0] if matching else None

    def _current(self) -> KeyFile:
        with self._lock:
            try:
                changed = self.path.stat().st_mtime_ns
                if changed != self._read_at:
                    self._file, self._read_at = KeyFile.read(self.path), changed
            except (OSError, ConfigError):  # half written, or gone: the last that was whole holds
                pass
            return self._file


def _digest(given: str) -> str:
    """Keys are drawn at random, so that guessing one is hopeless and a slow hash would add nothing."""
    return hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()

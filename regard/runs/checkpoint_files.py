"""Files of one checkpoint: tensors, state and manifest, written once and verified on every read.

    step-000500/
        model.safetensors       one file for each group of tensors
        optimizer.safetensors
        state.json              format version, step, names of shared tensors, the caller's state
        manifest.json           size and sha256 of each file above

If ranks shard the weights, a group has one file per rank (``regard.runs.row_files``). Loading verifies every byte that
it reads, and unpickles nothing.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import safetensors
import safetensors.torch
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from torch import Tensor

from regard.core import atomic_files
from regard.core.installation import upgrade_advice
from regard.core.tensors import separate, shared_names
from regard.core.untrusted_files import LARGE, SMALL, open_regular, parse_json
from regard.core.wording import describe_error
from regard.errors import ModelError, StorageError
from regard.models.saved_names import current_names
from regard.runs import row_files

FORMAT = 3  # incremented if older versions cannot read new files; 1, 2: names in models/saved_names.py
ROWS_FORMAT = 4  # for checkpoints with a group in several files

GROUP = r"^[a-z][a-z0-9_]*$"  # a group is a file name, so it must not contain path separators
HELP = "copy this checkpoint again, or remove its folder to use the previous checkpoint"

Step = Annotated[int, Field(ge=0, lt=10**15)]


class Checkpoint(NamedTuple):
    """A loaded checkpoint; the tensors of ``groups`` are on the CPU, and tied names share one tensor."""

    path: Path
    step: int
    groups: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Record(_Strict):
    size: Annotated[int, Field(ge=0)]
    sha256: str


class _Manifest(_Strict):
    format: int
    files: dict[str, _Record]


class _State(_Strict):
    format: int
    step: Step
    groups: list[Annotated[str, StringConstraints(pattern=GROUP)]]
    shared: dict[str, dict[str, str]]
    state: dict[str, Any]
    ranks: dict[str, Annotated[int, Field(ge=1, le=1 << 16)]] = {}  # number of files of each group that has several


_Part = TypeVar("_Part", _Manifest, _State)
_Value = TypeVar("_Value")


def load(path: Path, *, only: Collection[str] | None = None, mapped: bool = False) -> Checkpoint:
    """Load the checkpoint in ``path``, verifying every byte that is read. Cost: one sha256 pass over the files.

    Args:
        path: folder of the checkpoint.
        only: groups to load; all by default.
        mapped: whether to memory-map the files, which all processes then share. Such tensors must not be modified in
            place; the checkpoint may be removed meanwhile.

    Raises:
        ModelError: a file is missing, truncated, changed, foreign or too new.
        StorageError: reading is not permitted.
    """
    path = Path(path)
    manifest, state = _read_headers(path, only or ())
    names = state.groups if only is None else [name for name in state.groups if name in only]
    groups = {name: _read_group(path, name, manifest, state, mapped=mapped) for name in names}
    return Checkpoint(path, state.step, groups, state.state)


def shapes(path: Path, group: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the number format (in safetensors' notation) and shape of each tensor by name; no tensor is read.

    Raises the errors of ``load``, except for damage that only the sha256 of the whole file reveals.
    """
    manifest, state = _read_headers(path, [group])
    if group in state.ranks:
        return _row_shapes(path, group, manifest, state)
    name = f"{group}.safetensors"
    _require_size(path, name, manifest)
    try:
        with safetensors.safe_open(path / name, framework="pt") as opened:
            slices = {key: opened.get_slice(key) for key in opened.keys()}
            headers = {key: (str(view.get_dtype()), tuple(view.get_shape())) for key, view in slices.items()}
        return _renamed(headers | {alias: headers[own] for alias, own in state.shared[group].items()}, state)
    except (safetensors.SafetensorError, KeyError, ValueError, OSError) as error:
        raise _damaged(path / name, "has a format that Regard does not write", str(error)) from error


def _read_headers(path: Path, groups: Collection[str]) -> tuple[_Manifest, _State]:
    """Return the manifest and the state of a checkpoint; raises ModelError if one of ``groups`` is missing."""
    if not path.is_dir():
        raise ModelError(f"no checkpoint {path}", help="list the checkpoints of a run: regard info RUN")
    manifest = _parse(_Manifest, path / "manifest.json", read_file(path / "manifest.json", limit=SMALL))
    state = _parse(_State, path / "state.json", _read_verified(path, "state.json", manifest, limit=LARGE))
    if missing := set(groups) - set(state.groups):
        raise ModelError(f"{path} has no group of tensors named {', '.join(sorted(missing))}", where=str(path))
    return manifest, state


def identity(path: Path, group: str = "model") -> str:
    """Return the sha256 of a group's tensors from the manifest, without reading them.

    Raises ModelError if the manifest is missing, damaged or does not list the group.
    """
    manifest = _parse(_Manifest, path / "manifest.json", read_file(path / "manifest.json", limit=SMALL))
    if rows := sorted(name for name in manifest.files if name.startswith(f"{group}.rank-")):
        return hashlib.sha256("\n".join(manifest.files[name].sha256 for name in rows).encode()).hexdigest()
    if (name := f"{group}.safetensors") not in manifest.files:
        raise _damaged(path / "manifest.json", f"does not list {name}")
    return manifest.files[name].sha256


def write_recorded(path: Path, data: bytes) -> dict[str, Any]:
    """Write and sync a file of a checkpoint; returns its record for the manifest."""
    atomic_files.write_bytes(path, data)
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def write_files(
    temporary: Path,
    step: int,
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    *,
    ranks: Mapping[str, int] | None = None,
    written: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write and sync all files of a checkpoint into the folder ``temporary``, the manifest last.

    Args:
        temporary: the hidden folder.
        step: updates so far.
        groups: tensors by group and name.
        state: JSON values with text keys.
        ranks: number of files of groups that several ranks have already written there.
        written: records of these files, as returned by ``write_recorded``.
    """
    files: dict[str, Any] = dict(written or {})

    def write(name: str, data: bytes) -> None:
        files[name] = write_recorded(temporary / name, data)

    shared: dict[str, dict[str, str]] = {name: {} for name in ranks or {}}
    for name, tensors in groups.items():
        if not re.fullmatch(GROUP, name):
            raise ValueError(f"group names may have lowercase letters, digits and _, not {name!r}")
        shared[name] = shared_names(tensors)
        own = {key: tensor for key, tensor in tensors.items() if key not in shared[name]}
        write(f"{name}.safetensors", safetensors.torch.save(separate(own)))
        atomic_files.fault_point("tensors-written")
    format = ROWS_FORMAT if ranks else FORMAT
    whole = {"format": format, "step": step, "groups": list(shared), "shared": shared, "state": dict(state)}
    write("state.json", atomic_files.json_bytes(whole | ({"ranks": dict(ranks)} if ranks else {})))
    atomic_files.fault_point("state-written")
    manifest = {"format": format, "files": files}
    atomic_files.write_bytes(temporary / "manifest.json", atomic_files.json_bytes(manifest))
    atomic_files.fault_point("manifest-written")


def _read_group(path: Path, name: str, manifest: _Manifest, state: _State, *, mapped: bool) -> dict[str, Tensor]:
    if name in state.ranks:
        return _read_rows(path, name, manifest, state)
    file = f"{name}.safetensors"
    data = None if mapped else _read_verified(path, file, manifest)
    if mapped:
        _verify(path, file, manifest)
    try:
        tensors = safetensors.torch.load_file(path / file) if data is None else safetensors.torch.load(data)
        return _renamed(tensors | {alias: tensors[own] for alias, own in state.shared[name].items()}, state)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path / f"{name}.safetensors", "has a format that Regard does not write", str(error)) from error


def _read_rows(path: Path, group: str, manifest: _Manifest, state: _State) -> dict[str, Tensor]:
    names = row_files.file_names(group, state.ranks[group])
    headers = [_header(path, name, manifest) for name in names]
    files = (_read_verified(path, name, manifest) for name in names)
    try:
        return row_files.read_rows(files, headers)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(
            path / names[0], "does not match the other files of its group", str(error).splitlines()[0]
        ) from error


def _row_shapes(path: Path, group: str, manifest: _Manifest, state: _State) -> row_files.Shapes:
    names = row_files.file_names(group, state.ranks[group])
    headers = [_header(path, name, manifest) for name in names]
    try:
        return row_files.joined_shapes(headers)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path / names[0], "does not match the other files of its group", str(error)) from error


def _header(path: Path, name: str, manifest: _Manifest) -> dict[str, Any]:
    _require_size(path, name, manifest)
    with _explain_read_errors(path / name), open(path / name, "rb", opener=open_regular) as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        data = start + file.read(min(size, LARGE))
    try:
        return row_files.header_of(data, manifest.files[name].size)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path / name, "has a format that Regard does not write", str(error)) from error


def _renamed(tensors: dict[str, _Value], state: _State) -> dict[str, _Value]:
    """Return the tensors of a checkpoint under their current names."""
    return current_names(tensors) if state.format < FORMAT else tensors


def _require_size(path: Path, name: str, manifest: _Manifest) -> None:
    if name not in manifest.files:
        raise _damaged(path / "manifest.json", f"does not list {name}")
    expected, file = manifest.files[name].size, path / name
    with _explain_read_errors(file):
        size = file.stat().st_size
    if size != expected:
        problem = "is truncated" if size < expected else "is too long"
        raise _damaged(file, problem, f"it has {size:,} bytes; manifest.json states {expected:,}")


def _read_verified(path: Path, name: str, manifest: _Manifest, *, limit: int | None = None) -> bytes:
    _require_size(path, name, manifest)
    data = read_file(path / name, limit=limit)
    _require_hash(path / name, hashlib.sha256(data).hexdigest(), manifest)
    return data


def _verify(path: Path, name: str, manifest: _Manifest) -> None:
    """Verify a file like ``_read_verified``, without keeping its content."""
    _require_size(path, name, manifest)
    with _explain_read_errors(path / name), open(path / name, "rb", opener=open_regular) as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    _require_hash(path / name, digest, manifest)


def _require_hash(file: Path, digest: str, manifest: _Manifest) -> None:
    if digest != manifest.files[file.name].sha256:
        raise _damaged(file, "was changed after it was written", "its sha256 differs from the one in manifest.json")


def read_file(file: Path, *, limit: int | None) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes; raises ModelError or StorageError."""
    with _explain_read_errors(file), open(file, "rb", opener=open_regular) as opened:
        if limit is not None and file.stat().st_size > limit:
            raise _damaged(file, "has a format that Regard does not write", f"it has more than {limit:,} bytes")
        return opened.read()


@contextmanager
def _explain_read_errors(file: Path) -> Iterator[None]:
    """Convert an OSError to a ModelError (missing or damaged) or a StorageError (no permission)."""
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(file, "is missing", "a copy is incomplete, or this is not a Regard checkpoint") from error
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise StorageError(
                f"no permission to read {file}", where=str(file), why=error.strerror, help=f"chmod u+r {file}"
            ) from error
        raise _damaged(file, "cannot be read", error.strerror) from error


def _parse(kind: type[_Part], file: Path, data: bytes) -> _Part:
    """Parse a file. Its version is checked first, since a file of a newer version is not damaged."""
    try:
        content = parse_json(data)
        version = content["format"]
        if isinstance(version, int) and version > ROWS_FORMAT:
            raise ModelError(
                f"{file.parent.name} was written by a newer version of Regard",
                where=str(file),
                why=f"it has format {version}; this version reads up to {ROWS_FORMAT}",
                help=upgrade_advice(),
            )
        if version not in range(1, ROWS_FORMAT + 1):
            raise ValueError(f"format {version!r} is unknown")
        return kind.model_validate(content)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, "has a format that Regard does not write", describe_error(error)) from error


def _damaged(file: Path, problem: str, why: str | None = None) -> ModelError:
    return ModelError(f"{file.name} of {file.parent.name} {problem}", where=str(file), why=why, help=HELP)

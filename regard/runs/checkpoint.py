"""Checkpoints that are whole or invisible.

    checkpoints/
        step-000500/
            model.safetensors       one file for each group of tensors
            optimizer.safetensors
            state.json              format version, step, which names share one tensor, the caller's state
            manifest.json           size and sha256 of each file above
        best.json                   which step was best, by which metric

A checkpoint is written under a hidden name, synced and renamed; a kill at any moment leaves the one before
or the new one. Loading verifies every byte and unpickles nothing.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import safetensors
import safetensors.torch
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from torch import Tensor

from regard.core import atomic_files
from regard.core.installation import upgrade_advice
from regard.core.tensors import digest, mean, shared_names
from regard.core.untrusted_files import LARGE, SMALL, open_regular, parse_json
from regard.core.wording import describe_validation_error
from regard.errors import ModelError, RegardError, StorageError
from regard.models.saved_names import current_names

__all__ = [
    "FORMAT",
    "Best",
    "Checkpoint",
    "average",
    "best_or_none",
    "digest",
    "identity",
    "list_steps",
    "load",
    "load_latest",
    "mark_best",
    "read_best",
    "save",
    "shapes",
    "step_path",
]

FORMAT = 2  # raised when an older regard could not read what this one writes; 1: names before models/saved_names.py

GROUP = r"^[a-z][a-z0-9_]*$"  # a group is a file name: nothing in it may lead out of the folder
FOLDER = re.compile(r"(?:step-(\d{6,15})|\.step-(\d{6,15})\.old)")
HELP = "copy this checkpoint again; or remove its folder: the one before it, if there is one, is then used"


class Checkpoint(NamedTuple):
    """One loaded checkpoint; ``groups`` are on the CPU, tied names hold one and the same tensor."""

    path: Path
    step: int
    groups: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


Step = Annotated[int, Field(ge=0, lt=10**15)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Best(NamedTuple):
    """Which checkpoint did best so far."""

    step: int
    metric: str
    value: float


class _Best(_Strict):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    step: Step
    metric: str
    value: float


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


_Part = TypeVar("_Part", _Manifest, _State)
_Value = TypeVar("_Value")


def save(
    folder: Path,
    step: int,
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    *,
    keep: int,
    protect: Collection[str] = (),
) -> Path:
    """Store one checkpoint in ``folder`` and prune the others; returns its path.

    Tensors come back bit for bit, on the CPU; those that share memory under several names of one group are
    stored once. ``state`` must be JSON with text keys. The last ``keep`` checkpoints stay, the best one, and
    those named in ``protect`` ("step-000500"). Checkpoints beyond ``step`` are removed unless protected: to
    save ``step`` says that training stands there, so they are broken or belong to a course that was left.

    Raises StorageError where the disk is full or may not be written; earlier checkpoints are then intact.
    Holds one group twice in memory.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    final = step_path(folder, step)
    temporary = atomic_files.hidden_sibling(final, "tmp")
    with atomic_files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.sweep(folder)
        with atomic_files.remove_on_error(temporary):
            temporary.mkdir()
            _write(temporary, step, groups, state)
    atomic_files.commit_folder(temporary, final)
    _prune(folder, step, keep, {*protect, final.name})
    return final


def load(path: Path, *, only: Collection[str] | None = None) -> Checkpoint:
    """Load the checkpoint in ``path``, verifying every byte it reads; ``only`` these groups, all by default.

    Raises ModelError naming the file that is missing, truncated, changed, foreign or too new, and
    StorageError where reading is not permitted. Cost: one pass of sha256 over the files.
    """
    path = Path(path)
    manifest, inside = _heads(path, only or ())
    wanted = inside.groups if only is None else [name for name in inside.groups if name in only]
    groups = {name: _read_group(path, name, manifest, inside) for name in wanted}
    return Checkpoint(path, inside.step, groups, inside.state)


def shapes(path: Path, group: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The number format, as safetensors spells it, and the shape of each tensor of a group. Reads none of them.

    Raises as ``load`` does, but for what only a sha256 of the whole file would show.
    """
    manifest, inside = _heads(path, [group])
    name = f"{group}.safetensors"
    _require_size(path, name, manifest)
    try:
        with safetensors.safe_open(path / name, framework="pt") as opened:
            slices = {key: opened.get_slice(key) for key in opened.keys()}
            found = {key: (str(each.get_dtype()), tuple(each.get_shape())) for key, each in slices.items()}
        return _renamed(found | {alias: found[own] for alias, own in inside.shared[group].items()}, inside)
    except (safetensors.SafetensorError, KeyError, ValueError, OSError) as error:
        raise _damaged(path / name, "is not what regard writes", str(error)) from error


def _heads(path: Path, groups: Collection[str]) -> tuple[_Manifest, _State]:
    """What a checkpoint says of itself. ModelError where it has not all of these groups."""
    if not path.is_dir():
        raise ModelError(f"there is no checkpoint {path}", help="regard info RUN lists those of a run")
    manifest = _parse(_Manifest, path / "manifest.json", _read(path / "manifest.json", limit=SMALL))
    inside = _parse(_State, path / "state.json", _read_verified(path, "state.json", manifest, limit=LARGE))
    if missing := set(groups) - set(inside.groups):
        raise ModelError(f"{path} holds no tensors called {', '.join(sorted(missing))}", where=str(path))
    return manifest, inside


def load_latest(folder: Path, on_problem: Callable[[str], None]) -> Checkpoint | None:
    """Load the newest whole checkpoint of ``folder``; None where there has never been one.

    Each newer one that cannot be used is reported through ``on_problem``. Raises ModelError where there
    are checkpoints and none can be used: to start afresh must be the user's decision.
    """
    candidates = _candidates(folder)
    for step in sorted(candidates, reverse=True):
        try:
            return load(candidates[step])
        except ModelError as error:
            on_problem(f"{candidates[step].name} cannot be used, trying the one before it. {error}")
    if candidates:
        raise ModelError(
            f"none of the {len(candidates)} checkpoints in {folder} can be used",
            where=str(folder),
            help="start again in a new run folder",
        )
    return None


def list_steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint in ``folder``, ascending; ``load`` tells whether one is whole."""
    return sorted(_candidates(folder))


def step_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return Path(folder) / f"step-{step:06d}"


def mark_best(folder: Path, step: int, metric: str, value: float) -> None:
    """Point ``best.json`` at a step saved before; pruning spares it from then on."""
    atomic_files.write_json(Path(folder) / "best.json", {"step": step, "metric": metric, "value": value})


def read_best(folder: Path) -> Best | None:
    """What ``mark_best`` said last, or None; raises ModelError where the file is not understood."""
    path = Path(folder) / "best.json"
    if not path.exists():
        return None
    try:
        return Best(**_Best.model_validate_json(_read(path, limit=SMALL)).model_dump())
    except ValueError as error:
        raise ModelError(f"{path} is damaged", where=str(path), why=_short(error), help="remove it") from error


def average(sources: Sequence[Path | Mapping[str, Tensor]], *, group: str = "model") -> dict[str, Tensor]:
    """The mean of one group over checkpoints, each a path (one is loaded at a time) or tensors.

    Float64 sums, tied names once, integer buffers from the last; see ``regard.core.tensors.mean``.
    """

    def tensors(source: Path | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return source if isinstance(source, Mapping) else load(source, only={group}).groups[group]

    return mean(tensors(source) for source in sources)


def identity(path: Path, group: str = "model") -> str:
    """What tells the tensors of a group from others without reading them: their sha256, as the manifest has it.

    Raises ModelError where the manifest is missing, damaged or lists no such group.
    """
    manifest = _parse(_Manifest, path / "manifest.json", _read(path / "manifest.json", limit=SMALL))
    if (name := f"{group}.safetensors") not in manifest.files:
        raise _damaged(path / "manifest.json", f"does not list {name}")
    return manifest.files[name].sha256


def _write(temporary: Path, step: int, groups: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    files: dict[str, dict[str, Any]] = {}

    def write(name: str, data: bytes) -> None:
        atomic_files.write_bytes(temporary / name, data)
        files[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    shared = {}
    for name, tensors in groups.items():
        if not re.fullmatch(GROUP, name):
            raise ValueError(f"a group is named in lower case letters, digits and _, not {name!r}")
        shared[name] = shared_names(tensors)
        own = {key: tensor for key, tensor in tensors.items() if key not in shared[name]}
        write(f"{name}.safetensors", safetensors.torch.save(_separate(own)))
        atomic_files.fault_point("tensors-written")
    whole = {"format": FORMAT, "step": step, "groups": list(groups), "shared": shared, "state": dict(state)}
    write("state.json", atomic_files.json_bytes(whole))
    atomic_files.fault_point("state-written")
    atomic_files.write_bytes(
        temporary / "manifest.json", atomic_files.json_bytes({"format": FORMAT, "files": dict(files)})
    )
    atomic_files.fault_point("manifest-written")


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU no two of which lie in one storage, as safetensors wants them."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage_start = plain.untyped_storage().data_ptr()
        separate[name] = plain.clone() if storage_start in seen else plain
        seen.add(storage_start)
    return separate


def _prune(folder: Path, step: int, keep: int, protected: set[str]) -> None:
    best = best_or_none(folder)
    if best is not None and best.step > step:
        atomic_files.remove_file(folder / "best.json")
    elif best is not None:
        protected = {*protected, step_path(folder, best.step).name}
    steps = list_steps(folder)
    last = [each for each in steps if each <= step][-keep:]
    for each in steps:
        path = step_path(folder, each)
        if each not in last and path.name not in protected:
            atomic_files.remove_folder(path)


def best_or_none(folder: Path) -> Best | None:
    """``read_best``, but None for a damaged file: that must not stop training; whoever asks for the best is told."""
    try:
        return read_best(folder)
    except RegardError:
        return None


def _candidates(folder: Path) -> dict[int, Path]:
    """Every step's folder; one that was set aside counts only where its successor never arrived."""
    found: dict[int, Path] = {}
    if not Path(folder).is_dir():
        return found
    for path in sorted(Path(folder).iterdir()):  # ".step-…old" sorts before "step-…", which then wins
        match = FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            found[int(match[1] or match[2])] = path
    return found


def _read_group(path: Path, name: str, manifest: _Manifest, inside: _State) -> dict[str, Tensor]:
    data = _read_verified(path, f"{name}.safetensors", manifest)
    try:
        tensors = safetensors.torch.load(data)
        return _renamed(tensors | {alias: tensors[own] for alias, own in inside.shared[name].items()}, inside)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path / f"{name}.safetensors", "is not what regard writes", str(error)) from error


def _renamed(tensors: dict[str, _Value], inside: _State) -> dict[str, _Value]:
    """Tensors of a checkpoint under their present names."""
    return current_names(tensors) if inside.format == 1 else tensors


def _require_size(path: Path, name: str, manifest: _Manifest) -> None:
    if name not in manifest.files:
        raise _damaged(path / "manifest.json", f"does not list {name}")
    wanted, file = manifest.files[name].size, path / name
    with _told(file):
        size = file.stat().st_size
    if size != wanted:
        problem = "is truncated" if size < wanted else "is longer than it was"
        raise _damaged(file, problem, f"manifest.json says {wanted:,} bytes")


def _read_verified(path: Path, name: str, manifest: _Manifest, *, limit: int | None = None) -> bytes:
    _require_size(path, name, manifest)
    data = _read(path / name, limit=limit)
    if hashlib.sha256(data).hexdigest() != manifest.files[name].sha256:
        raise _damaged(path / name, "was changed after it was written", "its sha256 is not the one in manifest.json")
    return data


def _read(file: Path, *, limit: int | None) -> bytes:
    with _told(file), open(file, "rb", opener=open_regular) as opened:
        if limit is not None and file.stat().st_size > limit:
            raise _damaged(file, "is not what regard writes", f"it has more than {limit:,} bytes")
        return opened.read()


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """What the system refuses, as a damaged file or as one that may not be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(file, "is missing", "a copy was cut short, or this is no checkpoint of regard") from error
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise StorageError(
                f"{file} may not be read", where=str(file), why=error.strerror, help=f"chmod u+r {file}"
            ) from error
        raise _damaged(file, "cannot be read", error.strerror) from error


def _parse(kind: type[_Part], file: Path, data: bytes) -> _Part:
    """Check the format version first: what a newer regard wrote is not damaged, it is newer."""
    try:
        found = parse_json(data)
        version = found["format"]
        if isinstance(version, int) and version > FORMAT:
            raise ModelError(
                f"{file.parent.name} was written by a newer regard",
                where=str(file),
                why=f"it has format {version}, and this one reads up to {FORMAT}",
                help=upgrade_advice(),
            )
        if version not in range(1, FORMAT + 1):
            raise ValueError(f"format {version!r} is unknown")
        return kind.model_validate(found)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, "is not what regard writes", _short(error)) from error


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return describe_validation_error(error)
    return f"{type(error).__name__}: {error}"


def _damaged(file: Path, problem: str, why: str | None = None) -> ModelError:
    return ModelError(f"{file.name} of {file.parent.name} {problem}", where=str(file), why=why, help=HELP)

"""A bulk job: its plan and its blocks, which are written to the output folder before any work.

    OUT/.bulk/plan.json         settings, digest of the model, sizes of the inputs, blocks with their sha256
    OUT/.bulk/blocks/000017     outputs of a block, whole (block_file.py)
    OUT/.bulk/claims/000017     lock and journal of a block in work (journal.py)
    OUT/.bulk/done.json         record of the joined job; the folders above are then deleted
    OUT/NAME                    outputs of the input of that name, joined

The first process writes the plan; all others read it and must belong to the same job.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.bulk.scan import Block, blocks_of, require_readable
from regard.core import atomic_files
from regard.data.packed_files import is_gzipped
from regard.errors import ConfigError, DataError

FORMAT = 1
FEWEST, MOST = 512, 8192  # default lines of a block: few for small inputs, which gives work to all workers
BYTES = 1 << 14  # of the inputs for a line of a block
QUARANTINE = "quarantine.jsonl"
PATIENCE = 24 * 3600.0  # seconds to wait for another process that writes the plan

Advance = Callable[[int], None]


class BulkJob(NamedTuple):
    """A job whose plan is written. ``digest``: sha256 of the plan. ``seed``: given, or drawn once for the job."""

    out: Path
    paths: list[Path]
    names: list[str]
    blocks: list[Block]
    digest: str
    seed: int

    @property
    def finished(self) -> Path:
        """Path of the record of a joined job."""
        return self.out / ".bulk" / "done.json"

    def block_path(self, block: Block) -> Path:
        return self.out / ".bulk" / "blocks" / f"{block.number:06d}"

    def claim_path(self, block: Block) -> Path:
        return self.out / ".bulk" / "claims" / f"{block.number:06d}"

    def missing(self, blocks: Sequence[Block]) -> list[Block]:
        """Return the unpublished blocks; [] once the job is joined."""
        if self.finished.exists():
            return []
        folder = self.out / ".bulk" / "blocks"
        try:
            published = {path.name for path in folder.iterdir()}
        except FileNotFoundError:
            if self.finished.exists():  # joined a moment ago
                return []
            raise DataError("the blocks of this job are missing", where=str(folder), help="name a new folder") from None
        return [block for block in blocks if self.block_path(block).name not in published]


def open_job(
    out: Path, paths: Sequence[Path], settings: Mapping[str, Any], *, lines: int | None = None,
    seed: int | None = None, advance: Advance = lambda count: None,
) -> BulkJob:  # fmt: skip
    """Begin the job of these inputs and settings in a folder, or open it if it exists.

    Args:
        out: output folder.
        paths: inputs.
        settings: of the work; a later process must have the same.
        lines: of a block; None: chosen by the size of the inputs.
        seed: of the job; None: drawn.
        advance: called with the number of bytes read.

    Raises:
        ConfigError: the folder holds another job or other files.
        DataError: an input has changed since the job began.
    """
    names = _names(out, paths)
    for path in paths:
        require_readable(path)
    folder = out / ".bulk"
    if out.is_dir() and not folder.is_dir() and any(out.iterdir()):
        raise ConfigError("the output folder holds other files", where=str(out), help="name a new folder")
    with atomic_files.explain_os_errors(out):
        for subfolder in (folder / "blocks", folder / "claims"):
            subfolder.mkdir(parents=True, exist_ok=True)
    plan, settings = folder / "plan.json", json.loads(json.dumps(dict(settings) | {"seed": seed}))
    with atomic_files.locked(folder / "lock", patience=PATIENCE):
        if not plan.exists():
            block_lines = lines or min(MOST, max(FEWEST, sum(path.stat().st_size for path in paths) // BYTES))
            inputs = [_input(path, name, block_lines, advance) for path, name in zip(paths, names, strict=True)]
            drawn = secrets.randbits(32) if seed is None else seed
            whole = {"format": FORMAT, "settings": settings, "lines": block_lines, "seed": drawn, "inputs": inputs}
            atomic_files.publish_first(plan, [atomic_files.json_bytes(whole)])
    data = _read(plan)
    content = json.loads(data)
    _require_same(plan, content, settings, names, lines)
    for path, known in zip(paths, content["inputs"], strict=True):
        _require_unchanged(path, known, content["lines"], advance)
    return BulkJob(out, list(paths), names, _blocks(content), hashlib.sha256(data).hexdigest(), content["seed"])


def _names(out: Path, paths: Sequence[Path]) -> list[str]:
    """Return the names of the outputs: those of the inputs without ``.gz``. Raises ConfigError if two are equal."""
    names = [path.name[:-3] if is_gzipped(path) else path.name for path in paths]
    for name, count in Counter(names).items():
        same = [str(path) for path, other in zip(paths, names, strict=True) if other == name]
        if count > 1:
            help = "use two commands with separate output folders, or rename one"
            raise ConfigError(
                f"several inputs have the output {out / name}", where=same[0], why=", ".join(same), help=help
            )
        if name in (".bulk", QUARANTINE, ""):
            raise ConfigError(f"{name or same[0]} cannot be the name of an output", where=same[0], help="rename it")
        if (out / name).exists() and any((out / name).samefile(path) for path in paths if path.exists()):
            raise ConfigError("the output would replace an input", where=same[0], help="name another folder")
    return names


def _input(path: Path, name: str, lines: int, advance: Advance) -> dict[str, Any]:
    """Return the record of an input: size, time, and lines, end and sha256 of each block."""
    status = path.stat()
    return {
        "name": name, "bytes": status.st_size, "modified": status.st_mtime_ns,
        "blocks": list(blocks_of(path, lines, advance)),
    }  # fmt: skip


def _read(plan: Path) -> bytes:
    try:
        data = plan.read_bytes()
        if json.loads(data)["format"] == FORMAT:
            return data
        why = f"its format is not {FORMAT}: it comes from another version of regard"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error)
    raise DataError("the plan of this output folder cannot be read", where=str(plan), why=why, help="name a new folder")


def _require_same(
    plan: Path, content: Mapping[str, Any], settings: Mapping[str, Any], names: list[str], lines: int | None
) -> None:
    earlier = content["settings"]
    different = sorted(key for key in {*earlier, *settings} if earlier.get(key) != settings.get(key))
    different += ["inputs"] if [entry["name"] for entry in content["inputs"]] != names else []
    different += ["--block"] if lines not in (None, content["lines"]) else []
    if different:
        raise ConfigError(
            "this output folder belongs to another job",
            where=str(plan),
            why=f"it differs in {', '.join(different)}",
            help="give the same options and inputs again, or name a new folder",
        )


def _require_unchanged(path: Path, known: Mapping[str, Any], lines: int, advance: Advance) -> None:
    """Raise DataError if an input differs from the plan. An input with a newer time is read again to find out."""
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) == (known["bytes"], known["modified"]):
        return
    if not is_gzipped(path) and status.st_size != known["bytes"]:
        why = f"it had {known['bytes']:,} bytes, and now has {status.st_size:,}"
    elif [list(block) for block in blocks_of(path, lines, advance)] != known["blocks"]:
        why = "its text differs"
    else:
        return
    help = "restore it, or name another output folder"
    raise DataError("the input has changed since this job began", where=str(path), why=why, help=help)


def _blocks(plan: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    for number, entry in enumerate(plan["inputs"]):
        first, start = 1, 0
        for lines, end, sha256 in entry["blocks"]:
            blocks.append(Block(len(blocks), number, first, lines, start, end, sha256))
            first, start = first + lines, end
    return blocks

"""A bulk job: what is done, and its blocks; both stand in the output folder before any work.

    OUT/.bulk/plan.json         settings, digest of the model, sizes of the inputs, blocks with their sha256
    OUT/.bulk/blocks/000017     outputs of a block, whole (block_file.py)
    OUT/.bulk/claims/000017     lock and journal of a block in work (journal.py)
    OUT/.bulk/done.json         what was made, once it is joined; the folders above are then gone
    OUT/NAME                    outputs of the input of that name, joined

The first process writes the plan; all others, at once or later, find it and must be of the same job.
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
FEWEST, MOST = 512, 8192  # lines of a block, unless told: few where the inputs are small, so that all workers have some
BYTES = 1 << 14  # of the inputs for a line of a block
QUARANTINE = "quarantine.jsonl"
PATIENCE = 24 * 3600.0  # seconds that another process may take for the plan

Advance = Callable[[int], None]


class BulkJob(NamedTuple):
    """A job whose plan is written. ``digest`` is of the whole plan; ``seed``: the one given, or drawn once for all."""

    out: Path
    paths: list[Path]
    names: list[str]
    blocks: list[Block]
    digest: str
    seed: int

    @property
    def finished(self) -> Path:
        """The record of a joined job."""
        return self.out / ".bulk" / "done.json"

    def block_path(self, block: Block) -> Path:
        return self.out / ".bulk" / "blocks" / f"{block.number:06d}"

    def claim_path(self, block: Block) -> Path:
        return self.out / ".bulk" / "claims" / f"{block.number:06d}"

    def missing(self, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that nobody has published; none once the job is joined."""
        if self.finished.exists():
            return []
        folder = self.out / ".bulk" / "blocks"
        try:
            there = {path.name for path in folder.iterdir()}
        except FileNotFoundError:
            if self.finished.exists():  # joined a moment ago
                return []
            raise DataError("the blocks of this job are gone", where=str(folder), help="name a new folder") from None
        return [block for block in blocks if self.block_path(block).name not in there]


def open_job(
    out: Path, paths: Sequence[Path], settings: Mapping[str, Any], *, lines: int | None = None,
    seed: int | None = None, advance: Advance = lambda count: None,
) -> BulkJob:  # fmt: skip
    """The job of these inputs and settings in a folder, begun here or before.

    ConfigError where the folder holds another job or other files, DataError where an input has changed since.
    """
    names = _names(out, paths)
    for path in paths:
        require_readable(path)
    folder = out / ".bulk"
    if out.is_dir() and not folder.is_dir() and any(out.iterdir()):
        raise ConfigError("the output folder holds other files", where=str(out), help="name a new folder")
    with atomic_files.explain_os_errors(out):
        for each in (folder / "blocks", folder / "claims"):
            each.mkdir(parents=True, exist_ok=True)
    plan, settings = folder / "plan.json", json.loads(json.dumps(dict(settings) | {"seed": seed}))
    with atomic_files.locked(folder / "lock", patience=PATIENCE):
        if not plan.exists():
            wanted = lines or min(MOST, max(FEWEST, sum(path.stat().st_size for path in paths) // BYTES))
            inputs = [_input(path, name, wanted, advance) for path, name in zip(paths, names, strict=True)]
            drawn = secrets.randbits(32) if seed is None else seed
            whole = {"format": FORMAT, "settings": settings, "lines": wanted, "seed": drawn, "inputs": inputs}
            atomic_files.publish_first(plan, [atomic_files.json_bytes(whole)])
    data = _read(plan)
    found = json.loads(data)
    _require_same(plan, found, settings, names, lines)
    for path, known in zip(paths, found["inputs"], strict=True):
        _require_unchanged(path, known, found["lines"], advance)
    return BulkJob(out, list(paths), names, _blocks(found), hashlib.sha256(data).hexdigest(), found["seed"])


def _names(out: Path, paths: Sequence[Path]) -> list[str]:
    """The names of the outputs, those of the inputs without ``.gz``; ConfigError where two are the same."""
    names = [path.name[:-3] if is_gzipped(path) else path.name for path in paths]
    for name, count in Counter(names).items():
        same = [str(path) for path, each in zip(paths, names, strict=True) if each == name]
        if count > 1:
            help = "give them to two commands with an output folder each, or rename one"
            raise ConfigError(f"several inputs would be {out / name}", where=same[0], why=", ".join(same), help=help)
        if name in (".bulk", QUARANTINE, ""):
            raise ConfigError(f"{name or same[0]} is no name for an output", where=same[0], help="rename it")
        if (out / name).exists() and any((out / name).samefile(path) for path in paths if path.exists()):
            raise ConfigError("the output would replace an input", where=same[0], help="name another folder")
    return names


def _input(path: Path, name: str, lines: int, advance: Advance) -> dict[str, Any]:
    """The record of one input: its size and time, and lines, end and sha256 of each block."""
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
        why = f"its format is not {FORMAT}: another version of regard wrote it"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error)
    raise DataError("the plan of this output folder cannot be read", where=str(plan), why=why, help="name a new folder")


def _require_same(
    plan: Path, found: Mapping[str, Any], settings: Mapping[str, Any], names: list[str], lines: int | None
) -> None:
    before = found["settings"]
    different = sorted(key for key in {*before, *settings} if before.get(key) != settings.get(key))
    different += ["inputs"] if [each["name"] for each in found["inputs"]] != names else []
    different += ["--block"] if lines not in (None, found["lines"]) else []
    if different:
        raise ConfigError(
            "this output folder belongs to another job",
            where=str(plan),
            why=f"it differs in {', '.join(different)}",
            help="give the same options and inputs again, or name a new folder",
        )


def _require_unchanged(path: Path, known: Mapping[str, Any], lines: int, advance: Advance) -> None:
    """DataError for an input of other contents than the plan says; one that is only newer is read again to tell."""
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) == (known["bytes"], known["modified"]):
        return
    if not is_gzipped(path) and status.st_size != known["bytes"]:
        why = f"it had {known['bytes']:,} bytes, and has {status.st_size:,}"
    elif [list(each) for each in blocks_of(path, lines, advance)] != known["blocks"]:
        why = "its text is another"
    else:
        return
    help = "restore it, or name another output folder"
    raise DataError("the input has changed since this job began", where=str(path), why=why, help=help)


def _blocks(plan: Mapping[str, Any]) -> list[Block]:
    found: list[Block] = []
    for number, each in enumerate(plan["inputs"]):
        first, start = 1, 0
        for lines, end, sha256 in each["blocks"]:
            found.append(Block(len(found), number, first, lines, start, end, sha256))
            first, start = first + lines, end
    return found

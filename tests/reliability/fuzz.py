"""Files changed at random, read for as long as wanted: success or a RegardError, within a budget of memory.

    python -m tests.reliability.fuzz --minutes 60
    python -m tests.reliability.fuzz --file piece.mid --seed 1234     one case again

Each file of ``data_files`` and each received one of ``test_received_files`` is read by a process of its own, which may
take ``BUDGET`` bytes beyond what it has after reading the file as it was. A case is a file's name and a seed, so that a
report says how to repeat it. Faults are: an exception that is no RegardError, a process that ends or hangs, and memory
beyond the budget, also where that is reported by a RegardError.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.errors import RegardError

from .changes import changed
from .data_files import READERS, SAMPLES

__all__ = ["Fault", "Outcome", "case", "is_refusal", "names", "read_cases", "run_cases"]

BUDGET = 1 << 30  # bytes of address space for a file of some kilobytes
PATIENCE = 120.0  # seconds in which a case ends, on a machine that others use, too
CASES = 200  # of a process
OUT_OF_MEMORY = "more memory than is available"


class Fault(NamedTuple):
    """A case that ended in something else, and what that was."""

    file: str
    seed: int
    what: str


class Outcome(NamedTuple):
    """The cases of a file: how many were read, how many refused, and the faults."""

    read: int
    refused: int
    faults: list[Fault]


def case(name: str, whole: bytes, seed: int) -> bytes:
    """The file of a case: one to three changes, each of what the one before has left."""
    draw = random.Random(f"{name} {seed}")
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        try:
            whole = changed(name, whole, draw)
        except Exception:  # noqa: BLE001 - what is damaged cannot be taken apart any more
            return whole
    return whole


def received() -> list[str]:
    from .test_received_files import READERS as RECEIVED

    return [f"received/{name}" for name in RECEIVED]


def names() -> list[str]:
    """Every file that can be read."""
    return [*READERS, *received()]


def run_cases(name: str, first: int, count: int, *, preamble: str = "pass") -> Outcome:
    """Read the cases ``first`` … of a file in processes of their own; one that ends is followed by the next.

    ``preamble``: Python that such a process begins with, for tests of this module.
    """
    tally, faults, seed = Counter[str](), list[Fault](), first
    while seed < first + count:
        begin = (
            f"{preamble}\nfrom tests.reliability import fuzz\nfuzz.read_cases({name!r}, {seed}, {first + count - seed})"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", begin], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        seed, ended = _followed(child, name, seed, tally, faults)
        if ended is not None:
            faults.append(Fault(name, seed, ended))
        seed += 1
    return Outcome(tally["read"], tally["refused"], faults)


def _followed(
    child: subprocess.Popen[str], name: str, seed: int, tally: Counter[str], faults: list[Fault]
) -> tuple[int, str | None]:
    """Count what a child reports. The seed of its last case, and how it ended where it did not end well."""
    assert child.stdout is not None and child.stderr is not None
    with child:
        for line in _lines(child):
            report = json.loads(line)
            seed = report["seed"]
            if "fault" in report:
                faults.append(Fault(name, seed, report["fault"]))
            elif "outcome" in report:
                tally[report["outcome"]] += 1
        if child.poll() is None and not _is_at_end(child):
            child.kill()
            return seed, f"no end within {PATIENCE:.0f} seconds"
        errors = child.stderr.read()
    return seed, None if child.returncode == 0 else f"the process ended with {child.returncode}: {errors[-2000:]}"


def _lines(child: subprocess.Popen[str]) -> Iterator[str]:
    """The lines that a child writes, as long as each comes in time."""
    assert child.stdout is not None
    while select.select([child.stdout], [], [], PATIENCE)[0]:
        line = child.stdout.readline()
        if not line:
            return
        yield line


def _is_at_end(child: subprocess.Popen[str]) -> bool:
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return False
    return True


def read_cases(name: str, first: int, count: int) -> None:
    """Read cases of a file in this process, and write a line of JSON before and after each."""
    folder = Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
    try:
        whole, read = (_received if name.startswith("received/") else _of_data)(folder, name)
        read(whole)
        had = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (had + BUDGET, had + BUDGET))
        for seed in range(first, first + count):
            _report(seed=seed)
            _report(seed=seed, **_outcome(read, case(name, whole, seed)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(read: Callable[[bytes], object], data: bytes) -> dict[str, str]:
    try:
        read(data)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is reported
        return {"outcome": "refused"} if is_refusal(error) else {"fault": traceback.format_exc()[-3000:]}
    return {"outcome": "read"}


def is_refusal(error: BaseException) -> bool:
    """Whether an error refuses a file, and for another reason than that memory was over."""
    return isinstance(error, RegardError) and OUT_OF_MEMORY not in str(error)


def _report(**values: object) -> None:
    _print(json.dumps(values))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _of_data(folder: Path, name: str) -> tuple[bytes, Callable[[bytes], object]]:
    for other, content in SAMPLES.items():
        (folder / other).write_bytes(content)

    def read(data: bytes) -> None:
        (folder / name).write_bytes(data)
        refusal = None
        for reader in READERS[name]:
            try:
                reader(folder / name)
            except RegardError as error:
                refusal = error
        if refusal is not None:
            raise refusal

    for reader in READERS[name]:
        reader(folder / name)
    return SAMPLES[name], read


def _received(folder: Path, name: str) -> tuple[bytes, Callable[[bytes], object]]:
    """A file of a run that somebody gave away; nothing of it is unpickled."""
    from . import test_received_files
    from .conftest import small_run

    def refuse(*given: object, **options: object) -> None:
        raise AssertionError("something was unpickled")

    for place in ("small", "shelf"):
        (folder / place).mkdir()
    shelf = test_received_files.filled(folder / "shelf", small_run(folder / "small"))
    path, readers = folder / "shelf" / name.removeprefix("received/"), test_received_files.READERS
    whole = path.read_bytes()
    beside = {each: each.read_bytes() for each in (*path.parent.glob("*.json"), folder / "shelf/run/alignment.json")}
    for unpickling in ("loads", "Unpickler"):
        setattr(sys.modules["pickle"], unpickling, refuse)

    def read(data: bytes) -> None:
        try:
            path.write_bytes(data)
            test_received_files.sealed(path)
            for reader in readers[name.removeprefix("received/")]:
                reader(shelf)
        finally:
            for each, content in {**beside, path: whole}.items():
                each.write_bytes(content)

    return whole, read


def _told(file: str, outcome: Outcome) -> None:
    _print(f"{file}: {outcome.read} read, {outcome.refused} refused, {len(outcome.faults)} faults")
    for fault in outcome.faults:
        _print(f"  scripts/fuzz --file {fault.file} --seed {fault.seed}\n    " + fault.what.replace("\n", "\n    "))


def main(arguments: list[str]) -> int:
    """Read files in turn until the minutes are over, or one case. Returns 1 where there was a fault."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="time in all")
    parser.add_argument("--file", metavar="NAME", help=f"one of: {', '.join(names())}")
    parser.add_argument("--seed", type=int, metavar="N", help="the case of this seed alone, or the first one")
    options = parser.parse_args(arguments)
    chosen = [options.file] if options.file else names()
    if options.file and options.seed is not None:
        outcome = run_cases(options.file, options.seed, 1)
        _told(options.file, outcome)
        return bool(outcome.faults)
    seed = random.SystemRandom().randrange(1 << 40) if options.seed is None else options.seed
    end, total, faults = time.monotonic() + 60 * options.minutes, Counter[str](), 0
    while time.monotonic() < end:
        for file in chosen:
            outcome = run_cases(file, seed, CASES)
            _told(file, outcome)
            total.update(read=outcome.read, refused=outcome.refused)
            faults += len(outcome.faults)
            if time.monotonic() > end:
                break
        seed += CASES
    _print(f"{total['read']:,} cases read, {total['refused']:,} refused, {faults:,} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

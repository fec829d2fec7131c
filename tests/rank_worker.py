"""One of several processes that ``tests/several_ranks.py`` starts: runs the jobs it is given, and writes what it found.

    RANK=0 WORLD_SIZE=2 python -m tests.rank_worker OUTPUT.json '[["job", "port", {"named": "arguments"}], …]'

Each job meets anew, since some of them end with a group that is broken.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import DataError, RegardError
from regard.runs.run_folder import RunFolder
from regard.training.canonical_ranks import added, gathered
from regard.training.ranks import ProcessGroup, joined
from regard.training.start import _Unseen, train_run

PATIENCE = 30.0


def talk(peers: ProcessGroup) -> dict[str, Any]:
    """Small and long payloads, to all and to one."""
    other = 1 - peers.rank
    long = bytes([peers.rank + 1]) * (3_000 if peers.rank else 70_000)
    return {
        "small": [each.decode() for each in peers.gather(f"rank {peers.rank}".encode())],
        "empty": [len(each) for each in peers.gather(b"" if peers.rank else b"x" * 504)],
        "long": [[len(each), each[0], each[-1]] for each in peers.gather(long)],
        "exchanged": [len(peers.exchange(other, b"abc" * peers.rank)), len(peers.exchange(other, long))],
        "led": _led(peers),
    }


def _led(peers: ProcessGroup) -> bool:
    with peers.first() as leads:
        return leads


def sums(peers: ProcessGroup) -> dict[str, Any]:
    """Sums of which each rank lacks some, and tensors that only one rank has."""
    rank = float(peers.rank)
    one = {"both": torch.tensor([1.0, rank]), f"only {peers.rank}": torch.tensor(2.0 + rank)}
    total = {name: each.tolist() for name, each in added(peers, one).items()}
    held = gathered(peers, {"shared": torch.tensor(rank), f"of {peers.rank}": torch.tensor(rank)})
    return {"total": total, "held": {name: each.tolist() for name, each in held.items()}}


def train(peers: ProcessGroup, runs: Sequence[str]) -> list[int]:
    """Train each of these runs to its end; the exit codes."""
    return [train_run(RunFolder.open(Path(run)), lambda path: nullcontext(_Unseen()), peers) for run in runs]


def leave(peers: ProcessGroup, run: str) -> int:
    """Rank 1 alone is sent SIGTERM while both train; the exit code."""

    class Sent(_Unseen):
        def updated(self, *given: Any) -> None:
            if peers.rank:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.start._Unseen", Sent)
        return train_run(RunFolder.open(Path(run)), lambda path: nullcontext(_Unseen()), peers)


def program(run: str, folder: str) -> str:
    """Train as a program of one's own does: ``regard.train`` meets the other ranks itself."""
    return str(regard.train(RunFolder.open(Path(run)).config, folder))


def disagree(peers: ProcessGroup) -> None:
    peers.agree("answer", "42")
    peers.agree("step", f"step {peers.rank}")


def fail(peers: ProcessGroup, rank: int) -> None:
    """One rank cannot go on; the other waits for it."""
    if peers.rank == rank:
        raise DataError("a line cannot be read", where="corpus.txt:7")
    peers.gather(b"")


def fail_first(peers: ProcessGroup) -> None:
    """Rank 0 fails at what the others wait for."""
    with peers.first() as leads:
        if leads:
            raise DataError("there is no corpus")


def prepare_long(peers: ProcessGroup) -> float:
    """Rank 0 prepares for longer than the patience, and the others wait, since it lives."""
    started = time.monotonic()
    with peers.first() as leads:
        if leads:
            time.sleep(1.5 * peers.patience)
    return time.monotonic() - started


def fall_silent(peers: ProcessGroup) -> None:
    """Rank 1 is there, but does not answer any more: a cut line looks like this."""
    if peers.rank:
        time.sleep(2.5 * peers.patience)
        return
    peers.gather(b"")


def die(peers: ProcessGroup) -> None:
    """Rank 1 is killed."""
    if peers.rank:
        os.kill(os.getpid(), signal.SIGKILL)
    peers.gather(b"")


JOBS: Mapping[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (talk, sums, train, leave, disagree, fail, fail_first, prepare_long, fall_silent, die)
}  # fmt: skip


def _done(name: str, patience: float, arguments: dict[str, Any]) -> Any:
    if name == "program":
        return program(**arguments)
    with joined(patience) as peers:
        assert peers is not None
        return JOBS[name](peers, **arguments)


def main(output: Path, jobs: Sequence[tuple[str, int, dict[str, Any]]]) -> None:
    torch.set_num_threads(1)
    found = []
    for name, port, arguments in jobs:
        os.environ["MASTER_PORT"] = str(port)
        patience, started = arguments.pop("patience", PATIENCE), time.monotonic()
        try:
            result: dict[str, Any] = {"value": _done(name, patience, arguments)}
        except RegardError as error:
            result = {"error": type(error).__name__, "what": error.what, "why": error.why, "help": error.help}
        found.append(result | {"job": name, "seconds": time.monotonic() - started})
        output.write_text(json.dumps(found))  # each time: the last job may kill


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))

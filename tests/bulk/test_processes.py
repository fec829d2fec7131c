"""Worker processes that die are started again, and those that cannot work are told of; stand-ins load no model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from regard.bulk import processes
from regard.bulk.processes import run_processes
from regard.bulk.worker import Order
from regard.errors import DataError, StorageError

ORDER = Order("out", ["a.txt"], {"device": "cpu"})

STAND_IN = """
import json, os, pathlib, sys, time
order = json.loads(sys.stdin.readline())
starts = pathlib.Path({starts!r})
starts.mkdir(exist_ok=True)
for number in range(100):  # the first that no other process took, of those that start at the same time
    try:
        (starts / str(number)).touch(exist_ok=False)
        break
    except FileExistsError:
        pass
def tell(**message):
    print(json.dumps(message), flush=True)
{body}
"""


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, workers: int = 1
) -> tuple[list[tuple[int, int]], str]:
    """What stand-ins with this code report, and what is said."""
    code = STAND_IN.format(starts=str(folder / "starts"), body=body)
    monkeypatch.setattr(processes, "COMMAND", [sys.executable, "-c", code])
    told: list[tuple[int, int]] = []
    said: list[str] = []
    run_processes(ORDER, workers, lambda block, done: told.append((block, done)), said.append)
    return told, "\n".join(said)


def test_a_worker_that_is_killed_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
tell(begun=True)
if number < 5: print('{"half', end="", flush=True); os.kill(os.getpid(), 9)
tell(block=7, done=3)
"""
    told, said = run(tmp_path, monkeypatch, body)
    assert told == [(7, 3)]
    assert said.splitlines() == ["a worker was killed by SIGKILL; it is restarted"] * 5


def test_workers_that_begin_nothing_end_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="die before they begin any lines") as caught:
        run(tmp_path, monkeypatch, "sys.exit(1)")
    assert "exit code 1" in str(caught.value.why)
    assert len(list((tmp_path / "starts").iterdir())) == 3
    with pytest.raises(StorageError, match="die before they begin any lines") as caught:
        run(tmp_path, monkeypatch, "os.kill(os.getpid(), 9)")
    assert "SIGKILL" in str(caught.value.why)


def test_the_error_of_one_worker_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
if number == 0: time.sleep(60)
tell(error=["DataError", "it has changed", "a.txt:3", None, "restore it"])
sys.exit(3)
"""
    with pytest.raises(DataError) as caught:
        run(tmp_path, monkeypatch, body, workers=2)
    assert (caught.value.what, caught.value.where, caught.value.help) == ("it has changed", "a.txt:3", "restore it")

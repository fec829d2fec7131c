"""The supervisor of worker processes: who dies is replaced, who is told to stop stops, and nobody outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, time
from functools import partial
from regard.server.supervisor import AT_ONCE, RETIRE, Supervisor, begin_work

def say(*words):
    # In one write, which a pipe keeps whole among those of others, and which a handler may do at any moment.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(kind, folder, number, replaces, supervisor):
    begin_work()
    def stop(name):
        say(number, name)
        if kind != "stubborn":
            os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: stop("drains"))
    signal.signal(AT_ONCE, lambda *_: stop("stops"))
    signal.signal(RETIRE, lambda *_: stop("retires"))
    if replaces:
        say(number, "loads first")
    if kind == "broken" or kind == "broken later" and os.path.exists(folder):
        sys.exit(4)
    supervisor.send(True)
    say(number, "serves", os.getpid())
    while True:
        time.sleep(0.01)

if __name__ == "__main__":
    logging = __import__("logging")
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level="INFO")
    supervisor = Supervisor(partial(work, *sys.argv[1:]), 2, patience=1000.0)
    say(*supervisor.run(on_stop=lambda: say("stopping")))
"""


class Supervised:
    """A supervisor in a process, and what it and its workers said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, list[str]()

    def until(self, words: str, count: int = 1) -> list[str]:
        """The lines with these words, once there are so many."""
        assert self.process.stdout is not None
        while len(found := [line for line in self.said if words in line]) < count:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said.append(line.strip())
        return found

    def workers(self, count: int = 2) -> list[int]:
        return [int(line.split()[-1]) for line in self.until("serves", count)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


@contextmanager
def supervised(program: Path, kind: str) -> Iterator[Supervised]:
    command = [sys.executable, str(program), kind, str(program.parent / "gone")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield Supervised(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and workers that do not stop, where a test has failed


def test_who_is_killed_is_replaced_and_who_is_told_to_stop_stops(program: Path) -> None:
    with supervised(program, "whole") as it:
        first, second = it.workers()
        os.kill(first, signal.SIGKILL)
        assert "was killed by SIGKILL; restarting" in it.until(f"process {first}")[0]
        third = it.workers(3)[2]
        assert third not in (first, second)
        it.process.send_signal(signal.SIGTERM)
        it.until("drains", 2)
        assert it.until(f"{signal.SIGTERM:d} 0") and it.process.wait(30) == 0
        assert it.said.index("stopping") < it.said.index(it.until("drains")[0])


def test_ctrl_c_stops_at_once_and_workers_hear_it_from_the_supervisor_alone(program: Path) -> None:
    with supervised(program, "whole") as it:
        for worker in it.workers():
            os.kill(worker, signal.SIGINT)  # as a terminal does
        it.process.send_signal(signal.SIGINT)
        it.until("stops", 2)
        assert it.process.wait(30) == 0
        assert not [line for line in it.said if "KeyboardInterrupt" in line or "restarting" in line]


def test_a_second_signal_kills_what_does_not_stop(program: Path) -> None:
    with supervised(program, "stubborn") as it:
        workers = it.workers()
        it.process.send_signal(signal.SIGTERM)
        it.until("drains", 2)
        it.process.send_signal(signal.SIGTERM)
        assert it.process.wait(30) == 0
        assert not any(is_alive(worker) for worker in workers)


def test_workers_that_cannot_start_end_the_server_at_first_and_are_tried_again_later(program: Path) -> None:
    with supervised(program, "broken") as it:
        assert "exited with code 4 before it served" in it.until("worker")[0]
        it.until("None 4")
    with supervised(program, "broken later") as it:
        first, second = it.workers()
        (program.parent / "gone").touch()
        os.kill(first, signal.SIGKILL)
        assert "restarting in 1 s" in it.until("code 4")[0]
        assert is_alive(second)
        (program.parent / "gone").unlink()
        it.workers(3)


def test_a_hangup_replaces_all_workers_each_after_its_successor_serves(program: Path) -> None:
    with supervised(program, "whole") as it:
        before = it.workers()
        it.process.send_signal(signal.SIGHUP)
        it.until("was replaced", 2)
        after = it.workers(4)[2:]
        lines = [line.split(" ", 1) for line in it.said if line[0] in "12" and len(line.split()) > 1]
        for number in "12":
            own = [words.split()[0] for first, words in lines if first == number]
            assert own[:2] == ["serves", "loads"] and sorted(own[2:]) == ["retires", "serves"]
        retired = it.said.index(it.until("retires")[0])
        assert sum("loads first" in line for line in it.said[:retired]) == 1, "one after another"
        assert not any(is_alive(worker) for worker in before) and all(is_alive(worker) for worker in after)
        it.process.send_signal(signal.SIGTERM)
        it.until("drains", 2)
        assert it.process.wait(30) == 0 and not [line for line in it.said if "restarting" in line]


def test_workers_continue_if_a_successor_cannot_start(program: Path) -> None:
    with supervised(program, "broken later") as it:
        before = it.workers()
        (program.parent / "gone").touch()
        it.process.send_signal(signal.SIGHUP)
        it.until("successor of worker 1 cannot start")
        assert all(is_alive(worker) for worker in before)
        (program.parent / "gone").unlink()
        it.process.send_signal(signal.SIGHUP)
        it.until("was replaced", 2)
        os.kill(it.workers(4)[3], signal.SIGKILL)  # a successor is a worker like the others
        it.workers(5)


def test_workers_stop_when_their_supervisor_is_killed(program: Path) -> None:
    with supervised(program, "whole") as it:
        workers = it.workers()
        it.process.kill()
        it.until("drains", 2)
    until = time.monotonic() + 20
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """Whether a process runs; one that ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

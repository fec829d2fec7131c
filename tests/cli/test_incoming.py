"""Lines as they come: whole batches of what is there, an answer when the writer pauses, an end without readers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.commands import incoming_lines
from regard.commands.incoming_lines import IncomingLines, chunks
from regard.errors import DataError
from regard.tasks.translation.translator import load

from .conftest import TinyRun

PAUSE = None


class Writer:
    """Hands out what it wrote piece by piece; before a PAUSE nothing is waiting, and to wait for more ends it."""

    def __init__(self, *written: bytes | None) -> None:
        self.written = list(written)
        self.waited = 0

    def waiting(self) -> bool:
        return not self.written or self.written[0] is not PAUSE

    def read(self) -> bytes:
        if self.written and self.written[0] is PAUSE:
            self.waited += 1
            self.written.pop(0)
        found = self.written.pop(0) if self.written else b""
        assert found is not PAUSE
        return found


def cut(*written: bytes | None, size: int = 4) -> list[list[bytes]]:
    writer = Writer(*written)
    lines = IncomingLines(writer.read, writer.waiting)
    return [list(chunk) for chunk in chunks(lines, size, ready=lines.ready)]  # type: ignore[arg-type]


def test_what_is_there_goes_together_and_a_pause_ends_it() -> None:
    assert cut(b"a\nb\n", b"c\n", PAUSE, b"d\n", PAUSE) == [[b"a", b"b", b"c"], [b"d"]]


def test_fast_input_makes_whole_chunks() -> None:
    assert cut(*[b"a\n"] * 10) == [[b"a"] * 4, [b"a"] * 4, [b"a"] * 2]
    assert cut(b"a\n" * 10) == [[b"a"] * 4, [b"a"] * 4, [b"a"] * 2]


def test_half_a_line_is_no_line_yet() -> None:
    assert cut(b"a\nb", PAUSE, b"c\n", PAUSE) == [[b"a"], [b"bc"]]
    assert cut(b"a", b"b", b"c\n\nd", PAUSE, b"") == [[b"abc", b""], [b"d"]]


def test_the_last_line_may_lack_its_end() -> None:
    assert cut(b"a\nb") == [[b"a", b"b"]]
    assert cut() == []


def test_nothing_is_waited_for_while_a_line_is_unanswered() -> None:
    writer = Writer(b"a\n", PAUSE, b"b\n")
    lines = IncomingLines(writer.read, writer.waiting)
    answered = chunks(lines, 4, ready=lines.ready)  # type: ignore[arg-type]
    assert next(answered) == [b"a"] and writer.waited == 0
    assert next(answered) == [b"b"] and writer.waited == 1


def test_chunks_hold_no_more_than_their_size() -> None:
    assert list(chunks(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(chunks(iter(""), 2)) == []


def test_the_first_chunks_are_small() -> None:
    assert [len(chunk) for chunk in chunks(iter("a" * 30), 8, first=2)] == [2, 4, 8, 8, 8]
    assert [len(chunk) for chunk in chunks(iter("aaa"), 1, first=64)] == [1, 1, 1]


def test_lines_before_a_wrong_one_are_not_lost() -> None:
    def lines() -> Iterator[str]:
        yield "a"
        raise DataError("wrong")

    found = chunks(lines(), 4)
    assert next(found) == ["a"]
    with pytest.raises(DataError, match="wrong"):
        next(found)


def test_a_pipe_that_stays_open_is_answered_line_by_line_until_its_reader_leaves(tiny_run: TinyRun) -> None:
    """As ``tail -f text | regard translate RUN | head``, whose writer never ends, and says nothing more at last."""
    arguments = ["regard", "translate", str(tiny_run.path), "--beam", "1", "--threads", "1"]
    code = f"import sys, regard.cli; sys.argv = {arguments!r}; regard.cli.main()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        for line, answer in ((b"a b\n", b"A B\n"), (b"h g f\n", b"H G F\n"), (b"c d\ne f\n", b"C D\nE F\n")):
            child.stdin.write(line)
            child.stdin.flush()
            assert b"".join(child.stdout.readline() for _ in answer.splitlines()) == answer
        child.stdout.close()
        assert child.wait(timeout=60) == 141
        assert child.stderr.read() == b""


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Standard output is a pipe; called, its reader goes away."""
    read, write = os.pipe()
    monkeypatch.setattr(incoming_lines, "_output", lambda: {write: 0})
    yield lambda: os.close(read)
    os.close(write)


def test_decoding_ends_when_its_reader_does(tiny_run: TinyRun, unheard: Callable[[], None]) -> None:
    """Not only what is written notices: a chunk that is being decoded is left."""
    assert not incoming_lines.reader_left()
    unheard()
    with pytest.raises(BrokenPipeError):
        load(tiny_run.path).translate(["a b"], interrupted=incoming_lines.reader_left)


def test_what_goes_to_a_file_needs_no_reader(unheard: Callable[[], None], tmp_path: Path) -> None:
    unheard()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for watched in (True, False):
        both = os.open(pipe, os.O_RDWR)  # opens a pipe without waiting for its other end
        with incoming_lines.open_lines(pipe, watched=watched) as (lines, _):
            if watched:
                with pytest.raises(BrokenPipeError):
                    next(lines)
            else:
                os.write(both, b"a b\n")
                assert next(lines) == "a b"
        os.close(both)


def test_an_input_that_cannot_be_read_is_told() -> None:
    number = os.open(os.devnull, os.O_WRONLY)
    with pytest.raises(DataError, match="cannot read standard input") as caught:
        incoming_lines._read(number, "standard input", False)
    assert caught.value.why == "it is closed"
    os.close(number)

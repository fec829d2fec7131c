"""An output of several sittings: the same bytes as of one, wherever it was killed; nothing of another job."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core import atomic_files
from regard.core.resumable_output import ResumableOutput
from regard.errors import ConfigError

JOB = {"run": "m30k", "beam": 5}
INPUTS = [[f"line {number}" for number in range(start, start + 3)] for start in range(0, 12, 3)]
WHOLE = b"".join(text.encode().upper() + b"\n" for chunk in INPUTS for text in chunk)


class Killed(BaseException):
    """What a kill does to a process, as far as files can tell."""


def work(path: Path, *, resume: bool = True, job: dict[str, object] = JOB, inputs: list[list[str]] = INPUTS) -> int:
    """Upper-case every line; how many were made in this sitting."""
    journal = ResumableOutput(path, job, resume=resume)
    made = 0
    with journal._file:  # closed, as a killed process's is
        for chunk in inputs:
            if journal.skip_committed(chunk):
                continue
            for text in chunk:
                journal.write(text.upper().encode() + b"\n")
                made += 1
            journal.commit(chunk)
        journal.finish()
    return made


@pytest.mark.parametrize("point", ["partial-synced", "opened", "written", "renamed", "folder-synced"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_kill_at_any_moment_costs_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, count: int
) -> None:
    passed = 0

    def fault(reached: str) -> None:
        nonlocal passed
        passed += reached == point
        if reached == point and passed == count:
            raise Killed

    out = tmp_path / "out"
    out.write_text("before")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(atomic_files, "fault", fault)
        work(out)
    assert out.read_bytes() in (b"before", WHOLE)
    assert work(out) <= 12 - 3 * (count - 1)
    assert out.read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left behind"


def stopped(path: Path) -> None:
    """Two chunks are committed, and some of the third is written."""
    journal = ResumableOutput(path, JOB, resume=False)
    for chunk in INPUTS[:2]:
        for text in chunk:
            journal.write(text.upper().encode() + b"\n")
        journal.commit(chunk)
    journal.write(b"half a li")
    journal.close()


def test_what_is_committed_is_not_made_again(tmp_path: Path) -> None:
    stopped(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert work(tmp_path / "out") == 6
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_without_resume_it_begins_anew(tmp_path: Path) -> None:
    stopped(tmp_path / "out")
    assert work(tmp_path / "out", resume=False) == 12
    assert (tmp_path / "out").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"job": {"run": "m30k", "beam": 4}}, "started with other options"),
        ({"inputs": [["other"], *INPUTS]}, "have changed since"),
        ({"inputs": [["line 0", "line 1", "lime 2"], *INPUTS[1:]]}, "have changed since"),
        ({"inputs": INPUTS[:1]}, "have changed since"),
    ],
)
def test_nothing_of_another_job_is_gone_on_with(tmp_path: Path, change: dict[str, object], told: str) -> None:
    stopped(tmp_path / "out")
    with pytest.raises(ConfigError, match=told):
        work(tmp_path / "out", **change)  # type: ignore[arg-type]
    assert work(tmp_path / "out") == 6, "and it is as it was"


def test_the_record_of_an_earlier_beginning_vouches_for_nothing(tmp_path: Path) -> None:
    """Begun anew, and killed with more written than was committed before."""
    stopped(tmp_path / "out")
    journal = ResumableOutput(tmp_path / "out", JOB, resume=False)
    with journal._file:
        journal.write(b"x" * len(WHOLE))
    assert work(tmp_path / "out") == 12
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_a_record_of_more_than_there_is_begins_anew(tmp_path: Path) -> None:
    stopped(tmp_path / "out")
    partial = atomic_files.hidden_sibling(tmp_path / "out", "partial")
    partial.write_bytes(partial.read_bytes()[:10])
    assert work(tmp_path / "out") == 12
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_where_nothing_is_committed_nothing_is_left(tmp_path: Path) -> None:
    journal = ResumableOutput(tmp_path / "out", JOB, resume=False)
    journal.write(b"half a li")
    journal.close()
    assert list(tmp_path.iterdir()) == []

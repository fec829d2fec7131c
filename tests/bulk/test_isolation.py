"""A line that raises or kills costs its own output alone; equal lines are done once; nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from regard.bulk import isolation
from regard.errors import DataError

from .helpers import BLOCK, Capitals, begin, finish, set_aside, work, write


def spoil(path: Path, row: int, word: str) -> list[str]:
    """Put a word into a line; return the outputs that are left, that line's blank."""
    lines = path.read_text().splitlines()
    lines[row] = f"{word} {lines[row]}"
    path.write_text("".join(f"{line}\n" for line in lines))
    return ["" if "KILL" in line or "FAIL" in line else line.upper() for line in lines]


@pytest.mark.parametrize("row", [0, 1, BLOCK - 1, 13, 24])
@pytest.mark.parametrize("word", ["FAIL", "KILL"])
def test_a_poisonous_line_is_cornered_and_set_aside(tmp_path: Path, word: str, row: int) -> None:
    source = write(tmp_path / "a.txt", 25)
    expected = spoil(source, row, word)
    found = finish(tmp_path, source)
    assert (tmp_path / "out/a.txt").read_text().splitlines() == expected
    (aside,) = set_aside(tmp_path)
    assert (aside["file"], aside["line"]) == (str(source), row + 1)
    assert aside["text"].startswith(word)
    assert ("it says FAIL" if word == "FAIL" else "died 2 times") in aside["why"]
    assert found.quarantined == 1 and found.named[0].startswith(f"{source}:{row + 1}: ")


def test_two_of_them_in_a_block(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 25)
    spoil(source, 3, "KILL")
    expected = spoil(source, 4, "FAIL")
    assert finish(tmp_path, source).quarantined == 2
    assert (tmp_path / "out/a.txt").read_text().splitlines() == expected
    assert [row["line"] for row in set_aside(tmp_path)] == [4, 5]


def test_a_chance_death_sets_nothing_aside_and_repeats_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "CHUNK", 3)

    class Unlucky(Capitals):
        def __call__(self, lines: Sequence[str]) -> list[str]:
            if len(self.calls) in (2, 5):
                self.calls.append([])
                raise KeyboardInterrupt
            return super().__call__(lines)

    source, doing = write(tmp_path / "a.txt", 25), Unlucky()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            work(begin(tmp_path, source), doing)
    assert finish(tmp_path, source, doing=doing).quarantined == 0
    assert (tmp_path / "out/a.txt").read_text() == source.read_text().upper()
    assert sorted(doing.seen) == sorted(source.read_text().splitlines()), "what was done is not done again"


def test_equal_lines_are_done_once(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("b\na\nb\n\nb\nlong one\n\n")
    doing = Capitals()
    assert finish(tmp_path, source, doing=doing).distinct == 4
    assert doing.calls == [["long one", "b", "a", ""]], "once each, the longest first"
    assert (tmp_path / "out/a.txt").read_text() == "B\nA\nB\n\nB\nLONG ONE\n\n"


def test_where_most_lines_fail_the_job_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MANY", 4)
    source = tmp_path / "a.txt"
    source.write_text("FAIL 1\nFAIL 2\nFAIL 3\nFAIL 4\nx\n")
    job = begin(tmp_path, source)
    with pytest.raises(DataError, match="4 of 4 lines failed") as caught:
        work(job)
    assert caught.value.where == f"{source}:1" and "it says FAIL" in str(caught.value.why)
    assert not job.claim_path(job.blocks[0]).exists(), "nothing is decided: on a sound machine the lines may do"
    monkeypatch.setattr(isolation, "MANY", 5)
    assert finish(tmp_path, source).quarantined == 4


def test_a_few_failures_known_from_before_do_not_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MANY", 2)
    monkeypatch.setattr(isolation, "CHUNK", 2)
    source, words = tmp_path / "a.txt", ("", "", "", "FAIL", "", "FAIL", "", "KILL")
    source.write_text("".join(f"{word:a<{20 - row}}\n" for row, word in enumerate(words)))
    assert finish(tmp_path, source).quarantined == 3


def test_an_output_of_several_lines_is_no_output(tmp_path: Path) -> None:
    class Broken(Capitals):
        def __call__(self, lines: Sequence[str]) -> list[str]:
            return [line.replace("x", "\n").replace("y", "\ud800") for line in lines]

    source = tmp_path / "a.txt"
    source.write_text("a\nx\ny\nb\n")
    assert finish(tmp_path, source, doing=Broken()).quarantined == 2
    assert (tmp_path / "out/a.txt").read_text() == "a\n\n\nb\n"
    whys = [row["why"] for row in set_aside(tmp_path)]
    assert "several lines" in whys[0] and "surrogates" in whys[1]

"""The study of words in the middle: what each network may see, how words are counted, a verdict of either kind."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.studies import middle_word
from regard.studies.middle_word import MINIMAL, SIDES, CourseSize, read_words
from regard.studies.study import ignore_report

SMALL = CourseSize(updates=1, lines=2, seeds=1, layers=2, width=16)


def test_lines_and_words_are_counted_by_hand() -> None:
    """Every tenth distinct line is held out, if its middle word stands twice in the others."""
    text = [f"one two {word} four five" for word in "abcdefgh"] + ["A b a b a", "too short", "x y a y x", "A b a b a"]
    found = read_words(text)
    assert len(found.train) == 9 and len(found.held) == 1, "the tenth is x y a y x"
    assert found.held[0][2] == found.train[8][0], "a, which is in lower case"
    assert [number for number in found.held[0] if number != 1] == [found.held[0][2]], "x and y are unknown"
    assert found.types - 4 == 6, "one two four five a b"
    with pytest.raises(DataError, match="too few lines"):
        read_words(["a b c d e"] * 30)


@pytest.mark.parametrize(("side", "seen"), [("both", {0, 1, 3, 4}), ("left", {0, 1})])
def test_a_word_is_told_without_itself(side: str, seen: set[int]) -> None:
    """The third of five words; a longer line beside it pads this one."""
    torch.manual_seed(0)
    kind = {"both": middle_word._BothSides, "left": middle_word._OneSide}[side]
    network = kind(30, SMALL).eval().double()
    lines = [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14, 15, 16]]

    def told(changed: list[int]) -> torch.Tensor:
        both = [changed, lines[1]]
        if side == "both":
            return network._logits(both)[0, 2]
        return network.model.head(network.states(both)[0, 2])

    with torch.no_grad():
        plain = told(lines[0])
        changes = {place: told([*lines[0][:place], 20, *lines[0][place + 1 :]]) for place in range(5)}
    assert {place for place, other in changes.items() if not torch.allclose(plain, other, atol=1e-9)} == seen


def test_the_right_is_read_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its network is given lines turned round, and asked for the same word."""
    asked: list[tuple[list[list[int]], list[int]]] = []

    class Watched(middle_word._OneSide):
        def predict(self, lines: list[list[int]], positions: list[int]) -> torch.Tensor:
            asked.append((lines, positions))
            return super().predict(lines, positions)

    monkeypatch.setattr(middle_word, "_OneSide", Watched)
    lines = read_words(middle_word._generated())
    middle_word._accuracy(lines, "the right", MINIMAL, 1, lambda part: None)
    ((given, positions),) = asked
    assert [line[::-1] for line in given] == lines.held
    assert [line[at] for line, at in zip(given, positions, strict=True)] == [
        line[len(line) // 2] for line in lines.held
    ]


def test_it_needs_a_text_and_can_fail() -> None:
    with pytest.raises(ConfigError, match="requires a text"):
        middle_word.run(seed=1, minimal=False, report=ignore_report)
    same = middle_word.run(seed=1, minimal=True, report=ignore_report, sides=dict.fromkeys(SIDES, "the left"))
    assert not same.holds and same.criteria[0].value == 0.0
    lines = read_words(middle_word._generated())
    found = {"both sides": [30.0, 31.0], "the left": [20.0, 21.0], "the right": [18.0, 19.0]}
    assert middle_word._findings(found, 10.0, lines, "x").holds
    assert not middle_word._findings({**found, "the right": [26.0, 27.0]}, 10.0, lines, "x").holds
    assert not middle_word._findings(found, 17.0, lines, "x").holds

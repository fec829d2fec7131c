"""The study of memory: its streams by hand, and a verdict that can fail."""

from __future__ import annotations

import pytest

from regard.studies import memory
from regard.studies.memory import AGES, ASKED, COLUMNS, MIXERS, PAIRS, SEGMENT, VALUES
from regard.studies.study import ignore_report


def verdict(monkeypatch: pytest.MonkeyPatch, *recalls: list[float], second: int = 0) -> list[bool]:
    """Of the shares of right answers by age: windows, memory, compressed memory; ``second``: where a seed differs."""
    chance = [[0.25] * AGES if turn == second - 1 else recall for turn, recall in enumerate(recalls)]
    found = iter([*recalls, *chance])
    monkeypatch.setattr(memory, "_recall", lambda *rest: next(found))
    return [criterion.holds for criterion in memory.run(seed=1, minimal=True, report=ignore_report).criteria]


def test_each_criterion_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, remembers, compresses = [0.9, 0.5, *[0.3] * 4], [*[0.95] * 3, *[0.3] * 3], [0.95] * 6
    assert verdict(monkeypatch, windows, remembers, compresses) == [True] * 5
    assert verdict(monkeypatch, windows, [0.95, 0.75, 0.95, *[0.3] * 3], compresses)[0] is False
    assert verdict(monkeypatch, windows, [*[0.95] * 5, 0.5], compresses)[1] is False
    assert verdict(monkeypatch, windows, remembers, [*[0.95] * 5, 0.6])[2] is False
    assert verdict(monkeypatch, [0.9] * 6, remembers, compresses)[3] is False
    assert verdict(monkeypatch, windows, remembers, remembers)[4] is False
    assert verdict(monkeypatch, windows, remembers, compresses, second=2) == [False, True, True, False, True]
    assert verdict(monkeypatch, windows, remembers, compresses, second=3) == [True, True, False, True, False]


def test_untrained_models_recall_nothing() -> None:
    assert not memory.run(seed=1, minimal=True, report=ignore_report).criteria[0].holds


def test_a_question_is_of_the_one_value_of_its_key_so_long_ago() -> None:
    """Pairs are read off the streams: each question's key was last written ``age`` segments before."""
    source, written, asked = memory.streams((1,), 2), [{}, {}], 0
    for number in range(8):
        columns = next(source)
        for row in range(2):
            for at, token in enumerate(columns.tokens[row].tolist()):
                segment = (number * COLUMNS + at) // SEGMENT
                if token < PAIRS:
                    key, value = divmod(token, VALUES)
                    assert segment - written[row].get(key, (0, -AGES))[1] >= AGES, "a key that may be asked for"
                    written[row][key] = (value, segment)
                elif token < ASKED:
                    value, when = written[row][token - PAIRS]
                    assert (value, segment - when) == (int(columns.answer[row, at]), int(columns.age[row, at]))
                    assert 0 <= segment - when < AGES
                    asked += 1
                else:
                    assert columns.answer[row, at] == -1
    assert asked > 50


def test_all_look_at_equally_many_places() -> None:
    places = {name: mixer["segment"] + mixer["memory"] + mixer.get("compressed", 0) for name, mixer in MIXERS.items()}
    assert set(places.values()) == {COLUMNS}

"""Average lagging on paper and by its laws, and SimulEval's log."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics.latency import (
    MEASURES,
    StreamedInstance,
    Timed,
    average_lagging,
    degenerate,
    length_adaptive_lagging,
    mean_lags,
    read_instances,
    write_instances,
    yet_another_lagging,
)


@st.composite
def timed(draw: Any) -> Timed:
    source = draw(st.integers(1, 12))
    delays = sorted(draw(st.lists(st.integers(1, source), min_size=1, max_size=15)))
    return Timed(delays, source, draw(st.integers(1, 15)))


@pytest.mark.parametrize(
    ("delays", "source", "reference", "lags"),
    [
        # τ = 3, X/Y* = 1: (2 − 0 + 3 − 1 + 4 − 2) / 3 = 2; before the end: (2 + 2) / 2
        ([2, 3, 4, 4], 4, 4, (2.0, 2.0, 2.0)),
        # τ = 2: AL with X/Y* = 4/2 = 2: (1 + 4 − 2) / 2 = 1.5; with 4/4 = 1: (1 + 4 − 1) / 2 = 2; YAAL: 1 / 1
        ([1, 4, 4, 4], 4, 2, (1.5, 2.0, 1.0)),
        # everything at the end: τ = 1
        ([3, 3], 3, 2, (3.0, 3.0, None)),
        # no word at the end: τ = Y = 2, X/Y* = 3/3: (1 + 2 − 1) / 2
        ([1, 2], 3, 3, (1.0, 1.0, 1.0)),
        # the first word after the end: d_1
        ([5, 6], 4, 2, (5, 5, None)),
        ([], 4, 2, (None, None, None)),
        ([1], 0, 2, (None, None, None)),
    ],
)
def test_lags_on_paper(delays: list[float], source: float, reference: int, lags: tuple[float | None, ...]) -> None:
    assert tuple(measure(Timed(delays, source, reference)) for measure in MEASURES.values()) == lags


@given(st.integers(1, 8), st.integers(1, 20))
def test_wait_k_lags_k_words_behind(k: int, length: int) -> None:
    delays = [min(k + number, length) for number in range(length)]
    one = Timed(delays, length, length)
    expected = k if k <= length else length
    assert average_lagging(one) == pytest.approx(expected) == length_adaptive_lagging(one)
    assert yet_another_lagging(one) == (pytest.approx(k) if k < length else None)


@given(timed())
def test_laws_of_lags(one: Timed) -> None:
    al, laal = average_lagging(one), length_adaptive_lagging(one)
    assert al is not None and laal is not None
    assert laal >= al - 1e-12  # an output that is too long does not lower it
    if len(one.delays) <= one.reference_length:
        assert laal == al
    assert laal <= one.source_length + 1e-12
    doubled = Timed([2 * delay for delay in one.delays], 2 * one.source_length, one.reference_length)
    assert length_adaptive_lagging(doubled) == pytest.approx(2 * laal)  # in any unit
    waits = Timed([one.source_length] * len(one.delays), one.source_length, one.reference_length)
    assert length_adaptive_lagging(waits) == one.source_length and yet_another_lagging(waits) is None
    yaal = yet_another_lagging(one)
    assert (yaal is None) == (one.delays[0] >= one.source_length)
    if max(one.delays) < one.source_length:
        assert yaal == pytest.approx(laal)


@given(timed(), st.integers(0, 14))
def test_a_later_word_never_lowers_yaal_before_the_end(one: Timed, number: int) -> None:
    long = one._replace(source_length=one.source_length + 2.0)
    number %= len(long.delays)
    later = [delay + (index >= number) * 0.5 for index, delay in enumerate(long.delays)]
    before, after = yet_another_lagging(long), yet_another_lagging(long._replace(delays=later))
    assert before is not None and after is not None and after >= before


def test_means_leave_out_sentences_without_a_value() -> None:
    lags = mean_lags([Timed([1, 2], 3, 3), Timed([3], 3, 3), Timed([], 3, 3)])
    assert lags == {"AL": 2.0, "LAAL": 2.0, "YAAL": 1.0}  # (1 + 3) / 2, and 1
    assert all(map(math.isnan, mean_lags([]).values()))


def test_a_policy_without_an_even_pace_is_reported() -> None:
    even = [Timed([2, 3, 4, 5, 6, 6], 6, 6)] * 3
    assert degenerate(even) is None and degenerate([]) is None
    at_once = [Timed([1] * 9, 10, 9)]  # all words after the first one
    assert degenerate([*at_once, *[Timed([10] * 9, 10, 9)] * 3]) is None  # 25 % of the words, 25 % of the time
    hasty = Timed([9] * 9, 10, 9)  # all words before the end, one word before it
    assert "100% of the words" in str(degenerate([hasty]))


INSTANCE = StreamedInstance(
    index=0, prediction="ein Hund", delays=[1, 2], elapsed=[1.5, 3.25], prediction_length=2, reference="ein Hund rennt",
    source="a dog", source_length=2,
)  # fmt: skip


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "instances.log"
    write_instances([INSTANCE, INSTANCE.model_copy(update={"index": 1, "prediction": 'ü "x"\u2028'})], path)
    read = read_instances(path)
    assert read[0] == INSTANCE and read[1].prediction == 'ü "x"\u2028'
    assert read[0].timed == Timed([1, 2], 2, 3)
    names = "index prediction delays elapsed prediction_length reference source source_length"
    assert [*json.loads(path.read_text().splitlines()[0])] == names.split()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"delays": [1]}, "the times do not match"),
        ({"prediction_length": 3}, "the times do not match"),
        ({"delays": [1, math.nan]}, "delays"),
        ({"elapsed": ["1", 2]}, "elapsed"),
        ({"index": -1}, "index"),
        ({"source_length": "2"}, "source_length"),
        ({"prediction": None}, "prediction"),
    ],
)
def test_a_log_with_other_content_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "instances.log"
    lines = [json.dumps(INSTANCE.model_dump()), json.dumps(INSTANCE.model_dump() | change)]
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=problem) as caught:
        read_instances(path)
    assert caught.value.where == f"{path}:2"
    for text in ("not JSON", "[1, 2]", "", "{", "{}"):
        path.write_text(f"{lines[0]}\n{text}\n")
        with pytest.raises(DataError, match="streamed output") as caught:
            read_instances(path)
        assert caught.value.where == f"{path}:2"

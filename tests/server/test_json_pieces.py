"""JSON of large answers comes in pieces: the interpreter is never held for a whole answer."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from regard.server import json_pieces
from regard.server.json_pieces import write_json

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner))


class Part(BaseModel):
    """Part of an answer."""

    name: str
    scores: list[float]


class Whole(BaseModel):
    """Answer with parts."""

    parts: list[Part]
    rest: Any


@given(VALUES, st.integers(1, 10))
def test_pieces_together_are_the_json_of_the_value(value: Any, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECE", size)
        assert json.loads(write_json(value)) == json.loads(json.dumps(value))
        whole = Whole(parts=[Part(name="a", scores=[0.5] * size)] * 3, rest=value)
        assert json.loads(write_json(whole)) == json.loads(whole.model_dump_json()) | {
            "rest": json.loads(json.dumps(value))
        }


@pytest.mark.parametrize(
    "value",
    [
        [1.5] * 100_000, [[1.5]] * 100_000, {str(n): n for n in range(100_000)}, {"a": [{"b": [0.5] * 5}] * 50_000},
        Whole(parts=[Part(name="a", scores=[0.5] * 1000)] * 100, rest={"a": ({},) * 50_000}),
    ],
)  # fmt: skip
def test_no_piece_grows_with_the_answer(value: Any) -> None:
    sizes = [len(piece) for piece in json_pieces._pieces(value)]
    assert max(sizes) < 20 * json_pieces.PIECE and sum(sizes) == len(write_json(value))


def test_numbers_that_are_not_finite_are_null() -> None:
    assert json.loads(write_json({"a": [math.nan, 1.0], "b": Part(name="c", scores=[-math.inf])})) == {
        "a": [None, 1.0], "b": {"name": "c", "scores": [None]},
    }  # fmt: skip

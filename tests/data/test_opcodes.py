"""Pickles are read from their opcodes: plain values arrive, and nothing in them is imported or called."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 - written here, and never loaded
import random
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import opcodes
from regard.data.opcodes import PickledObject, read_array, read_opcodes
from regard.errors import DataError

VALUES: list[Any] = [
    None, True, -3, 300, 70_000, 2**40, 1.5, "é", b"x\xff", [], {}, (), [1, [2, (3,)]], {"a": {"b": (1, 2)}, 3: [None]},
    (1, 2, 3, 4), [*range(2000)], {number: str(number) for number in range(1500)},
]  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_those_of_the_pickle(protocol: int) -> None:
    shared = [1]
    for value in [*VALUES, VALUES, [shared, shared]]:
        assert read_opcodes(pickle.dumps(value, protocol), "here") == value


@pytest.mark.parametrize("protocol", range(5))  # from 5 on, an array is the argument of a function of NumPy
@pytest.mark.parametrize("kind", ["<f4", "<f8", "<i4", ">i8", ">f4"])
def test_arrays_have_the_numbers_of_the_pickle(protocol: int, kind: str) -> None:
    for array in (np.arange(12).reshape(3, 4).astype(kind), np.zeros((0, 2), kind)):
        for order in (array, np.asfortranarray(array)):
            assert read_array(read_opcodes(pickle.dumps(order, protocol), "here"), "here").tolist() == array.tolist()


def test_text_of_python_2_is_the_bytes_of_an_array() -> None:
    contents = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87Rq\x03(K\x01K\x02\x85"
        b"cnumpy\ndtype\nq\x04U\x02f4K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"U\x08\x00\x00\x80?\x00\x00\x80\xbftb."
    )
    assert read_array(read_opcodes(contents, "here"), "here").tolist() == [1.0, -1.0]


class Evil:
    """An object whose pickle runs a command where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_called(protocol: int, tmp_path: Path) -> None:
    value = read_opcodes(pickle.dumps([Evil(tmp_path / "run")], protocol), "here")[0]
    assert isinstance(value, PickledObject) and value.name.endswith(" system") and value.arguments is not None
    assert not (tmp_path / "run").exists()
    named = read_opcodes(pickle.dumps(defaultdict(list, {1: [2]}), protocol), "here")
    assert isinstance(named, PickledObject) and named.pairs == [(1, [2])]
    ordered = read_opcodes(pickle.dumps(OrderedDict(a=1), protocol), "here")
    assert isinstance(ordered, PickledObject) and ordered.name.endswith("OrderedDict")


def test_damaged_pickles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pickle.dumps([*VALUES, np.arange(5.0), defaultdict(list, {1: [2]})], 2)
    draws, refused = random.Random(1), 0
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(draws.randint(1, 5)):
            damaged[draws.randrange(len(damaged))] = draws.randrange(256)
        try:
            read_opcodes(bytes(damaged[: draws.randint(1, len(damaged))]), "here")
        except DataError:
            refused += 1
    assert refused > 200
    for contents in (
        b"",
        b"\x80\x02.",
        b"\x80\x02]",
        b"(.",
        b"\x80\x02K\x01K\x02R.",
        b"0.",
        b"\x80\x02]K\x01b.",
        b"I1\n",
        b"\x80\x02t.",
        b"\x80\x02]e.",
        b"\x80\x02cos\nsystem\nK\x01R.",
    ):
        with pytest.raises(DataError, match="values of a pickle"):
            read_opcodes(contents, "here")
    text = pickle.dumps("x" * 1000, 2)[2:-1]
    again = (
        b"\x80\x02c_codecs\nencode\nq\x07" + text + b"X\x06\x00\x00\x00latin1\x86q\x08" + b"h\x07h\x08R0" * 50 + b"."
    )
    monkeypatch.setattr(opcodes, "MOST_BYTES", 20_000)
    with pytest.raises(DataError, match="too many bytes"):
        read_opcodes(again, "here")
    for value in (3, PickledObject("a b"), None):
        with pytest.raises(DataError, match="array of a pickle"):
            read_array(value, "here")

"""Frames on disk: what was written is read, is not computed again, and a damaged or hostile folder is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data.frame_store import FloatType, FrameStore, open_or_write_frames
from regard.errors import DataError

ROWS = [np.arange(6).reshape(3, 2) / 4, np.zeros((0, 2)), np.array([[0.1, -2.0]])]
NAMES = ["a.wav", "b.wav", "c.wav"]


def write(folder: Path, rows: list[np.ndarray] = ROWS, dtype: FloatType = "<f4", **options: object) -> FrameStore:
    facts = {"recipe": "test", "channels": 2, "frame_rate": 100.0, "identities": NAMES} | options
    return open_or_write_frames(folder, iter(rows), NAMES, dtype=dtype, **facts)


@pytest.mark.parametrize("dtype", ["<f2", "<f4"])
def test_frames_are_read_as_they_were_written(tmp_path: Path, dtype: FloatType) -> None:
    store = write(tmp_path / "f", dtype=dtype)
    assert (len(store), store.channels, store.frame_rate, store.recipe) == (3, 2, 100.0, "test")
    assert store.lengths.tolist() == [3, 0, 1]
    for actual, expected in zip(store, ROWS, strict=True):
        assert actual.dtype == np.dtype(dtype) and np.array_equal(actual, expected.astype(dtype))
    assert not store[0].flags.writeable


def test_frames_are_computed_once(tmp_path: Path) -> None:
    def fails() -> Iterator[np.ndarray]:
        raise AssertionError("computed again")
        yield

    write(tmp_path / "f")
    facts = {"recipe": "test", "channels": 2, "frame_rate": 100.0}
    again = open_or_write_frames(tmp_path / "f", fails(), NAMES, **facts, identities=NAMES)
    assert np.array_equal(again[0], ROWS[0].astype(np.float32))
    for changed in ({"recipe": "other"}, {"frame_rate": 50.0}, {"identities": ["a.wav", "b.wav", "new.wav"]}):
        with pytest.raises(AssertionError, match="computed again"):
            open_or_write_frames(tmp_path / "f", fails(), NAMES, **{**facts, "identities": NAMES, **changed})


def test_a_changed_byte_is_computed_again(tmp_path: Path) -> None:
    write(tmp_path / "f")
    values = tmp_path / "f" / "frames"
    values.write_bytes(b"\x01" + values.read_bytes()[1:])
    assert FrameStore.open(tmp_path / "f")[0][0, 0] != 0  # opening reads no frame
    assert write(tmp_path / "f")[0][0, 0] == 0


@pytest.mark.parametrize(("value", "dtype"), [(np.nan, "<f4"), (np.inf, "<f2"), (1e6, "<f2"), (1e39, "<f4")])
def test_a_number_that_is_not_finite_names_recording_and_second(tmp_path: Path, value: float, dtype: FloatType) -> None:
    broken = np.zeros((51, 2))
    broken[50, 1] = value
    with pytest.raises(DataError) as caught:
        write(tmp_path / "f", [ROWS[0], broken, ROWS[2]], dtype)
    assert caught.value.where == "b.wav" and "channel 2 at 0.50 s" in str(caught.value)
    assert not (tmp_path / "f").exists()


def test_frames_of_another_width_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected frames of 2 numbers"):
        write(tmp_path / "f", [ROWS[0], np.zeros((3, 4)), ROWS[2]])


@pytest.mark.parametrize(
    ("key", "value"),
    [("channels", 3), ("channels", 0), ("channels", 1 << 40), ("frame_rate", -1), ("frame_rate", None), ("version", 2)],
)
def test_a_head_that_does_not_fit_is_refused_before_anything_is_mapped(
    tmp_path: Path, key: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "f")
    head = tmp_path / "f" / FrameStore.file
    head.write_text(json.dumps(json.loads(head.read_text()) | {key: value}))
    monkeypatch.setattr("regard.data.ragged._map", lambda *args: pytest.fail("mapped"))
    with pytest.raises(DataError, match="damaged"):
        FrameStore.open(tmp_path / "f")


def test_a_shorter_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "f")
    values = tmp_path / "f" / "frames"
    values.write_bytes(values.read_bytes()[:-4])
    with pytest.raises(DataError, match="it has 28 bytes, not 32"):
        FrameStore.open(tmp_path / "f")

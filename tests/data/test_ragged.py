"""Laws of ragged arrays: they come back as they were written, and files that state something else are refused."""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.corpus import Corpus
from regard.data.document_stream import DocumentStream, open_or_prepare_documents
from regard.data.documents import Cut
from regard.data.preparation import prepare
from regard.data.prepared import PreparedFolder
from regard.data.ragged import ArrayHead, NumberType, Ragged, RaggedWriter
from regard.data.stream import Stream, TextConfig, open_or_prepare_stream
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import DataError
from tests.data.earlier_heads import write_earlier_head

TYPES = get_args(NumberType)
BYTES = train_tokenizer([], TokenizerConfig(kind="byte"))
SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)
LENGTHS = st.lists(st.integers(0, 4), max_size=8)
Values = npt.NDArray[Any]


def drawn_rows(dtype: str, shape: tuple[int, ...], lengths: list[int], seed: int) -> list[Values]:
    """Rows of random bits, in which not-a-number and both zeros of floats occur."""
    random, bits = np.random.default_rng(seed), np.dtype(dtype).itemsize
    sizes = [(length, *shape) for length in lengths]
    if dtype == "|b1":
        return [random.integers(0, 2, size).astype(bool) for size in sizes]
    return [np.frombuffer(random.bytes(int(np.prod(size)) * bits), dtype).reshape(size) for size in sizes]


def written(folder: Path, parts: list[Ragged], dtype: Any, shape: tuple[int, ...]) -> ArrayHead:
    with RaggedWriter(folder / "values", folder / "offsets", dtype, shape) as writer:
        for part in parts:
            writer.append(part)
    return writer.head


def opened(folder: Path, head: ArrayHead, **options: Any) -> Ragged:
    return Ragged.open(folder / "values", folder / "offsets", head, **{"dtypes": TYPES, "shape": head.shape} | options)


def part_of(rows: list[Values], dtype: str, shape: tuple[int, ...]) -> Ragged:
    return Ragged.of_rows(rows) if rows else Ragged(np.empty((0, *shape), dtype), np.zeros(1, np.int64))


@given(st.sampled_from(TYPES), SHAPES, LENGTHS, st.integers(0, 9), st.lists(st.integers(0, 8), max_size=3))
def test_rows_come_back_however_they_were_joined(
    dtype: str, shape: tuple[int, ...], lengths: list[int], seed: int, cuts: list[int]
) -> None:
    rows = drawn_rows(dtype, shape, lengths, seed)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as several:
        head = written(Path(one), [part_of(rows, dtype, shape)], dtype, shape)
        stored = opened(Path(one), ArrayHead.model_validate_json(head.model_dump_json()))
        assert len(stored) == len(rows) and stored.lengths.tolist() == lengths
        assert stored.longest == max(lengths, default=0)
        for number, row in enumerate(rows):
            assert stored[number].dtype == row.dtype and stored[number].shape == row.shape
            assert stored[number].tobytes() == row.tobytes()
        stored.require_intact()
        # Parts of the file that was read, as processes prepare them, equal one writer to the byte.
        parts = [part_of(list(stored)[a:b], dtype, shape) for a, b in pairwise(bounds)]
        assert written(Path(several), parts, dtype, shape) == head
        for name in ("values", "offsets"):
            assert (Path(several) / name).read_bytes() == (Path(one) / name).read_bytes()


@given(LENGTHS, st.integers(0, 9), st.integers(0, 4))
def test_rows_are_selected_and_truncated(lengths: list[int], seed: int, limit: int) -> None:
    rows = drawn_rows("<u4", (2,), lengths, seed)
    chosen = np.random.default_rng(seed).random(len(rows)) < 0.5
    ragged = part_of(rows, "<u4", (2,))
    for found, wanted in (
        (ragged.select(chosen), [row for row, take in zip(rows, chosen, strict=True) if take]),
        (ragged.truncate(limit), [row[:limit] for row in rows]),
    ):
        assert [row.tolist() for row in found] == [row.tolist() for row in wanted]


def test_without_offsets_all_parts_are_one_row(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path / "values", None, "<u2") as writer:
        writer.append_values(np.array([7]))
        writer.append(Ragged.of_rows([np.array([1, 2]), np.array([3])]))
    (row,) = Ragged.open(tmp_path / "values", None, writer.head, dtypes=["<u2"])
    assert row.tolist() == [7, 1, 2, 3]


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, ArrayHead]:
    rows = [np.full((length, 2), length, np.float32) for length in (2, 0, 3)]
    return tmp_path, written(tmp_path, [Ragged.of_rows(rows)], "<f4", (2,))


@pytest.mark.parametrize(
    "change",
    [
        {"positions": 4}, {"positions": 6}, {"positions": 1 << 59}, {"rows": 2}, {"rows": 1 << 59}, {"dtype": "<f8"},
        {"dtype": "<i4"}, {"shape": (1,)}, {"shape": ()}, {"shape": (1 << 30,) * 8},
    ],
    ids=str,
)  # fmt: skip
def test_a_head_that_lies_is_refused_before_a_file_is_mapped(
    stored: tuple[Path, ArrayHead], monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    folder, head = stored
    monkeypatch.setattr(np, "memmap", lambda *_, **__: pytest.fail("mapped before it was checked"))
    with pytest.raises(DataError, match="damaged") as refused:
        opened(folder, head.model_copy(update=change), dtypes=["<f4", "<f8"], shape=(2,))
    assert str(folder) in str(refused.value.where)


@pytest.mark.parametrize(
    "head",
    [
        {"dtype": "O", "positions": 1}, {"dtype": "<u2,<u2", "positions": 1}, {"dtype": ">u2", "positions": 1},
        {"dtype": "<u2", "positions": -1}, {"dtype": "<u2", "positions": 1 << 60}, {"dtype": "<u2", "positions": 1.0},
        {"dtype": "<u2", "positions": True}, {"dtype": "<u2"}, {"positions": 1}, {"dtype": None, "positions": 1},
        {"dtype": "<u2", "positions": 1, "rows": -1}, {"dtype": "<u2", "positions": 1, "shape": [0]},
        {"dtype": "<u2", "positions": 1, "shape": [-2, -2]}, {"dtype": "<u2", "positions": 1, "shape": [1] * 9},
        {"dtype": "<u2", "positions": 1, "shape": ["2"]}, {"dtype": "<u2", "positions": 1, "sha256": 5},
    ],
    ids=str,
)  # fmt: skip
def test_a_head_states_numbers_in_bounds(head: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ArrayHead.model_validate(head)


@pytest.mark.parametrize("offsets", [[1, 2, 2, 5], [0, 2, 2, 4], [0, 3, 2, 5], [0, -1, 2, 5], [0, 2, 2**63 - 1, 5]])
def test_offsets_rise_from_nothing_to_all(stored: tuple[Path, ArrayHead], offsets: list[int]) -> None:
    folder, head = stored
    (folder / "offsets").write_bytes(np.array(offsets, "<i8").tobytes())
    with pytest.raises(DataError, match="rise from 0 to 5") as refused:
        opened(folder, head)
    assert refused.value.where == str(folder / "offsets")


@pytest.mark.parametrize("name", ["values", "offsets"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"", None])
def test_a_file_of_another_size_is_refused(
    stored: tuple[Path, ArrayHead], name: str, damage: Callable[[bytes], bytes] | None
) -> None:
    folder, head = stored
    path = folder / name
    if damage is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="damaged") as refused:
        opened(folder, head)
    assert refused.value.where == str(path) and refused.value.why


@pytest.mark.parametrize("name", ["values", "offsets"])
def test_a_bit_that_changed_is_found(stored: tuple[Path, ArrayHead], name: str) -> None:
    folder, head = stored
    opened(folder, head).require_intact()
    data = bytearray((folder / name).read_bytes())
    data[8 if name == "offsets" else 3] ^= 1  # the offsets still rise: 0, 3, 2 would not
    (folder / name).write_bytes(data if name == "values" else np.array([0, 1, 2, 5], "<i8").tobytes())
    with pytest.raises(DataError, match="damaged") as refused:
        opened(folder, head).require_intact()
    assert refused.value.why == "its digest differs from the one in its head"
    opened(folder, head.model_copy(update={"sha256": ""})).require_intact()


def test_a_value_beyond_the_limit_is_found(tmp_path: Path) -> None:
    head = written(tmp_path, [Ragged.of_rows([np.array([1, 2]), np.array([9])])], "<u2", ())
    opened(tmp_path, head).require_intact(10)
    with pytest.raises(DataError, match="damaged"):
        opened(tmp_path, head).require_intact(9)


def folders(path: Path) -> dict[PreparedFolder, list[Values]]:
    """A folder of each kind, and all that it holds."""
    (path / "text").write_text("ab\n\nè?\nc\n", encoding="utf-8")
    text = TextConfig(source=path / "text")
    corpus = prepare([(1, "a", "bc"), (4, "è", "d")], BYTES, BYTES, path / "corpus", max_length=9)
    stream = open_or_prepare_stream(text, BYTES, path / "stream")
    documents = open_or_prepare_documents(text, Cut("line"), BYTES, path / "documents")
    return {each: contents(each) for each in (corpus, stream, documents)}


def contents(prepared: PreparedFolder) -> list[Values]:
    if isinstance(prepared, Corpus):
        rows = range(len(prepared))
        lines = np.array([prepared.line(row) for row in rows])
        return [*map(prepared.source, rows), *map(prepared.target, rows), lines]
    assert isinstance(prepared, Stream)
    counts = np.array([prepared.bytes, prepared.characters])
    if isinstance(prepared, DocumentStream):
        digests = np.frombuffer(b"".join(sorted(prepared.digests())), np.uint8)
        return [prepared.tokens, prepared.offsets, prepared.prompts, digests, counts]
    return [prepared.tokens, counts]


def test_folders_of_earlier_versions_open_with_equal_results(tmp_path: Path) -> None:
    for prepared, before in folders(tmp_path).items():
        write_earlier_head(prepared.folder / prepared.file)
        earlier = type(prepared).open(prepared.folder)
        earlier.require_types(*[len(BYTES)] * (2 if isinstance(prepared, Corpus) else 1))
        assert (earlier.name, earlier.content, earlier.fingerprint) == (
            prepared.name, prepared.content, prepared.fingerprint,
        )  # fmt: skip
        for one, other in zip(before, contents(earlier), strict=True):
            assert one.dtype == other.dtype and one.tolist() == other.tolist()


def test_each_array_of_a_head_is_checked(tmp_path: Path) -> None:
    for prepared in folders(tmp_path):
        path = prepared.folder / prepared.file
        head = json.loads(path.read_text())
        for name in head["arrays"]:
            for change in ({"dtype": "<f4"}, {"shape": [2, 2]}, {"rows": 9}, {"positions": 1 << 40}, None):
                arrays = {**head["arrays"], name: change and {**head["arrays"][name], **change}}
                path.write_text(json.dumps({**head, "arrays": arrays}))
                with pytest.raises(DataError, match="damaged") as refused:
                    type(prepared).open(prepared.folder)
                assert str(prepared.folder) in str(refused.value.where)
            missing = {other: head["arrays"][other] for other in head["arrays"] if other != name}
            path.write_text(json.dumps({**head, "arrays": missing}))
            with pytest.raises(DataError, match="damaged"):
                type(prepared).open(prepared.folder)


def test_a_folder_that_decayed_is_prepared_again(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("abc\n" * 9)
    text = TextConfig(source=tmp_path / "text")
    path = open_or_prepare_stream(text, BYTES, tmp_path / "stream").folder / "tokens"
    before = path.read_bytes()
    path.write_bytes(before[:8] + before[10:12] + before[8:10] + before[12:])  # tokens of the vocabulary, all of them
    assert path.read_bytes() != before
    open_or_prepare_stream(text, BYTES, tmp_path / "stream")
    assert path.read_bytes() == before


def test_prepared_data_are_mapped_in_one_place() -> None:
    """The store, and the index that writes pairs in the order of their lengths."""
    folder = Path(regard.__file__).parent
    names = {
        path.name
        for path in (folder / "data").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("memmap", "open_memmap"))
        or (isinstance(node, ast.keyword) and node.arg == "mmap_mode")
    }
    assert names == {"ragged.py", "length_index.py"}

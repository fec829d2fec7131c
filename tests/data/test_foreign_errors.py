"""Exceptions of other libraries' parsers become DataErrors that name the file, at every call into such a parser."""

from __future__ import annotations

import ast
import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data.foreign_errors import foreign_errors
from regard.data.music_files import read_pieces
from regard.data.text_files import read_lines
from regard.errors import ConfigError, DataError, ModelError, StorageError
from regard.tasks.detect_graph_files import detect_graph

REGARD = Path(__file__).parents[2] / "regard"
# Calls that parse what others wrote. The attributes of the second line belong to objects that parse lazily.
PARSERS = {
    "gzip.open(", "gzip.GzipFile(", "zipfile.ZipFile(", "np.load(", "mido.MidiFile(file=",
    "self._parquet.ParquetFile(", "open_unpacked(", "open_bytes(", "self._processor.encode(", "self._processor.decode(",
    "self._library.encode_batch_fast(", "self._library.decode(",
}  # fmt: skip
LAZY = {".iter_batches", ".schema_arrow"}


class PanicException(BaseException):
    """What libraries in Rust raise; no Exception."""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (zlib.error("Error -3 while decompressing data"), "Error -3 while decompressing data"),
        (lzma.LZMAError("corrupt input data"), "corrupt input data"),
        (struct.error("unpack requires 4 bytes"), "unpack requires 4 bytes"),
        (KeyError(9), "KeyError: 9"),
        (AssertionError(), "AssertionError"),
        (EOFError(), "EOFError"),
        (StopIteration(), "StopIteration"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
        (MemoryError(), "it needs more memory than is available"),
        (OSError("Couldn't deserialize thrift"), "Couldn't deserialize thrift"),
        (PanicException("called `unwrap` on a `None` value"), "called `unwrap` on a `None` value"),
        (ValueError("a " * 10_000), "a " * 99 + "a…"),
    ],
)
def test_any_exception_names_the_file_and_the_reason(error: BaseException, why: str) -> None:
    with pytest.raises(DataError) as caught, foreign_errors("the piece is damaged", Path("a.mid"), line=lambda: 7):
        raise error
    assert (caught.value.what, caught.value.where) == ("the piece is damaged", "a.mid:7")
    assert (caught.value.why or "").endswith(why)


@pytest.mark.parametrize(
    "error", [ConfigError("mido is missing"), DataError("no note"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()]
)
def test_errors_with_a_meaning_of_their_own_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, foreign_errors("the piece is damaged", Path("a.mid")):
        raise error
    assert caught.value is error


def test_the_machine_refusing_is_not_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "piece.mid").touch()
    with (
        pytest.raises(DataError, match=r"file not found[\s\S]*did you mean"),
        foreign_errors("damaged", tmp_path / "pice.mid"),
    ):
        (tmp_path / "pice.mid").read_bytes()
    with pytest.raises(StorageError, match="no permission"), foreign_errors("damaged", tmp_path / "piece.mid"):
        raise PermissionError(13, "Permission denied")
    with pytest.raises(ModelError), foreign_errors("damaged", tmp_path, error=ModelError):
        raise ValueError("no tokenizer")


def calls(tree: ast.AST, wrapped: bool = False) -> Iterator[tuple[str, int, bool]]:
    """The text and line of each call or attribute, and whether it is inside ``with foreign_errors``."""
    for node in ast.iter_child_nodes(tree):
        inside = wrapped
        if isinstance(node, ast.With):
            named = {ast.unparse(item.context_expr).partition("(")[0] for item in node.items}
            inside = wrapped or "foreign_errors" in named
        if isinstance(node, ast.Call):
            yield ast.unparse(node), node.lineno, inside
        if isinstance(node, ast.Attribute):
            yield f".{node.attr}", node.lineno, inside
        yield from calls(node, inside)


def test_every_call_into_a_parser_is_wrapped() -> None:
    bare, seen = [], set()
    for path in sorted(REGARD.rglob("*.py")):
        for text, line, wrapped in calls(ast.parse(path.read_text())):
            if parser := next((name for name in PARSERS if text.startswith(name)), text if text in LAZY else None):
                seen.add(parser)
                opens = (path.name, parser) == ("text_files.py", "open_unpacked(")  # in open_bytes, itself wrapped
                if not wrapped and not opens and path.name != "packed_files.py":
                    bare.append(f"{path.relative_to(REGARD)}:{line}: {parser}")
    assert bare == []
    assert seen == (PARSERS | LAZY) - {"gzip.GzipFile("}


def midi(*events: bytes, kind: int = 0, ticks: int = 480) -> bytes:
    """A MIDI file with a track for each ``events``, which are raw bytes without the end of the track."""
    tracks = [each + b"\x00\xff\x2f\x00" for each in events]
    chunks = [b"MTrk" + len(each).to_bytes(4, "big") + each for each in tracks]
    return b"MThd" + struct.pack(">IHHH", 6, kind, len(tracks), ticks) + b"".join(chunks)


def test_a_key_signature_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "key-signature.mid"
    path.write_bytes(midi(b"\x00\xff\x59\x02\xf7\x02\x00\x90\x3c\x40\x10\x80\x3c\x40"))
    with pytest.raises(DataError, match="9 flats") as caught:
        list(read_pieces(path, steps=1))
    assert caught.value.where == str(path)


def every_flip(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for bit in range(8):
            yield data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


@pytest.mark.parametrize("name", ["music.json.gz", "piece.mid", "text.txt.gz"])
def test_every_flipped_bit_is_read_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = {
        "music.json.gz": gzip.compress(json.dumps([[[60, 64], [67]]] * 3).encode(), mtime=0),
        "piece.mid": midi(b"\x00\xff\x59\x02\xff\x00\x00\x90\x3c\x40\x10\x80\x3c\x40"),
        "text.txt.gz": gzip.compress(b"two men\na dog runs\n" * 3, mtime=0),
    }[name]
    refused = 0
    for data in every_flip(whole):
        path.write_bytes(data)
        try:
            list(read_lines(path) if name.startswith("text") else read_pieces(path, steps=1))
        except DataError as error:
            assert (error.where or "").startswith(str(path))
            refused += 1
    assert refused > len(whole)


def test_a_file_that_is_no_zip_is_no_graph(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04" + b"\xff" * 40)
    assert detect_graph([tmp_path / "x.npz"]) is None

"""Text files by their first bytes and their endings: what is no text is refused with a command that helps."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from regard.data.file_names import has_ending
from regard.data.packed_files import is_gzipped
from regard.data.text_files import read_lines, read_raw_lines
from regard.errors import DataError

TEXT = "text,label\nein Hündchen,x\nzwei,y\n"
PACKED = [
    ("a.csv", TEXT.encode("windows-1252"), "not valid UTF-8"),
    ("a b.csv.gz", gzip.compress(TEXT.encode("windows-1252")), "not valid UTF-8"),
    ("a.csv.gz", gzip.compress(TEXT.encode("utf-16")), "UTF-16"),
    ("a.csv.gz", gzip.compress(TEXT.replace("\n", "\r").encode()), "carriage returns"),
    ("a.csv", gzip.compress(TEXT.encode()), "gzip"),
    ("a.csv.xz", lzma.compress(TEXT.encode()), "xz"),
    ("a.csv.bz2", bz2.compress(TEXT.encode()), "bzip2"),
    ("a b.csv", b"\xff\xfe" + TEXT.encode("utf-16-le"), "UTF-16"),
    ("a.csv", b"\xfe\xff" + TEXT.encode("utf-16-be"), "UTF-16"),
    ("a.csv", b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"), "UTF-32"),
    ("a.csv", TEXT.replace("\n", "\r").encode(), "carriage returns"),
]


@pytest.mark.parametrize(("name", "content", "message"), PACKED, ids=range(len(PACKED)))
def test_the_command_of_the_error_makes_text_of_the_file(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        list(read_lines(tmp_path / name))
    command = caught.value.help
    assert command is not None and str(tmp_path / name) in str(caught.value.where)
    if command.startswith("rename it to .gz"):
        path = (tmp_path / name).rename(tmp_path / f"{name}.GZ")
    else:
        if shutil.which(command.split()[0]) is None:
            pytest.skip(f"{command.split()[0]} is not installed")
        before = {*tmp_path.iterdir()}
        subprocess.run(["sh", "-c", command.removesuffix(", if that is its encoding")], check=True)
        (path,) = {*tmp_path.iterdir()} - before
        assert has_ending(path, (".csv",)), "another ending is another form, and labels would be lost"
    assert list(read_lines(path)) == TEXT.splitlines()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04" + b"\0" * 20 + b"xl/workbook.xml", "a spreadsheet"),
        (b"PK\x03\x04" + b"\0" * 20 + b"x.csv", "a zip archive"),
        (b"%PDF-1.7\n%\xe2", "a PDF"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"\x93NUMPY\x01\0", "NumPy array"),
        (b"MThd\0\0\0\x06", "MIDI"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "save it as CSV"),
        (b"SQLite format 3\0", "a database"),
        (b"PAR1\0\x15", "Parquet"),
        (bytes(range(256)) * 16, "16 of its first 4,096 bytes are zero"),
        ("plain".encode("utf-16-le") * 40, "iconv -f UTF-16LE"),
        ("plain".encode("utf-16-be") * 40, "iconv -f UTF-16BE"),
    ],
    ids=range(12),
)
def test_what_is_no_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    for whole in (content, gzip.compress(content)):
        path.write_bytes(whole)
        with pytest.raises(DataError, match=message):
            list(read_raw_lines(path))
        path = tmp_path / "a.txt.gz"


def test_arrays_are_no_archive_to_unpack(tmp_path: Path) -> None:
    """A ``.npz`` of other arrays than a graph's, or one that a verb is to read as lines."""
    np.savez(tmp_path / "a.npz", edge_index=np.zeros((2, 3)))
    with pytest.raises(DataError, match="an archive of NumPy arrays") as caught:
        list(read_lines(tmp_path / "a.npz"))
    assert caught.value.help is not None and "unzip" not in caught.value.help and "edges" in caught.value.help


@pytest.mark.parametrize("text", ["ID3 tags", "RIFF raff", "PAR1", "a\0b", "OggSé"])
def test_text_that_begins_like_another_kind_of_file_is_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(f"{text}\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "a.txt")) == [text]


def test_endings_count_in_any_case(tmp_path: Path) -> None:
    assert has_ending(Path("A.CSV.GZ"), (".csv",)) and is_gzipped(Path("a.txt.Gz"))
    assert not has_ending(Path("csv"), (".csv",)) and not is_gzipped(Path("a.tgz"))
    path = tmp_path / "A.TXT.GZ"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(read_lines(path)) == ["one", "two"]


def test_a_line_may_hold_one_carriage_return_and_end_in_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\r\nthree\r\n")
    assert list(read_lines(tmp_path / "a.txt")) == ["one\rtwo", "three"]

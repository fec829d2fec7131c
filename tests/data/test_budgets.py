"""Memory and work of data readers in proportion to the file: what unpacks out of proportion is refused.

``resident`` reads a file in a process of its own, which may take so much more address space than it has when the
libraries are loaded.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.data import parquet_pages
from regard.data.feature_file import FeatureFile
from regard.data.graph_files import read_graph
from regard.data.music_files import read_pieces
from regard.data.packed_files import open_unpacked
from regard.data.parquet_files import ParquetFile
from regard.data.rows import read_rows
from regard.data.text_files import read_lines, require_content
from regard.errors import DataError

BUDGET = 600 << 20  # bytes that a reader may take for a file of a few kilobytes
READ = """
import gc, os, resource, sys
from pathlib import Path
import numpy, pyarrow.parquet
from regard.data.graph_files import read_graph
from regard.data.music_files import read_pieces
from regard.data.rows import read_rows
from regard.data.text_files import read_lines
from regard.errors import DataError
path, budget = Path(sys.argv[1]), int(sys.argv[2])
read = {
    ".parquet": lambda: list(read_rows(path, ["text"])), ".npz": lambda: read_graph(path, None),
    ".gz": lambda: max(map(len, read_pieces(path, steps=1) if ".json" in path.name else read_lines(path))),
    ".mid": lambda: list(read_pieces(path, steps=48)),
}[path.suffix]
had = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (had + budget, had + budget))
try:
    read()
except DataError as error:
    print(error)
"""


def resident(path: Path) -> str:
    """The error that reading a file ends in, nothing where it is read, within ``BUDGET``."""
    arguments = [sys.executable, "-c", READ, str(path), str(BUDGET)]
    environment = os.environ | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_NUM_THREADS": "1",
    }  # the others reserve 1 GB
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and "more memory than is available" not in done.stdout, done.stdout + done.stderr
    return done.stdout


def bomb(path: Path, block: bytes, size: int) -> Path:
    """A .gz of a block again and again, up to a size, packed block by block."""
    packer = zlib.compressobj(9, wbits=31)
    data = [packer.compress(block) for _ in range(size // len(block))]
    path.write_bytes(b"".join(data) + packer.flush())
    return path


@pytest.mark.parametrize("block", [b" " * 4096, b"a dog runs\n" * 400, b"[[60]]," * 500])
@pytest.mark.parametrize("name", ["text.txt.gz", "music.json.gz"])
def test_a_small_gz_of_a_vast_file(tmp_path: Path, name: str, block: bytes) -> None:
    """A hundred kilobytes that hold 80 megabytes."""
    whole = b"[" + block if name.startswith("music") else block
    path = bomb(tmp_path / name, whole, 80 << 20)
    error = resident(path)
    assert "unpacks to more than" in error or "line has more than" in error, error
    assert f"gunzip {path}" in error


def test_a_gz_is_read_up_to_its_limit_and_can_be_sought_in(tmp_path: Path) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress(bytes(range(100)) * 10))
    with open_unpacked(path, free=1000, ratio=0) as file:
        assert file.read() == bytes(range(100)) * 10
        assert file.seek(7) == 7 and file.read(3) == bytes([7, 8, 9]) and file.tell() == 10
    with open_unpacked(path, free=999, ratio=0) as file, pytest.raises(DataError, match="more than 999 bytes"):
        file.read()
    with open_unpacked(path, free=999, ratio=0) as file, pytest.raises(DataError, match="more than 999 bytes"):
        file.seek(1000)
    own = path.stat().st_size
    with open_unpacked(path, free=0, ratio=1 + 1000 // own) as file:
        assert len(file.read()) == 1000


def test_a_line_of_a_small_gz_is_bounded(tmp_path: Path) -> None:
    path = bomb(tmp_path / "x.jsonl.gz", b"[]," * 10_000, 17 << 20)
    with pytest.raises(DataError, match="line has more than 16,777,216 bytes") as caught:
        list(read_lines(path))
    assert caught.value.where == f"{path}:1"
    (tmp_path / "x.txt").write_bytes(b"a" * (17 << 20))
    assert len(next(read_lines(tmp_path / "x.txt"))) == 17 << 20


def test_text_that_packs_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 20) + b"the same line\n" * 100_000))
    require_content(path)
    assert sum(1 for _ in read_lines(path)) == (1 << 20) + 100_000


def repeated(values: object, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array(values))


LONG = "x" * 1_000_000
TABLES = {
    "many equal texts": lambda: repeated(["abc"], 20_000_000),
    "many long texts": lambda: repeated([LONG], 100_000),
    "no texts": lambda: pa.nulls(50_000_000, pa.string()),
    "a long list": lambda: pa.ListArray.from_arrays(pa.array([0, 90_000]), repeated([LONG], 90_000)),
    "many short lists": lambda: pa.ListArray.from_arrays(pa.array(range(0, 90_001, 30)), repeated([LONG], 90_000)),
    "a longer list": lambda: pa.ListArray.from_arrays(pa.array([0, 1 << 23]), repeated(["a"], 1 << 23)),
    "numbers": lambda: pa.array(np.zeros(1 << 24, np.int64)),
    "a long page": lambda: pa.array([LONG * 70]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_small_parquet_of_a_vast_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": TABLES[name]()}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 400_000
    error = resident(path)
    assert "the file has more than" in error and "that is the limit for a file of" in error, error


def test_texts_that_share_their_beginnings(tmp_path: Path) -> None:
    """A value is written as the number of letters that it shares with the one before it, and a rest."""
    table = pa.table({"text": [LONG] * 400})
    path = tmp_path / "x.parquet"
    pq.write_table(
        table, path, compression="zstd", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip
    assert "characters in its cells" in resident(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_headers_of_pages_say_what_the_metadata_say(tmp_path: Path, version: str, compression: str) -> None:
    """Texts of a dictionary and others, numbers, missing values and lists, in several groups and pages."""
    draw = np.random.default_rng(0)
    words = [" ".join(map(str, draw.integers(0, 50, length))) for length in draw.integers(0, 20, 3000)]
    table = pa.table({
        "text": words, "label": draw.choice(["a", "b"], 3000), "number": draw.integers(0, 1 << 40, 3000),
        "missing": [None, "x", None] * 1000, "list": [word.split() for word in words],
    })  # fmt: skip
    path = tmp_path / "x.parquet"
    pq.write_table(
        table, path, compression=compression, data_page_version=version, row_group_size=1700, data_page_size=2048,
        dictionary_pagesize_limit=4096,
    )  # fmt: skip
    metadata = pq.ParquetFile(path).metadata
    with path.open("rb") as file:
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(place)
                start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
                found = list(parquet_pages.pages(file, start, chunk.num_values))
                assert sum(page.values for page in found if not page.repeats) == chunk.num_values
                headers = chunk.total_uncompressed_size - sum(page.size for page in found)
                assert 0 < headers < 200 * len(found), "metadata count the headers, too"
    rows = list(ParquetFile(path).rows(table.column_names))
    assert rows == list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def test_metadata_that_understate_the_pages_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page's own header says is compared, since memory is taken by it."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["x" * 5000]}), path, compression="none", use_dictionary=False)
    monkeypatch.setattr("regard.data.parquet_files.FREE_BYTES", 1000)
    monkeypatch.setattr("regard.data.parquet_files.BYTES_PER_BYTE", 0)
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        list(ParquetFile(path).rows(["text"]))


def test_lists_of_texts_that_repeat_are_the_lists_themselves(tmp_path: Path) -> None:
    word = "w" * 100_000
    lists = [[word, "a"], None, [], ["a"] * 500, [word, None]] * 3
    pq.write_table(pa.table({"list": lists}), tmp_path / "x.parquet")
    file = ParquetFile(tmp_path / "x.parquet")
    assert file._plan(["list"])[1], "read by dictionary"
    rows = [row[0] for row in file.rows(["list"])]
    assert rows == lists and len({id(row[0]) for row in rows if row and row[0] == word}) == 1
    assert [row.cells["list"] for row in read_rows(tmp_path / "x.parquet", ["list"])][3] == ("a",) * 500


def test_empty_pages_are_read_once_each() -> None:
    """The headers of a file of nothing but empty pages are read in steps in proportion to its size."""
    header = bytes.fromhex("1500150015002c15001500150615060000")  # three numbers 0, and the header of a data page
    read = 0

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal read
            read += size or 0
            return super().read(size)

    with pytest.raises(ValueError, match="damaged"):
        list(parquet_pages.pages(Counted(header * 1000), 0, 1))
    assert 1000 << 10 <= read < 3 << 20


ARRAYS = {
    "x": lambda: {"x": np.ones((16_000, 16_000), np.bool_), "edges": np.zeros((1, 2), np.int64)},
    "edges": lambda: {"x": np.ones((2, 1)), "edges": np.zeros((1 << 26, 2), np.int8)},
    "y": lambda: {"x": np.ones((2, 1)), "edges": np.zeros((1, 2), np.int64), "y": np.zeros(1 << 27, np.int8)},
    "unread": lambda: {"x": np.ones((2, 1)), "edges": np.zeros((1, 2), np.int64), "z": np.zeros(1 << 27, np.int8)},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_small_npz_of_vast_arrays(tmp_path: Path, name: str) -> None:
    np.savez_compressed(tmp_path / "x.npz", **ARRAYS[name]())  # type: ignore[no-untyped-call]
    error = resident(tmp_path / "x.npz")
    assert "too large" in error, error


def test_a_sparse_table_of_features_is_read(tmp_path: Path) -> None:
    x = np.zeros((3000, 3000), np.float32)
    x[np.arange(3000), np.arange(3000)] = 1
    np.savez_compressed(tmp_path / "x.npz", x=x, edges=np.zeros((1, 2), np.int64))
    assert len(read_graph(tmp_path / "x.npz", None).values) == 3000


def test_a_piece_of_many_long_notes(tmp_path: Path) -> None:
    """Nine kilobytes of strikes of one pitch, all held for long."""
    strikes = b"\0\x90\x3c\x50" + b"\0\x3c\x50" * 1500 + b"\x90\x00\x80\x3c\x50" + b"\0\x3c\x50" * 1500
    track = b"MTrk" + (len(strikes) + 4).to_bytes(4, "big") + strikes + b"\0\xff\x2f\0"
    (tmp_path / "x.mid").write_bytes(b"MThd\0\0\0\6\0\0\0\1\0\1" + track)
    assert resident(tmp_path / "x.mid") == ""
    assert len(next(read_pieces(tmp_path / "x.mid", steps=48))) == 48 << 11


@pytest.mark.parametrize("name", ["x.parquet", "x.npz", "x.npy", "x.mid", "x.json", "x.json.gz"])
def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    read = {
        "x.parquet": lambda path: list(read_rows(path, ["text"])), "x.npz": lambda path: read_graph(path, None),
        "x.npy": FeatureFile,
    }.get(name, lambda path: list(read_pieces(path, steps=1)))  # fmt: skip
    with pytest.raises(DataError):
        read(tmp_path / name)

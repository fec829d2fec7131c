"""Preparation by several processes: the bytes of one, errors told as by one, nothing half where one dies."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import document_stream, encoding, preparation, stream
from regard.data.corpus import Corpus
from regard.data.document_stream import open_or_prepare_documents
from regard.data.documents import Cut
from regard.data.encoding import encode_chunks, processes_for
from regard.data.preparation import open_or_prepare
from regard.data.reading import CorpusConfig
from regard.data.stream import TextConfig, open_or_prepare_stream
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.errors import DataError, RegardError

LINES = [
    f"a dog number {number} </s> met <unk> é{chr(97 + number % 26) * (number % 7)} … {number**3}"
    for number in range(300)
]


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    return (
        train_tokenizer(LINES, TokenizerConfig(kind="bpe", size=150)),
        train_tokenizer(LINES, TokenizerConfig(kind="byte-bpe", size=300)),
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks of few lines."""
    for module in (preparation, stream, document_stream):
        monkeypatch.setattr(module, "CHUNK", 32)


def hashes(folder: Path) -> dict[str, str]:
    told = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert len(told) >= 2
    return told


def test_two_processes_make_the_bytes_of_one(tmp_path: Path, tokenizers: Sequence[Tokenizer]) -> None:
    (tmp_path / "a").write_text("\n".join(LINES) + "\n")
    (tmp_path / "b").write_text("\n".join(LINES[::-1]) + "\n")
    text: Any = TextConfig(source=tmp_path / "a")
    corpus, told = CorpusConfig(source=tmp_path / "a", target=tmp_path / "b"), list[list[int]]()
    most = sorted(map(len, tokenizers[0].encode_lines(LINES)))[290]
    for number in (1, 2):
        told.append([])
        options: Any = {"processes": number, "progress": told[-1].append}
        open_or_prepare(corpus, *tokenizers, tmp_path / f"pairs-{number}", max_length=most, **options)
        open_or_prepare_stream(text, tokenizers[1], tmp_path / f"stream-{number}", **options)
        open_or_prepare_documents(text, Cut("line"), tokenizers[0], tmp_path / f"documents-{number}", **options)
    assert told[0] == told[1] and len(told[0]) == 30
    for kind in ("pairs", "stream", "documents"):
        assert hashes(tmp_path / f"{kind}-1") == hashes(tmp_path / f"{kind}-2")
    assert 0 < Corpus.open(tmp_path / "pairs-2").report.long < 300


def test_what_fails_in_a_process_fails_as_it_would_here(tokenizers: Sequence[Tokenizer]) -> None:
    found = []
    for number in (1, 2):
        with pytest.raises((RegardError, ValueError, RuntimeError, TypeError)) as caught:
            list(encode_chunks(tokenizers[1:], [(0, [["\ud800"]])], number))
        found.append((type(caught.value), str(caught.value)))
    assert found[0] == found[1]


def test_a_process_that_dies_leaves_nothing_and_is_told(
    tmp_path: Path, tokenizers: Sequence[Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("\n".join(LINES) + "\n")
    corpus, started = CorpusConfig(source=tmp_path / "a", target=tmp_path / "a"), list[int]()
    begin = subprocess.Popen

    def popen(*given: Any, **options: Any) -> Any:
        process = begin(*given, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(encoding.subprocess, "Popen", popen)
    options: Any = {"max_length": 99, "processes": 2}

    def kill(pairs: int) -> None:
        if started:
            os.kill(started.pop(0), signal.SIGKILL)
            started.clear()

    with pytest.raises(DataError, match="process died") as caught:
        open_or_prepare(corpus, *tokenizers, tmp_path / "corpus", progress=kill, **options)
    assert "data.processes=1" in str(caught.value.help)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    assert len(open_or_prepare(corpus, *tokenizers, tmp_path / "corpus", **options)) == 300


def test_a_reader_that_fails_ends_the_processes(tmp_path: Path, tokenizers: Sequence[Tokenizer]) -> None:
    (tmp_path / "a").write_text("\n".join(LINES) + "\n")
    (tmp_path / "b").write_text("\n".join(LINES[1:]) + "\n")
    with pytest.raises(DataError, match="different numbers of lines"):
        open_or_prepare(
            CorpusConfig(source=tmp_path / "a", target=tmp_path / "b"), *tokenizers, tmp_path / "corpus",
            max_length=99, processes=2,
        )  # fmt: skip
    assert not (tmp_path / "corpus").exists() and not (tmp_path / ".corpus.tmp").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from regard.data import preparation
from regard.data.preparation import open_or_prepare
from regard.data.reading import CorpusConfig
from regard.data.tokenizers.catalog import load_tokenizer
preparation.CHUNK = 32
folder = Path(sys.argv[1])
one = load_tokenizer(folder, "one")
config = CorpusConfig(source=folder / "a", target=folder / "a")
def killed(pairs):
    os.kill(os.getpid(), signal.SIGKILL)
open_or_prepare(config, one, one, folder / "corpus", max_length=99, processes=2, progress=killed)
"""


def test_a_preparation_that_is_killed_begins_again(tmp_path: Path, tokenizers: Sequence[Tokenizer]) -> None:
    """And its processes end with it: they hold its output open, which is waited for."""
    (tmp_path / "a").write_text("\n".join(LINES) + "\n")
    tokenizers[0].save(tmp_path, "one")
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert not (tmp_path / "corpus").exists()
    config = CorpusConfig(source=tmp_path / "a", target=tmp_path / "a")
    assert len(open_or_prepare(config, tokenizers[0], tokenizers[0], tmp_path / "corpus", max_length=99)) == 300
    assert not (tmp_path / ".corpus.tmp").exists()


def test_processes_are_started_for_large_texts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a\n" * 100)
    assert processes_for([path]) == 1 and processes_for([path], 3) == 3
    monkeypatch.setattr(encoding, "LARGE", 400)
    assert processes_for([path, path]) == len(os.sched_getaffinity(0))
    assert processes_for([path, tmp_path / "none"]) == 1
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    assert processes_for([path, path]) == os.cpu_count()


def test_lines_of_a_chunk_come_apart(tokenizers: Sequence[Tokenizer]) -> None:
    ((kept, (found,)),) = encode_chunks(tokenizers[:1], [("kept", [["", *LINES[:3]]])])
    assert kept == "kept" and [line.tolist() for line in found] == [[], *tokenizers[0].encode_lines(LINES[:3])]
    ((_, (nothing,)),) = encode_chunks(tokenizers[:1], [(0, [[]])])
    assert list(nothing) == [] and nothing.values.dtype == np.uint32

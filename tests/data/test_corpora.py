"""Prepared corpora: the same sentences come back, nothing is dropped silently, and a folder is whole or absent."""

import errno
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import preparation
from regard.data.corpus import Corpora, Corpus
from regard.data.preparation import open_or_prepare, prepare
from regard.data.ragged import RaggedWriter
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import DataError, StorageError
from tests.data.earlier_heads import write_earlier_head

WORDS = train_tokenizer(["a b c d e f g h"], TokenizerConfig(kind="word"))
CHARACTERS = train_tokenizer(["abcdefgh "], TokenizerConfig(kind="character"))
PAIRS = [(1, "a b", "c"), (2, "d e f", "g h"), (5, "h", "a b c d")]


def corpus_of(folder, pairs=PAIRS, **options):
    return prepare(pairs, WORDS, WORDS, folder / "corpus", **({"max_length": 10} | options))


def files(folder, source="a b\nc d\ne\n", target="a\nb c\nd e f\n"):
    (folder / "x.en").write_text(source)
    (folder / "x.de").write_text(target)
    return CorpusConfig(source=folder / "x.en", target=folder / "x.de")


def test_sentences_lengths_and_lines_come_back(tmp_path):
    corpus = corpus_of(tmp_path, name="x.en")
    assert len(corpus) == 3
    assert [WORDS.decode(corpus.source(row)) for row in range(3)] == [pair[1] for pair in PAIRS]
    assert [WORDS.decode(corpus.target(row)) for row in range(3)] == [pair[2] for pair in PAIRS]
    assert corpus.source_length.tolist() == [2, 3, 1]
    assert corpus.target_length.tolist() == [1, 2, 4]
    assert corpus.source_length.dtype == np.int32
    assert [corpus.line(row) for row in range(3)] == [1, 2, 5]
    assert corpus.where(2) == "x.en:5"


@given(st.lists(st.tuples(*[st.text("abcdefgh ", max_size=12)] * 2), min_size=1, max_size=30), st.integers(1, 5))
def test_any_pairs_come_back_in_any_chunks(tmp_path_factory, pairs, chunk):
    folder = tmp_path_factory.mktemp("any")
    numbered = [(number, *pair) for number, pair in enumerate(pairs, start=1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "CHUNK", chunk)
        corpus = prepare(numbered, CHARACTERS, CHARACTERS, folder / "corpus", max_length=12)
    back = [
        (CHARACTERS.decode(corpus.source(row)), CHARACTERS.decode(corpus.target(row))) for row in range(len(corpus))
    ]
    assert back == pairs


def test_of_long_sources_the_first_pieces_are_kept(tmp_path):
    """A pair whose target is too long is left out all the same."""
    pairs = [(1, "a b c d e", "a"), (2, "d e f", "g"), (3, "h g f e", "b"), (4, "a b c d", "a b c d")]
    corpus = corpus_of(tmp_path, pairs, max_length=3, crop=True)
    assert [WORDS.decode(corpus.source(row)) for row in range(len(corpus))] == ["a b c", "d e f", "h g f"]
    assert [WORDS.decode(corpus.target(row)) for row in range(len(corpus))] == ["a", "g", "b"]
    assert (corpus.report.cropped, corpus.report.long, corpus.report.long_lines) == (2, 1, [4])
    assert [corpus.line(row) for row in range(len(corpus))] == [1, 2, 3]
    assert Corpus.open(tmp_path / "corpus").report == corpus.report


def test_a_corpus_is_made_anew_where_long_sources_are_to_be_cropped(tmp_path):
    config, folder = files(tmp_path, "a b c\nd\n", "a\nb\n"), tmp_path / "corpus"
    left_out, cropped, again = (
        open_or_prepare(config, WORDS, WORDS, folder, max_length=2, crop=crop) for crop in (False, True, True)
    )
    assert (len(left_out), len(cropped)) == (1, 2) and again.fingerprint == cropped.fingerprint


def test_long_sentences_are_left_out_and_reported(tmp_path):
    config = files(tmp_path, source="a\n" + "b " * 100_000 + "\nc\n\n", target="a\nb\n" + "c " * 11 + "\n\n")
    corpus = prepare(read_pairs(config), WORDS, WORDS, tmp_path / "corpus", max_length=10)
    assert [corpus.line(row) for row in range(len(corpus))] == [1]
    assert corpus.report.long == 2
    assert corpus.report.long_lines == [2, 3]
    assert corpus.report.blank == 1
    assert Corpus.open(tmp_path / "corpus").report == corpus.report


def test_the_longest_allowed_is_kept(tmp_path):
    assert len(corpus_of(tmp_path, max_length=4)) == 3
    assert len(corpus_of(tmp_path, max_length=3)) == 2


def test_unknown_pieces_are_counted_per_side(tmp_path):
    corpus = corpus_of(tmp_path, [(1, "a x y", "b"), (2, "a", "b z")])
    assert (corpus.report.source_unknown, corpus.report.target_unknown) == (2, 1)
    assert corpus.unknown_shares == {"source": 2 / 4, "target": 1 / 3}


def test_no_pair_left_says_why(tmp_path):
    with pytest.raises(DataError, match="3 pairs with more than 0 tokens"):
        corpus_of(tmp_path, max_length=0)
    with pytest.raises(DataError, match="all lines are blank"):
        prepare(read_pairs(files(tmp_path, "\n \n", "\n\n")), WORDS, WORDS, tmp_path / "corpus", max_length=9)
    assert not (tmp_path / "corpus").exists()


def test_a_share_that_keeps_nothing_is_named(tmp_path):
    config = files(tmp_path).model_copy(update={"share": (0.0, 1e-9)})
    with pytest.raises(DataError, match="share") as caught:
        open_or_prepare(config, WORDS, WORDS, tmp_path / "corpus", max_length=10)
    assert "blank" not in str(caught.value)


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    many = [chr(0x10000 + number) for number in range(70_000)]
    tokenizer = train_tokenizer([" ".join(many)], TokenizerConfig(kind="word"))
    corpus = prepare([(1, many[-1], many[0])], tokenizer, WORDS, tmp_path / "corpus", max_length=9)
    assert tokenizer.decode(corpus.source(0)) == many[-1]
    assert corpus.source(0).itemsize == 4
    assert corpus_of(tmp_path).source(0).itemsize == 2


def test_progress_is_told(tmp_path):
    seen: list[int] = []
    corpus_of(tmp_path, [(number, "a", "b") for number in range(5000)], progress=seen.append)
    assert seen == [4096, 5000]


def test_a_reader_that_fails_leaves_the_old_corpus(tmp_path):
    corpus_of(tmp_path)

    def pairs():
        yield from PAIRS[:1]
        raise DataError("A line is broken.")

    with pytest.raises(DataError, match="broken"):
        corpus_of(tmp_path, pairs())
    assert len(Corpus.open(tmp_path / "corpus")) == 3
    assert os.listdir(tmp_path) == ["corpus"]


def test_a_full_disk_is_a_storage_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RaggedWriter, "append", full)
    with pytest.raises(StorageError, match="cannot store"):
        corpus_of(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        corpus_of(tmp_path / "file")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "corpus").mkdir()
    assert len(corpus_of(tmp_path)) == 3, "an empty folder may be used"
    (tmp_path / "corpus" / "corpus.json").rename(tmp_path / "corpus" / "thesis.txt")
    with pytest.raises(StorageError, match="contains other files"):
        corpus_of(tmp_path)
    assert (tmp_path / "corpus" / "thesis.txt").exists()


def test_a_preparation_is_reused_until_something_changes(tmp_path, monkeypatch):
    config = files(tmp_path)
    made: list[int] = []
    real = preparation.prepare
    monkeypatch.setattr(preparation, "prepare", lambda *args, **options: made.append(1) or real(*args, **options))

    def opened(tokenizer=WORDS, max_length=9):
        corpus = open_or_prepare(config, WORDS, tokenizer, tmp_path / "corpus", max_length=max_length)
        return len(made), len(corpus)

    assert opened() == (1, 3)
    assert opened() == (1, 3)
    files(tmp_path, source="a\n", target="b\n")
    assert opened() == (2, 1)
    assert opened(max_length=8) == (3, 1)
    assert opened(CHARACTERS, max_length=8) == (4, 1)
    (tmp_path / "corpus" / "source.tokens").write_bytes(b"")
    assert opened(CHARACTERS, max_length=8) == (5, 1)


def test_the_same_text_elsewhere_will_do_and_other_text_will_not(tmp_path):
    (tmp_path / "other").mkdir()
    config, folder = files(tmp_path), tmp_path / "corpus"
    first = open_or_prepare(config, WORDS, WORDS, folder, max_length=9)
    os.utime(config.source, ns=(1, 1))
    for same in (config, files(tmp_path / "other")):
        again = open_or_prepare(same, WORDS, WORDS, folder, max_length=9, content=first.content)
        assert again.content == first.content and len(again) == 3
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = files(tmp_path, source="a b\nc d\nf\n")
    with pytest.raises(DataError, match="changed since this run started"):
        open_or_prepare(changed, WORDS, WORDS, folder, max_length=9, content=first.content)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert open_or_prepare(changed, WORDS, WORDS, folder, max_length=9).content != first.content


@pytest.mark.parametrize("name", ["source.tokens", "target.offsets", "lines", "corpus.json"])
def test_a_damaged_folder_is_told(tmp_path, name):
    corpus_of(tmp_path)
    path = tmp_path / "corpus" / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="damaged"):
        Corpus.open(tmp_path / "corpus")
    path.unlink()
    with pytest.raises(DataError, match=r"missing|no prepared corpus"):
        Corpus.open(tmp_path / "corpus")


def test_corpora_are_numbered_end_to_end(tmp_path):
    first = corpus_of(tmp_path / "1", PAIRS[:2], name="one")
    second = corpus_of(tmp_path / "2", PAIRS[2:], name="two")
    both = Corpora([first, second])
    assert len(both) == 3
    assert both.sizes == [2, 1]
    assert both.source_length.tolist() == [2, 3, 1]
    assert both.target_length.tolist() == [1, 2, 4]
    assert [WORDS.decode(both.source(row)) for row in range(3)] == [pair[1] for pair in PAIRS]
    assert [WORDS.decode(both.target(row)) for row in range(3)] == [pair[2] for pair in PAIRS]
    assert [both.where(row) for row in range(3)] == ["one:1", "one:2", "two:5"]


def test_multi30k_is_read_whole(tmp_path):
    folder = Path(os.environ.get("REGARD_DATA", "")) / "multi30k" / "bpe10k-en-de"
    if "REGARD_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("REGARD_DATA names no folder with multi30k/")
    config = CorpusConfig(source=folder / "train.en.gz", target=folder / "train.de.gz")
    tokenizer = train_tokenizer(
        (line for pair in read_pairs(config) for line in pair[1:]), TokenizerConfig(kind="pretokenized")
    )
    corpus = prepare(read_pairs(config), tokenizer, tokenizer, tmp_path / "corpus", max_length=256)
    with gzip.open(config.source, "rt", encoding="utf-8") as file:
        words = [line.split() for line in file]
    assert corpus.source_length.tolist() == [len(line) for line in words]
    assert tokenizer.pieces(corpus.source(28_999)) == words[28_999]
    assert corpus.report.source_unknown == corpus.report.target_unknown == 0


def rewritten(folder: Path, **head: object) -> Path:
    """A prepared corpus with the head of an earlier version, which states other facts."""
    path = corpus_of(folder).folder / "corpus.json"
    write_earlier_head(path, **head)
    return path.parent


@pytest.mark.parametrize("dtype", ["O", "<i8", "S2", "V4", "<u2,<u2", ">u2", "<f4", "object", 5, None, ["<u2"]])
def test_tokens_are_of_two_kinds_of_numbers_and_no_other(tmp_path, monkeypatch, dtype):
    folder = rewritten(tmp_path, dtype=dtype)
    monkeypatch.setattr(np, "memmap", lambda *given, **options: pytest.fail("mapped before it was checked"))
    with pytest.raises(DataError, match="damaged"):
        Corpus.open(folder)


REPORT = {"blank": 0, "long": 0, "long_lines": [], "source_unknown": 0, "target_unknown": 0, "max_length": 10}


@pytest.mark.parametrize(
    "head",
    [
        {"source_tokens": -1}, {"source_tokens": 6.0}, {"source_tokens": 1 << 70}, {"target_tokens": True},
        {"report": REPORT}, {"report": REPORT | {"pairs": -1}}, {"report": REPORT | {"pairs": 2}},
        {"report": REPORT | {"pairs": 1 << 62}}, {"report": REPORT | {"pairs": 3, "max_length": 3}},
        {"report": REPORT | {"pairs": 3, "long_lines": "1"}}, {"report": [1]}, {"name": ["x"]}, {"fingerprint": None},
    ],
)  # fmt: skip
def test_a_head_that_lies_is_refused_before_a_file_is_mapped(tmp_path, monkeypatch, head):
    folder = rewritten(tmp_path, **head)
    if head.get("report", {}) != REPORT | {"pairs": 3, "max_length": 3}:
        monkeypatch.setattr(np, "memmap", lambda *given, **options: pytest.fail("mapped before it was checked"))
    with pytest.raises(DataError, match="damaged"):
        Corpus.open(folder)


@pytest.mark.parametrize(
    "offsets", [[1, 2, 5, 6], [0, 2, 5, 5], [0, 5, 2, 6], [0, -1, 5, 6], [0, 2, 2**63 - 1, 6], [0, 7, 7, 6]]
)
def test_offsets_rise_from_nothing_to_all(tmp_path, offsets):
    folder = corpus_of(tmp_path).folder
    (folder / "source.offsets").write_bytes(np.array(offsets, "<i8").tobytes())
    with pytest.raises(DataError, match="rise from 0 to 6"):
        Corpus.open(folder)


def test_tokens_that_no_vocabulary_has_are_found_and_the_corpus_made_anew(tmp_path):
    config = files(tmp_path)

    def open_again():
        return open_or_prepare(config, WORDS, WORDS, tmp_path / "corpus", max_length=10)

    wanted = [open_again().source(row).tolist() for row in range(3)]
    path = tmp_path / "corpus" / "source.tokens"
    path.write_bytes(np.full(len(path.read_bytes()) // 2, len(WORDS), "<u2").tobytes())
    with pytest.raises(DataError, match=f"token {len(WORDS)}; the vocabulary has {len(WORDS)}"):
        Corpus.open(path.parent).require_types(len(WORDS), len(WORDS))
    again = open_again()
    assert [again.source(row).tolist() for row in range(3)] == wanted
    again.require_types(len(WORDS), len(WORDS))

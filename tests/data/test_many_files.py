"""A corpus of many files is the corpus that they make one after the other, and messages name the file and the line."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.data.corpus import Corpora, Corpus
from regard.data.document_stream import open_or_prepare_documents
from regard.data.documents import Cut
from regard.data.file_names import named_files, paired_files
from regard.data.preparation import open_or_prepare, prepare
from regard.data.reading import CorpusConfig, corpus_of_files, read_pairs
from regard.data.stream import TextConfig, open_or_prepare_stream
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import DataError
from regard.tasks.check import check
from regard.tasks.find_config import find_config

WORDS = train_tokenizer(["a b c d e f g h"], TokenizerConfig(kind="word"))
CHARACTERS = train_tokenizer(["abcdefgh \n"], TokenizerConfig(kind="character"))
PARTS = [("a b\nc\n", "d\ne f\n"), ("\nb a\nc c c c c c\n", "\nh\ng\n"), ("e\n", "f\n")]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """The parts, the second gzipped, and the whole."""
    for number, texts in enumerate(PARTS):
        for side, text in zip(("en", "de"), texts, strict=True):
            if number == 1:
                (tmp_path / f"part-{number}.{side}.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (tmp_path / f"part-{number}.{side}").write_text(text)
    for side, texts in zip(("en", "de"), zip(*PARTS, strict=True), strict=True):
        (tmp_path / f"whole.{side}").write_text("".join(texts))
    return tmp_path


def configs(folder: Path) -> list[CorpusConfig]:
    """The same corpus by a pattern, by a list and as one file."""
    lists = [tuple(sorted(folder.glob(f"part-*.{side}*"))) for side in ("en", "de")]
    return [
        CorpusConfig(source=folder / "part-*.en*", target=folder / "part-*.de*"),
        CorpusConfig.model_validate({"source": [str(each) for each in lists[0]], "target": lists[1]}),
        CorpusConfig(source=folder / "whole.en", target=folder / "whole.de"),
    ]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


def test_a_corpus_of_many_files_has_the_bytes_of_the_whole(parts: Path) -> None:
    found = [
        open_or_prepare(config, WORDS, WORDS, parts / "corpus" / str(number), max_length=5)
        for number, config in enumerate(configs(parts))
    ]
    assert bytes_of(found[0].folder) == bytes_of(found[1].folder) == bytes_of(found[2].folder)
    assert found[0].content == found[1].content == found[2].content
    assert found[0].report == found[2].report and found[0].report.blank == 1 and found[0].report.long_lines == [5]
    assert [found[2].where(index).rpartition("/")[2] for index in range(4)] == [
        "whole.en:1", "whole.en:2", "whole.en:4", "whole.en:6",
    ]  # fmt: skip
    for corpus in (*found[:2], Corpus.open(found[0].folder)):
        where = [corpus.where(index) for index in range(len(corpus))]
        names = [f"{parts}/part-0.en:1", f"{parts}/part-0.en:2", f"{parts}/part-1.en.gz:2", f"{parts}/part-2.en:1"]
        assert where == names == [Corpora([corpus]).where(index) for index in range(4)]
        assert corpus.place(5) == f"{parts}/part-1.en.gz:3"


def test_a_new_part_makes_the_corpus_anew(parts: Path) -> None:
    config = configs(parts)[0]
    first = open_or_prepare(config, WORDS, WORDS, parts / "corpus", max_length=9)
    assert open_or_prepare(config, WORDS, WORDS, parts / "corpus", max_length=9).fingerprint == first.fingerprint
    (parts / "part-3.en").write_text("h\n")
    (parts / "part-3.de").write_text("h\n")
    assert len(open_or_prepare(config, WORDS, WORDS, parts / "corpus", max_length=9)) == len(first) + 1
    with pytest.raises(DataError, match="changed since this run started"):
        open_or_prepare(config, WORDS, WORDS, parts / "else", max_length=9, content=first.content)


def test_files_that_do_not_fit_are_told(parts: Path) -> None:
    (parts / "part-3.en").write_text("h\n")
    with pytest.raises(DataError, match="4 source and 3 target files"):
        list(read_pairs(configs(parts)[0]))
    (parts / "part-4.de").write_text("h\n")
    with pytest.raises(DataError, match="do not match") as names:
        list(read_pairs(configs(parts)[0]))
    assert str(parts / "part-3.en") == names.value.where and str(parts / "part-4.de") in str(names.value.why)
    (parts / "part-4.de").rename(parts / "part-3.de")
    assert len(list(read_pairs(configs(parts)[0]))) == 6
    (parts / "part-3.de").write_text("h\nh\n")
    with pytest.raises(DataError, match="different numbers of lines: 1 and 2") as lines:
        list(read_pairs(configs(parts)[0]))
    assert str(lines.value.where).startswith(str(parts / "part-3.de"))
    with pytest.raises(DataError, match="no file matches the pattern"):
        list(read_pairs(CorpusConfig(source=parts / "none-*.tsv")))
    with pytest.raises(ValueError, match="at least one"):
        CorpusConfig(source=())


def test_lines_blank_on_one_side_are_named_by_their_files(parts: Path) -> None:
    (parts / "part-2.en").write_text(" \n")
    with pytest.raises(DataError, match="blank on one side only") as caught:
        prepare(read_pairs(configs(parts)[0]), WORDS, WORDS, parts / "corpus", max_length=9)
    assert caught.value.where == f"{parts / 'part-2.en'}:1"
    assert f"{parts / 'part-2.en'}:1 (source)" in str(caught.value.why)
    assert not (parts / "corpus").exists()


def test_names_are_sorted_and_a_file_with_the_name_of_a_pattern_is_itself(tmp_path: Path) -> None:
    for name in ("b-2", "b-10", "a[1]", "a1"):
        (tmp_path / name).write_text("a\n")
    assert [path.name for path in named_files(tmp_path / "b-*")] == ["b-10", "b-2"]
    assert named_files(tmp_path / "a[1]") == [tmp_path / "a[1]"]
    assert named_files((tmp_path / "a1", tmp_path / "b-*")) == [tmp_path / "a1", tmp_path / "b-10", tmp_path / "b-2"]
    assert paired_files(tmp_path / "none", None) == [(tmp_path / "none", None)], "reading tells that it is not there"


@pytest.mark.parametrize("share", [(0.0, 1.0), (0.2, 0.7)])
def test_a_text_of_many_files_is_one_text(parts: Path, share: tuple[float, float]) -> None:
    texts = [TextConfig(source=source, share=share) for source in (parts / "part-*.en*", parts / "whole.en")]
    many, one = (open_or_prepare_stream(text, CHARACTERS, parts / str(number)) for number, text in enumerate(texts))
    assert many.tokens.tolist() == one.tokens.tolist()
    assert (many.content, many.bytes, many.characters) == (one.content, one.bytes, one.characters)
    assert open_or_prepare_stream(texts[0], CHARACTERS, parts / "0").fingerprint == many.fingerprint
    (parts / "part-0.en").write_text("h\nh\n")
    assert open_or_prepare_stream(texts[0], CHARACTERS, parts / "0").content != many.content


def test_documents_of_many_files(parts: Path) -> None:
    options: dict[str, Any] = {"cut": Cut("line"), "tokenizer": CHARACTERS}
    many, one = (
        open_or_prepare_documents(TextConfig(source=source), folder=parts / str(number), **options)
        for number, source in enumerate((tuple(sorted(parts.glob("part-*.en*"))), parts / "whole.en"))
    )
    assert many.tokens.tolist() == one.tokens.tolist() and many.content == one.content
    assert many.name == f"{parts / 'part-0.en'} and 2 more"


def test_files_on_a_command_line(parts: Path) -> None:
    tsv = [parts / f"part-{number}.tsv" for number in range(3)]
    for path in tsv:
        path.write_text("a b\tc\n" * 3)
    assert corpus_of_files(tsv) == CorpusConfig(source=tuple(tsv))
    assert corpus_of_files(tsv[:1]) == CorpusConfig(source=tsv[0])
    assert corpus_of_files([parts / "whole.en", parts / "whole.de"]) == configs(parts)[2]
    assert corpus_of_files([parts / "a.en", parts / "b.en", parts / "c.en"]) is None
    for what in ([str(each) for each in tsv], [str(parts / "part-*.tsv")]):
        config = find_config(what, [], ["train.steps=1"])
        assert config.task.kind == "translation"
        assert sum(1 for _ in read_pairs(config.data.train[0])) == 9
    config = find_config([str(parts / "part-*.en*"), str(parts / "part-*.de*")], [], ["train.steps=1"])
    assert sum(1 for _ in read_pairs(config.data.train[0])) == 5
    assert find_config([str(parts / "part-*.en")], [], ["train.steps=1"]).task.kind == "language-model"
    for number in range(2):
        (parts / f"{number}.jsonl").write_text('{"text": "a b c"}\n' * 3)
    config = find_config([str(parts / f"{number}.jsonl") for number in range(2)], [], ["train.steps=1"])
    assert config.task.kind == "language-model" and len(config.data.train) == 2


def test_a_check_names_the_file_and_line(parts: Path) -> None:
    (parts / "part-2.en").write_text(" \n")
    found = check(parts / "part-*.en*", parts / "part-*.de*")
    wrong = [each for each in found.train if "blank-side" in each.lint.counts]
    assert len(found.train) == 3 and len(wrong) == 1
    assert wrong[0].lint.findings[0].line == 1 and wrong[0].corpus.source == parts / "part-2.en"

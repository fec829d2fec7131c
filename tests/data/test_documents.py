"""Documents: how texts are cut, what is held out, and prepared folders that may be anyone's."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.document_stream import DocumentStream, open_or_prepare_documents
from regard.data.documents import Cut, TextDocument, parse_document, read_documents
from regard.data.reading import CorpusConfig, parse_json_pair
from regard.data.stream import TextConfig, read_text_lines
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, TokenizerConfig
from regard.errors import DataError
from tests.data.earlier_heads import write_earlier_head

BYTES = train_tokenizer([], TokenizerConfig(kind="byte"))


def cut_text(folder: Path, text: str, cut: Cut, name: str = "text.txt") -> list[str]:
    (folder / name).write_bytes(text.encode())
    return [document.text for document in read_documents(TextConfig(source=folder / name), cut)]


@pytest.mark.parametrize(
    ("cut", "text", "documents"),
    [
        (Cut("file"), "a\r\n\nb", ["a\r\n\nb"]),
        (Cut("line"), "a\r\nb b\n\n  \nc", ["a", "b b", "c"]),
        (Cut("blank-line"), "\n\na\nb\n \n\nc\n", ["a\nb", "c"]),
        (Cut("separator", "<|end|>"), "a\n\nb\n<|end|>\nc <|end|>\n<|end|>\n", ["a\n\nb", "c <|end|>"]),
        (Cut("json-line"), '{"text": "a\\nb", "x": 1}\n\n{"text": " "}\n{"text": "é🙂"}', ["a\nb", "é🙂"]),
    ],
    ids=lambda value: value.kind if isinstance(value, Cut) else "",
)
def test_a_text_is_cut_into_documents(tmp_path: Path, cut: Cut, text: str, documents: list[str]) -> None:
    assert cut_text(tmp_path, text, cut) == documents


def test_json_lines_are_known_by_their_name_and_a_folder_holds_texts(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.jsonl.gz").write_bytes(gzip.compress(b'{"text": "1"}\n{"text": "2"}\n'))
    (tmp_path / "a.txt").write_text("x\ny\n")
    (tmp_path / ".hidden.txt").write_text("no\n")
    (tmp_path / "picture.png").write_bytes(b"\xff")
    found = [document.text for document in read_documents(TextConfig(source=tmp_path), Cut("file"))]
    assert found == ["x\ny\n", "1", "2"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no text files"):
        list(read_documents(TextConfig(source=tmp_path / "empty"), Cut("file")))
    (tmp_path / "empty" / "Song 1.MID").write_bytes(b"MThd")
    with pytest.raises(DataError, match="no text files") as caught:
        list(read_documents(TextConfig(source=tmp_path / "empty"), Cut("file")))
    assert caught.value.help == f"regard data notes {tmp_path / 'empty'} -o music.jsonl"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"), ("[1]", "not a JSON object"), ('{"prompt": "a"}', '"completion"'), ("{}", '"prompt"'),
        ('{"text": 1}', "not a string"), ('{"text": "\\ud800"}', "surrogate"), ("[" * 10_000, "not JSON"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_document_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse_document(line, where="x.jsonl:7")
    assert caught.value.where == "x.jsonl:7"


@pytest.mark.parametrize("names", [("prompt", "completion"), ("response", "id", "instruction")])
def test_rows_of_a_table_are_prompts_and_what_completes_them(tmp_path: Path, names: tuple[str, ...]) -> None:
    row = ["second" if name in ("completion", "response") else "first" for name in names]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(row) + "\n")
    (found,) = read_documents(TextConfig(source=tmp_path / "a.csv"), Cut("auto"))
    assert found == TextDocument("first", "second")


def test_shares_are_whole_documents_and_no_content_is_in_two(tmp_path: Path) -> None:
    every = [f"document {number % 37}" for number in range(100)]
    (tmp_path / "text.txt").write_text("\n".join(every))
    parts = [
        [each.text for each in read_documents(TextConfig(source=tmp_path / "text.txt", share=share), Cut("line"))]
        for share in ((0.0, 0.8), (0.8, 1.0))
    ]
    assert sorted(parts[0] + parts[1]) == sorted(every) and not set(parts[0]) & set(parts[1])
    assert len(set(parts[1])) == 37 - round(0.8 * 37)
    (tmp_path / "text.txt").write_text("\n".join(reversed(every)))
    again = read_documents(TextConfig(source=tmp_path / "text.txt", share=(0.8, 1.0)), Cut("line"))
    assert {each.text for each in again} == set(parts[1]), "the order of the file changes nothing"


def prepared(folder: Path, **more: Any) -> DocumentStream:
    rows = [{"text": "ab"}, {"prompt": "é?", "completion": "🙂"}]
    (folder / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = TextConfig(source=folder / "text.jsonl")
    return open_or_prepare_documents(text, Cut("auto"), BYTES, folder / "prepared", **more)


def test_documents_on_disk_are_begin_tokens_end_and_bytes_are_raw(tmp_path: Path) -> None:
    stream = prepared(tmp_path)
    one, two = (stream.tokens[a:b].tolist() for a, b in zip(stream.offsets[:-1], stream.offsets[1:], strict=True))
    assert one == [BEGIN, *BYTES.encode("ab"), END] and two == [BEGIN, *BYTES.encode("é?🙂"), END]
    assert stream.prompts.tolist() == [0, 3] and stream.sizes.tolist() == [3, 8]
    assert (stream.bytes, stream.characters) == (2 + 4, 2 + 1), "of what is predicted, in bytes of UTF-8"
    assert stream.digests() == {TextDocument("", "ab").digest, TextDocument("é?", "🙂").digest}


def test_an_empty_share_of_equal_documents_is_explained(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text((json.dumps({"text": "ab"}) + "\n") * 9)
    text = TextConfig(source=tmp_path / "text.jsonl", share=(0.0, 0.4))
    with pytest.raises(DataError, match="no documents") as caught:
        open_or_prepare_documents(text, Cut("auto"), BYTES, tmp_path / "prepared")
    assert "equal documents are in one share" in str(caught.value.why)


def test_unknown_tokens_of_prompts_are_not_counted(tmp_path: Path) -> None:
    letters = train_tokenizer(["ab"], TokenizerConfig(kind="character"))
    rows = [{"prompt": "xax", "completion": "xb"}, {"text": "aaxx"}, {"prompt": "x", "completion": "a"}]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = TextConfig(source=tmp_path / "text.jsonl")
    assert open_or_prepare_documents(text, Cut("auto"), letters, tmp_path / "prepared").unknown() == 3


def test_prepared_documents_are_opened_again_and_made_anew_where_they_differ(tmp_path: Path) -> None:
    stream = prepared(tmp_path)
    again = DocumentStream.open(tmp_path / "prepared")
    assert (again.content, again.fingerprint) == (stream.content, stream.fingerprint)
    (tmp_path / "prepared" / "tokens").write_bytes(b"\xff" * 2 * len(stream))
    assert prepared(tmp_path).tokens.max() < len(BYTES), "made anew"
    with pytest.raises(DataError, match="changed since this run started"):
        (tmp_path / "prepared" / "documents.json").unlink()
        prepared(tmp_path, content="0" * 64)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "O"}, {"tokens": 1 << 59}, {"tokens": -1}, {"version": 2}, {"documents": 1 << 59}, {"documents": 1},
        {"documents": 0}, {"bytes": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_received_head_is_not_trusted(tmp_path: Path, change: dict[str, Any]) -> None:
    prepared(tmp_path)
    path = tmp_path / "prepared" / "documents.json"
    write_earlier_head(path, **change)
    with pytest.raises(DataError):
        DocumentStream.open(path.parent)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("offsets", [0, 13, 13]), ("offsets", [1, 4, 13]), ("offsets", [0, 4, 12]), ("offsets", [0, 99, 13]),
        ("offsets", [0, -4, 13]), ("offsets", [0, 12, 13]), ("offsets", [0, 13]), ("prompts", [3, 3]),
        ("offsets", [0, (1 << 63) - 1, -2, 13]),
        ("prompts", [0, 8]), ("prompts", [0, -1]), ("prompts", [0]),
    ],
)  # fmt: skip
def test_received_numbers_are_not_trusted(tmp_path: Path, name: str, numbers: list[int]) -> None:
    prepared(tmp_path)
    path = tmp_path / "prepared" / "documents.json"
    (path.parent / name).write_bytes(np.array(numbers, "<i8").tobytes())
    if len(numbers) == 4:  # one document more
        write_earlier_head(path, documents=3)
        (path.parent / "prompts").write_bytes(bytes(24))
        (path.parent / "digests").write_bytes(bytes(48))
    with pytest.raises(DataError, match="damaged"):
        DocumentStream.open(tmp_path / "prepared")


@pytest.mark.parametrize(("name", "numbers"), [("offsets", [0, 2, 13]), ("offsets", [0, 11, 13]), ("prompts", [2, 7])])
def test_the_least_documents_and_the_longest_prompts_that_can_be(tmp_path: Path, name: str, numbers: list[int]) -> None:
    """A document of BEGIN and one token; a prompt that leaves one token to predict."""
    prepared(tmp_path)
    path = tmp_path / "prepared"
    if name == "offsets":
        (path / "prompts").write_bytes(bytes(16))
    (path / name).write_bytes(np.array(numbers, "<i8").tobytes())
    assert getattr(DocumentStream.open(path), name).tolist() == numbers


@pytest.mark.parametrize("kind", ["file", "line"])
@pytest.mark.parametrize("name", ["pipe.txt", "n" * 300 + ".txt", "damaged.txt.gz"])
def test_what_cannot_be_read_is_an_error_and_never_waited_for(tmp_path: Path, name: str, kind: Any) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    whole = gzip.compress(b"the cat sat on the mat\n" * 99)
    (tmp_path / "damaged.txt.gz").write_bytes(whole[:12] + b"\xff" * 20 + whole[32:])
    with pytest.raises(DataError):
        list(read_documents(TextConfig(source=tmp_path / name), Cut(kind)))
    with pytest.raises(DataError):
        list(read_text_lines(TextConfig(source=tmp_path / name)))


def test_a_path_of_a_text_is_a_name() -> None:
    with pytest.raises(ValueError, match="null character"):
        TextConfig(source=Path("a\0b"))


def test_keys_are_told_in_few_signs_that_can_be_printed() -> None:
    for line in ('{"\\ud800": 1}', json.dumps({"k" * 10**5: 1}), json.dumps(dict.fromkeys(map(str, range(10**5))))):
        with pytest.raises(DataError) as caught:
            parse_document(line, where="x")
        with pytest.raises(DataError) as paired:
            parse_json_pair(line, CorpusConfig(source=Path("x")), where="x")
        assert all(len(str(each.value).encode()) < 1000 for each in (caught, paired))

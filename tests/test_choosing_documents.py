"""Language models for documents, without a recipe: JSON lines, folders, whole documents held out; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.documents import read_documents
from regard.data.packs import PackExamples
from regard.data.tokenizers.catalog import train_tokenizer
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.check import check
from regard.tasks.find_config import find_config
from regard.tasks.language_model.task import TASK
from regard.tasks.translation.config import TranslationConfig

SMALL = {"layers": 1, "width": 8, "heads": 1, "feed_forward": 8}


def json_lines(path: Path, number: int, **more: str) -> Path:
    rows = [{"prompt": f"what is {n % 25}? ", "completion": f"it is {n % 25}"} | more for n in range(number)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def prepared(config: Any, folder: Path) -> tuple[Any, list[str]]:
    said: list[str] = []
    return TASK.prepare(RunFolder.create(folder, config), said.append, None), said


def test_json_lines_train_a_language_model_and_whole_documents_are_held_out(tmp_path: Path) -> None:
    """25 different documents, each four times: two are held out, with all their copies."""
    told: list[str] = []
    path = json_lines(tmp_path / "chat.jsonl", 100)
    config: Any = find_config([str(path)], [], ["train.steps=1", "train.baseline=false"], log=told.append)
    assert config.data.documents == "json-line" and config.task.kind == "language-model"
    assert "25 different documents" in told[0] and told[1].startswith("validation: 2 documents, ")
    data, said = prepared(config, tmp_path / "run")
    train, valid = data.train, data.valid
    assert isinstance(train, PackExamples) and isinstance(valid, PackExamples)
    assert (train.streams[0].documents, valid.streams[0].documents) == (92, 8)
    assert not train.streams[0].digests() & valid.streams[0].digests()
    assert any("packed 92 documents into" in line and "% padding" in line for line in said)
    assert not any("warning" in line for line in said)


def test_the_reason_counts_in_words_that_fit_the_number(tmp_path: Path) -> None:
    told: list[str] = []
    for number in (1, 10):
        path, given = json_lines(tmp_path / f"{number}.jsonl", number), ["train.steps=1", "train.baseline=false"]
        find_config([str(path)], [], given, log=told.append)
    assert told[0].startswith("1 different document →") and "--valid-file" in told[1]
    assert told[2] == "columns read: prompt (prompt), completion (completion)"
    assert told[3].startswith("10 different documents →") and "validation: 1 document, " in told[4]


def test_characters_and_different_ones_are_told_apart(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "book.txt").write_text("abc\n" * 20)
    find_config([str(tmp_path / "book.txt")], [], ["train.steps=1"], log=told.append)
    assert "(80 characters, character tokenizer of 4 pieces, preset `tiny`)" in told[0] and "--valid-file" in told[1]


def test_pairs_of_a_translation_are_what_they_were(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    for row in ({"source": "a", "target": "b"}, {"source": "a", "target": "b", "text": "c"}):
        path.write_text((json.dumps(row) + "\n") * 3)
        assert TranslationConfig.propose([path], [], {}) is not None
    json_lines(path, 3)
    assert TranslationConfig.propose([path], [], {}) is None
    found = check(path)
    assert found.trainable and not found.train, "no lint of pairs"


def test_the_files_of_a_folder_are_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    for number in range(12):
        Path("texts", f"{number}.txt").write_text(f"text number {number}\n")
    config: Any = find_config(["texts"], [], ["train.steps=1"])
    assert config.data.documents == "file"
    data, _ = prepared(config, tmp_path / "run")
    assert (data.train.streams[0].documents, data.valid.streams[0].documents) == (11, 1)
    Path("texts", "config.toml").write_text("")
    with pytest.raises(ConfigError, match="unknown recipe"):
        find_config(["texts"], [], [])


@pytest.mark.parametrize("labels", [("pos", "neg"), ("all",)])
def test_folders_that_may_be_labels_are_not_lost_without_a_word(tmp_path: Path, labels: tuple[str, ...]) -> None:
    for number in range(12):
        folder = tmp_path / "texts" / labels[number % len(labels)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(f"text number {number}\n")
    said: list[str] = []
    find_config([str(tmp_path / "texts")], [], ["train.steps=1"], log=said.append)
    assert any("(neg, pos) are not used as labels" in line for line in said) == (len(labels) > 1)
    assert "translation" not in said[0], "two folders make no translation model"


def test_documents_in_both_parts_are_told_with_their_number(tmp_path: Path) -> None:
    train, valid = json_lines(tmp_path / "a.jsonl", 20), json_lines(tmp_path / "b.jsonl", 7)
    with valid.open("a") as file:
        file.write('{"text": "it is new"}\n')
    tables = {"data": {"train": [{"source": str(train)}], "valid": [{"source": str(valid)}], "context": 32}}
    _, said = prepared(load_config({"task": "language-model", "model": SMALL} | tables), tmp_path / "run")
    assert "warning: 7 of 8 validation documents also in the training data" in said


def language_model(**data: Any) -> Any:
    tables = {"train": [{"source": "x.txt"}], "context": 16} | data
    return load_config({"task": "language-model", "data": tables, "model": SMALL})


@pytest.mark.parametrize(
    "data",
    [{"documents": "separator"}, {"separator": "--"}, {"stride": 17}, {"stride": 0}, {"documents": "word"}],
    ids=str,
)
def test_what_cannot_be_cut_so_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        language_model(**data)


@pytest.mark.parametrize("mixer", ["ssru", "average", "location"])
def test_a_mixer_that_cannot_keep_documents_apart_is_refused_before_training(mixer: str) -> None:
    config = load_config({
        "task": "language-model", "data": {"train": [{"source": "x.txt"}], "documents": "line"},
        "model": SMALL | {"mixer": mixer, "position": "sinusoidal"},
    })  # fmt: skip
    with pytest.raises(ConfigError, match="cannot read packed documents") as caught:
        TASK.build(config, {"types": 8})
    assert caught.value.where == "model.decoder.mixer.kind"


def test_runs_of_before_read_a_text_as_one_stream_whatever_its_name() -> None:
    tables = {"task": "language-model", "data": {"train": [{"source": "x.jsonl"}]}}
    old, new = load_config(tables, saved=True), load_config(tables)
    assert not old.data.packed(old.data.train) and new.data.packed(new.data.train)
    assert load_config(new.model_dump(mode="json", exclude_none=True), saved=True) == new


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [("a.txt", "the cat sat on the mat\n" * 40, "line"), ("a.jsonl", '{"text": "the cat sat"}\n' * 40, "json-line")],
)
def test_a_named_masked_model_is_chosen_for_texts(tmp_path: Path, name: str, content: str, kind: str) -> None:
    path, told = tmp_path / name, list[str]()
    path.write_text(content)
    config: Any = find_config([str(path)], [], ["task=masked"], log=told.append)
    assert (config.task.kind, config.data.documents, config.data.context) == ("masked", kind, 64)
    assert config.train.schedule == "linear" and config.data.tokenizer.kind == "word" and config.data.valid
    assert told[0].startswith("text → masked model of words (") and "held out" not in told[0]
    assert find_config([str(path)], [], []).task.kind == "language-model", "unless it is named"
    given: Any = find_config([str(path)], [path], ["task=masked", "train.steps=3"])
    assert given.data.valid[0].share == (0.0, 1.0) and given.train.epochs is None


@pytest.mark.parametrize(("words", "size"), [(9_000, None), (12_000, 8_000)])
def test_the_vocabulary_of_a_masked_model_fits_the_text(tmp_path: Path, words: int, size: int | None) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"w{number} w{number + 1} w{number + 2}\n" for number in range(words - 2)))
    config: Any = find_config([str(path)], [], ["task=masked"])
    assert config.data.tokenizer.size == size
    documents = (document for text in config.data.train for document in read_documents(text, config.data.cut))
    made = train_tokenizer((document.text for document in documents), config.data.tokenizer)
    assert len(made) == size or (size is None and len(made) > 8_000)

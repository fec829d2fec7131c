"""The program's own split: it never stops a training, and no label is held out alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import cli
from regard.core.task_table import locate
from regard.data.shared_files import falls_into, hash_position
from regard.errors import DataError
from regard.runs.run_folder import RunFolder
from regard.tasks.find_config import find_config
from regard.tasks.split import read_part, split_shares


@given(st.sets(st.text(max_size=3), max_size=260))
def test_neither_share_is_empty_and_every_example_is_in_one(keys: set[str]) -> None:
    shares = split_shares(sorted(keys))
    if len(keys) < 2:
        assert shares is None
        return
    assert shares is not None
    parts = {name: {key for key in keys if falls_into(key, (low, high))} for name, (low, high) in shares.items()}
    assert parts["train"] and parts["valid"]
    assert not parts["train"] & parts["valid"] and parts["train"] | parts["valid"] == keys
    usual = {name: [key for key in keys if bounds[0] <= hash_position(key) < bounds[1]]
             for name, bounds in {"train": (0, 0.9), "valid": (0.9, 1)}.items()}  # fmt: skip
    if usual["train"] and usual["valid"]:
        assert shares == {"train": [0.0, 0.9], "valid": [0.9, 1.0]}, "the border of earlier runs"


class Example(NamedTuple):
    text: str
    label: str


class Files(NamedTuple):
    source: str
    share: tuple[float, float] = (0.0, 1.0)


class Data(NamedTuple):
    train: tuple[Files, ...]
    valid: tuple[Files, ...]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("xyzw")), max_size=40))
def test_no_label_is_held_out_alone_and_equal_examples_stay_together(pairs: list[tuple[str, str]]) -> None:
    examples = [Example(*pair) for pair in pairs]
    data = Data((Files("a", (0.0, 0.5)),), (Files("a", (0.5, 1.0)),))

    def read(corpora: Sequence[Any]) -> list[Example]:
        return [each for corpus in corpora for each in examples if falls_into(each.text, corpus.share)]

    def part(name: str) -> list[Example]:
        return read_part(data, name, read, key=lambda each: each.text, labels=lambda each: (each.label,))

    train, valid = part("train"), part("valid")
    assert Counter(train) + Counter(valid) == Counter(examples), "each once"
    assert {each.label for each in valid} <= {each.label for each in train}
    assert not {each.text for each in train} & {each.text for each in valid}
    apart = Data((Files("a"),), (Files("b", (0.5, 1.0)),))
    assert read_part(apart, "valid", read, key=lambda each: each.text, labels=lambda each: (each.label,)) == read(
        apart.valid
    ), "files of the user are left as they are"


def prepared(tmp_path: Path, name: str, content: str, *sets: str) -> tuple[Any, list[str]]:
    (tmp_path / name).write_text(content)
    said: list[str] = []
    config = find_config([str(tmp_path / name)], [], sets, log=said.append)
    run = RunFolder.create(tmp_path / f"run-{name}", config)
    data = locate(config.task.kind).task().prepare(run, said.append)
    assert len(data.train) and (data.valid is None or len(data.valid))
    assert config.data.valid or config.train.early_stopping is None, "early stopping needs validation"
    return data, said


WORDS = [f"word{n}" for n in range(60)]
COMMON = [f"it is fine {n}" for n in range(60)]
HELD_OUT = [text for text in (f"rare {n}" for n in range(99)) if hash_position(text) >= 0.9][:3]


def test_a_rare_label_of_the_held_out_part_goes_to_training(tmp_path: Path) -> None:
    rows = [f"{text},{'ab'[n % 2]}" for n, text in enumerate(COMMON)]
    rows += [f"{text},rare{n}" for n, text in enumerate(HELD_OUT)]
    data, said = prepared(tmp_path, "labels.csv", "text,label\n" + "\n".join(rows) + "\n")
    assert {"rare0", "rare1", "rare2"} <= {*data.codecs.answer.class_names}
    assert "3 held-out examples moved to training: their labels occur nowhere else" in said


def test_a_rare_tag_goes_to_training(tmp_path: Path) -> None:
    held = [word for word in (f"r{n}" for n in range(99)) if hash_position(word) >= 0.9][:2]
    tags = "".join(f"{word}\tNOUN\n\n" for word in WORDS) + "".join(f"{word}\tX{n}\n\n" for n, word in enumerate(held))
    data, said = prepared(tmp_path, "tags.tsv", tags + "\nthe\tDET\n")
    assert {"X0", "X1", "DET"} <= {*data.codecs.answer.class_names}
    assert any("2 held-out examples moved to training" in line for line in said)


EQUAL = {
    "same.conllu": "1\tit\tit\tPRON\t_\n2\truns\trun\tVERB\t_\n\n" * 30,
    "same.csv": "tokens,tags\n" + "it runs,X Y\n" * 30,
    "same.jsonl": '{"items": ["a", "b", "c"]}\n' * 30,
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_examples_are_trained_on_without_validation(tmp_path: Path, name: str) -> None:
    data, said = prepared(tmp_path, name, EQUAL[name])
    assert data.valid is None and any("are equal (--valid-file" in line for line in said)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("two.csv", "text,label\na film,good\nanother film,bad\n"),
        ("three.csv", "text,label\na,x\nb,y\nc,z\n"),
        ("two.conllu", "1\tit\tit\tPRON\t_\n\n1\truns\trun\tVERB\t_\n\n"),
        ("two.jsonl", '{"items": ["a", "b", "c"]}\n{"items": ["c", "b"]}\n'),
        ("graphs.jsonl", '{"edges": [[0, 1]], "label": "x"}\n{"edges": [[0, 1], [1, 2]], "label": "y"}\n'),
        ("several.csv", 'text,labels\nit is fine 0,a\nit is dull,b\nit is fine 2,"a, b"\n'),
    ],
)
def test_one_example_of_each_class_is_enough_to_begin(tmp_path: Path, name: str, content: str) -> None:
    sets = ["data.label_kind=several", "data.text=text", "data.label=labels"] if name == "several.csv" else []
    prepared(tmp_path, name, content, *sets)


def test_training_continues_where_nothing_is_left_to_validate_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one example that is held out has a label of its own."""
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text("text,label\na film,good\nanother film,bad\n")
    assert cli.run(["train", "two.csv", "--set", "train.epochs=3", "--set", "train.early_stopping=2"]) == 0
    assert "no validation: no held-out example is left" in capsys.readouterr().err
    assert cli.run(["classify", "runs/two", "two.csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_labels_of_files_that_the_user_names_must_be_known(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "a,x\nb,y\n" * 20)
    (tmp_path / "v.csv").write_text("text,label\na,z\n")
    config = find_config([str(tmp_path / "a.csv")], [tmp_path / "v.csv"], ["train.steps=1"])
    run = RunFolder.create(tmp_path / "run", config)
    with pytest.raises(DataError, match="label 'z' is unknown"):
        locate("classification").task().prepare(run, lambda line: None)

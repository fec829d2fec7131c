"""``regard.train`` on what a program holds: each form becomes the file that it stands for, once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.config.toml_layers import parse_override
from regard.core import atomic_files
from regard.errors import ConfigError, DataError
from regard.functions.training import _in_run_folder, overrides_of
from regard.runs.run_folder import RunFolder
from regard.tasks.in_memory import write_data

SHORT = {"steps": 2, "threads": 1, "workers": 1}
TEXTS = [f"{word} a film {number}" for number in range(20) for word in ("fine", "dull")]
LABELS = ["good", "bad"] * 20
SOURCES = [" ".join(random.Random(number).choices("abcdef", k=4)) for number in range(40)]
TARGETS = [source[::-1].upper() for source in SOURCES]


def config_of(*what: Any, folder: Path, **settings: Any) -> Any:
    return RunFolder.open(regard.train(*what, folder=folder, train=SHORT, **settings)).config


def test_pairs_of_texts_have_labels_or_translations(tmp_path: Path) -> None:
    for number, (what, task) in enumerate({
        "classification": [(TEXTS, LABELS), ([*zip(TEXTS, LABELS, strict=True)],), ({"text": TEXTS, "label": LABELS},)],
        "translation": [(SOURCES, TARGETS), ([*zip(SOURCES, TARGETS, strict=True)],)],
    }.items()):  # fmt: skip
        for form, values in enumerate(task):
            assert config_of(*values, folder=tmp_path / f"{number}-{form}").task.kind == what


def test_a_task_decides_what_pairs_are(tmp_path: Path) -> None:
    (file,) = write_data([SOURCES, TARGETS], tmp_path, "train", "classification")
    assert file.read_text().startswith('{"text": ')
    for task in ("links", "nodes"):
        with pytest.raises(DataError, match="pairs are not a graph"):
            write_data([[(1, 2), (2, 3)]], tmp_path, "train", task)


def test_lists_of_tokens_have_tags(tmp_path: Path) -> None:
    sentences = [["the", "dog", f"sees{number}"] for number in range(30)]
    tags = [["DET", "NOUN", "VERB"]] * 30
    assert config_of(sentences, tags, folder=tmp_path / "run").task.kind == "tagging"


def test_texts_are_a_language_model(tmp_path: Path) -> None:
    texts = [f"to be or not to be, that is question {number}" for number in range(200)]
    assert config_of(texts, folder=tmp_path / "run", data={"context": 16}).task.kind == "language-model"
    (file,) = write_data([["a\nb", "c"]], tmp_path, "train")
    assert file.read_text().splitlines() == ['{"text": "a\\nb"}', '{"text": "c"}']


def test_arrays_with_labels_are_images_or_series(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    labels = np.array([0, 1] * 20)
    images = draws.integers(0, 255, (40, 4, 4), dtype=np.uint8)
    config = config_of(images, labels, folder=tmp_path / "images")
    assert (config.task.kind, config.data.input) == ("classification", "images")
    config = config_of(draws.normal(size=(40, 12)), labels, folder=tmp_path / "series")
    assert (config.task.kind, config.data.input) == ("classification", "frames")


def test_numbers_in_time_are_a_forecast(tmp_path: Path) -> None:
    values = np.sin(np.arange(400) / 5)
    short = {"look_back": 16, "horizon": 4}
    assert config_of(values, folder=tmp_path / "array", data=short).task.kind == "forecasting"
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sine": values}, index=pandas.date_range("2024-01-01", periods=400, freq="h"))
    assert config_of(frame, folder=tmp_path / "frame", data=short).task.kind == "forecasting"
    assert (tmp_path / "frame" / "inputs" / "train.csv").read_text().startswith("date,sine\n2024-01-01 00:00:00,0.0\n")


def test_two_tables_are_a_graph(tmp_path: Path) -> None:
    draws = random.Random(0)
    nodes = {"node": [f"n{n}" for n in range(40)], "size": [0.5, 2.0] * 20, "label": ["a", "b"] * 20}
    edges = {"source": [f"n{draws.randrange(40)}" for _ in range(80)], "target": [f"n{n % 40}" for n in range(80)]}
    assert config_of(nodes, edges, folder=tmp_path / "run").task.kind == "nodes"


def test_validation_data_have_the_same_forms(tmp_path: Path) -> None:
    config = config_of(TEXTS, LABELS, folder=tmp_path / "run", valid=(TEXTS[:4], LABELS[:4]))
    assert [corpus.source.name for corpus in config.data.valid] == ["valid.jsonl"]


def test_the_same_data_resume_a_run_and_others_are_refused(tmp_path: Path) -> None:
    first = regard.train(TEXTS, LABELS, name="first", runs=tmp_path, train=SHORT)
    assert first == tmp_path / "first"
    written = (first / "inputs" / "train.jsonl").stat().st_mtime_ns
    assert regard.train(TEXTS, LABELS, name="first", runs=tmp_path, train=SHORT) == first
    assert (first / "inputs" / "train.jsonl").stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match="has other data"):
        regard.train(TEXTS[2:], LABELS[2:], name="first", runs=tmp_path, train=SHORT)
    with pytest.raises(ConfigError, match="has another config"):
        regard.train(TEXTS, LABELS, name="first", runs=tmp_path, train=SHORT | {"steps": 3})


def test_a_run_without_a_name_gets_a_new_one(tmp_path: Path) -> None:
    folders = [regard.train(TEXTS, LABELS, runs=tmp_path, train=SHORT).name for _ in range(2)]
    assert folders == ["run", "run-2"]


def test_refused_data_leave_no_folder(tmp_path: Path) -> None:
    for what, message in (
        (([],), "cannot train on list"),
        ((3,), "cannot train on int"),
        ((TEXTS, LABELS[1:]), "do not belong together"),
        ((TEXTS, LABELS, LABELS), "cannot train on list, list, list"),
    ):
        with pytest.raises(DataError, match=message):
            regard.train(*what, name="run", runs=tmp_path)
    with pytest.raises(ConfigError, match="cannot be mixed"):
        regard.train("a.txt", TEXTS, name="run", runs=tmp_path)
    with pytest.raises(ConfigError):
        regard.train(TEXTS, LABELS, name="run", runs=tmp_path, train={"stepps": 3})
    assert not (tmp_path / "run").exists()


def test_files_and_the_other_ways_to_train(tmp_path: Path) -> None:
    (tmp_path / "reviews.tsv").write_text("".join(f"{t}\t{b}\n" for t, b in zip(TEXTS, LABELS, strict=True)))
    run = regard.train(tmp_path / "reviews.tsv", runs=tmp_path / "runs", train=SHORT)
    assert run == tmp_path / "runs" / "reviews" and regard.train(resume=run) == run
    longer = regard.train(continue_=run, runs=tmp_path / "runs", train={"steps": 4})
    assert longer.name == "reviews-continued"
    again = regard.train(run / "config.toml", runs=tmp_path / "runs")
    assert again.name == "reviews-2", "a config has the name of its run, as on the command line"
    config = RunFolder.open(run).config
    assert regard.train(config, tmp_path / "same") == tmp_path / "same"
    with pytest.raises(ConfigError, match="resume cannot be combined"):
        regard.train(resume=run, train={"steps": 9})
    with pytest.raises(ConfigError, match="trained in one run folder"):
        regard.train(config)


def test_a_model_can_be_chosen_for_a_format(tmp_path: Path) -> None:
    run = regard.train(TEXTS, LABELS, folder=tmp_path / "run", for_="onnx", train=SHORT)
    assert regard.export(run, tmp_path / "exported", to="onnx").address is None
    with pytest.raises(ConfigError, match="resume cannot be combined"):
        regard.train(resume=run, for_="onnx")


def test_settings_may_be_any_text_or_number_of_numpy() -> None:
    settings = {"name": "\U0001f600 é", "train": {"epochs": np.int64(3), "minutes": None}, "data.text": ["a", "b"]}
    parsed = dict(map(parse_override, overrides_of(settings)))
    assert parsed == {
        ("name",): "\U0001f600 é", ("train", "epochs"): 3, ("train", "minutes"): None, ("data", "text"): ["a", "b"],
    }  # fmt: skip


def test_data_that_another_rank_writes_at_the_same_time_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other rank publishes the same files, or other ones, just before this one does."""
    publish = atomic_files.publishing
    for texts, agrees in ((TEXTS, True), (TEXTS[::-1], False)):
        folder = tmp_path / str(agrees)

        @contextmanager
        def later(path: Path, texts: list[str] = texts) -> Iterator[Path]:
            path.mkdir()
            write_data([texts, LABELS], path, "train")
            with publish(path) as hidden:
                yield hidden

        monkeypatch.setattr(atomic_files, "publishing", later)
        if agrees:
            assert _in_run_folder({"train": [TEXTS, LABELS]}, folder, None)["train"]
        else:
            with pytest.raises(ConfigError, match="has other data"):
                _in_run_folder({"train": [TEXTS, LABELS]}, folder, None)


def test_arrays_resume_a_run(tmp_path: Path) -> None:
    series, labels = np.random.default_rng(0).normal(size=(40, 6)), [0, 1] * 20
    runs = [regard.train(series, labels, name="run", runs=tmp_path, train=SHORT) for _ in range(2)]
    assert runs[0] == runs[1]


RECURSIVE: list[Any] = []
RECURSIVE.append(RECURSIVE)
IMAGES = np.zeros((2, 4, 4), dtype=np.uint8)
UNWRITABLE: dict[str, list[Any]] = {
    "recursive": [{"text": [RECURSIVE, "a"], "label": ["x", "y"]}],
    "recursive pair": [[("a", RECURSIVE)] * 3],
    "half a surrogate pair": [["a\ud800b", "c"]],
    "a name with half a surrogate pair": [{"a\ud800": [1, 2], "b": [1, 2]}],
    "a number of many digits": [{"a": [10**5000, 1], "b": ["x", "y"]}],
    "no dimension": [np.array(3.0)],
    "a column without a dimension": [{"a": np.array(3), "b": np.zeros(3)}],
    "objects in an array": [{"a": np.array([RECURSIVE, 1, 2], dtype=object), "b": np.zeros((3, 2))}],
    "fields of objects": [{"a": np.array([({},), ({},)], dtype=[("x", object)]), "b": np.zeros((2, 2))}],
    "two numbers": [3, 4],
    "generators": [iter(TEXTS), iter(LABELS)],
    "labels of several lengths": [IMAGES, [[1], [1, 2]]],
    "no label": [IMAGES, ["a", None]],
    "endless numbers": [count()],
    "names that are equal as text": [{1: ["a", "b"], "1": ["c", "d"]}],
    "names of arrays that are equal as text": [{1: np.zeros((3, 2)), "1": np.zeros(3)}],
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_values_that_a_file_cannot_hold_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        write_data(UNWRITABLE[name], tmp_path, "train")


def test_an_array_may_have_any_name(tmp_path: Path) -> None:
    arrays = {"file": np.zeros((3, 2)), "allow_pickle": np.arange(3), "kwds": np.array(["a", "b", "c"], dtype=object)}
    (file,) = write_data([arrays], tmp_path, "train")
    with np.load(file) as saved:
        assert {name: saved[name].tolist() for name in saved} == {
            name: array.tolist() for name, array in arrays.items()
        }


@pytest.mark.parametrize("value", [object(), {1, 2}, [object()]])
def test_a_setting_without_a_form_in_a_config_is_named(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"train\.steps cannot be written"):
        list(overrides_of({"train": {"steps": value}}))


def test_a_wrong_row_of_data_in_memory_is_named_by_its_number(tmp_path: Path) -> None:
    table = {"text": [*TEXTS[:4], None], "label": LABELS[:5]}
    run = tmp_path / "run"
    for call in (
        lambda: regard.train(table, folder=tmp_path / "refused", train=SHORT),
        lambda: regard.cross_validate(table, folder=tmp_path / "folds", train=SHORT),
        lambda: regard.evaluate(regard.train(TEXTS, LABELS, task="classification", folder=run, train=SHORT), table),
    ):
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value.where).startswith("row 5 of the ") and str(tmp_path) not in str(caught.value)
    assert not (tmp_path / "refused").exists() and not (tmp_path / "folds").exists()

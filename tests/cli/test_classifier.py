"""A classifier on the command line: the figures of each class, and their picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from regard.commands.evaluate import _draw
from regard.core.figure import can_draw
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.config import load_config
from regard.tasks.evaluation import Evaluation
from regard.training.start import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that learned one rule, and its file: the label is the first word's kind."""
    folder = tmp_path_factory.mktemp("trained")
    lines = [f"{word} {rest}\t{label}\n" for word, label in (("fine", "good"), ("dull", "a label of many letters"))
             for rest in ("film", "a film", "it is", "is it", "one", "")]  # fmt: skip
    (folder / "film.tsv").write_text("".join(lines), encoding="utf-8")
    corpus = {"source": str(folder / "film.tsv")}
    config = load_config({
        "task": "classification", "data": {"train": [corpus], "valid": [corpus]},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.0},
        "train": {"steps": 40, "batch_tokens": 64, "learning_rate": 1e-2, "warmup": 1, "threads": 1},
    })  # fmt: skip
    return train(config, folder / "run"), folder / "film.tsv"


def test_evaluate_tells_each_class_and_draws(regard, trained: tuple[Path, Path], tmp_path: Path) -> None:
    told = regard("evaluate", *trained, "--draw", tmp_path / "drawn")
    assert re.search(
        r"class +precision +recall +f1 +examples\na label of many… +1\.0000 +1\.0000 +1\.0000 +6\n", told.stdout
    )
    assert re.search(r"label +a label of many… +good\na label of many… +6 +0\ngood +0 +6\n", told.stdout)
    found = json.loads(regard("evaluate", *trained, "--json").stdout)
    assert found["tables"]["confusion"] == {"names": ["a label of many letters", "good"], "counts": [[6, 0], [0, 6]]}
    assert found["tables"]["classes"][1] == {"class": "good", "precision": 1, "recall": 1, "f1": 1, "examples": 6}
    if can_draw():
        picture = (tmp_path / "drawn" / "figure.svg").read_text(encoding="utf-8")
        assert "predicted" in picture and "a label of many letters" in picture
        assert (tmp_path / "drawn" / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "perfect calibration" in (tmp_path / "drawn" / "calibration.svg").read_text(encoding="utf-8")


def test_the_calibration_has_the_examples_and_the_error_of_the_metrics(regard, trained: tuple[Path, Path]) -> None:
    evaluation = json.loads(regard("evaluate", *trained, "--json").stdout)
    rows, figures = evaluation["tables"]["calibration"], evaluation["figures"]
    count = sum(row["examples"] for row in rows)
    right = sum(row["examples"] * row["accuracy"] for row in rows)
    distance = sum(row["examples"] * abs(row["accuracy"] - row["confidence"]) for row in rows)
    assert count == 12 and right / count == pytest.approx(figures["accuracy"])
    assert distance / count == pytest.approx(figures["scaled_calibration_error"])


@pytest.mark.parametrize("engine", ["float32", "reference"])
def test_an_engine_classifies_the_same(regard, trained: tuple[Path, Path], engine: str) -> None:
    default = regard("classify", trained[0], input="fine film\n")
    assert regard("classify", trained[0], "--engine", engine, input="fine film\n").stdout == default.stdout != ""


def test_a_metric_of_other_labels_is_refused(regard, trained: tuple[Path, Path]) -> None:
    told = regard("evaluate", *trained, "--metric", "accuracy,rmse").exception
    assert isinstance(told, ConfigError)
    assert "rmse is not available" in told.what
    assert "accuracy, macro_f1" in str(told.why)


def test_a_number_a_row_cannot_be_drawn() -> None:
    found = Evaluation({}, {}, {}, {}, {}, 1, "best", 0.0, [])
    with pytest.raises(RegardError, match="no confusion matrix"):
        _draw(found, Path("unused"), "title", by_size=False)


def test_classify_abstains_and_says_what_it_is_for(regard, trained: tuple[Path, Path]) -> None:
    run, _ = trained
    certain = regard("classify", run, input="fine film\n").stdout
    assert certain.startswith("good\t")
    assert regard("classify", run, "--abstain-below", "1", input="fine film\n").stdout.startswith("?\t")
    assert json.loads(regard("classify", run, "--json", input="fine film\n").stdout)["label"] == "good"
    told = regard("classify", "--help").stdout
    assert "--abstain-below" in told and "--threshold" in told
    wrong = regard("tag", run, input="fine film\n").exception
    assert isinstance(wrong, RegardError) and "regard classify" in str(wrong.help)


def test_a_missing_file_gets_the_nearest_name(regard, trained: tuple[Path, Path]) -> None:
    told = regard("evaluate", trained[0], trained[1].with_name("filn.tsv")).exception
    assert isinstance(told, DataError)
    assert told.help == f"did you mean {trained[1]}?"

"""The rows of masked models: one for each hidden position, with the loss and the accuracy that evaluation prints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import regard as package
from regard.core.task import find_task
from regard.runs.run_folder import RunFolder
from regard.tasks.run_comparison import compare_runs
from tests.test_wide_masked import music

KINDS = ("tokens", "words", "music")
CASES = pytest.mark.parametrize("kind, wide", [(kind, wide) for kind in KINDS for wide in (False, True)])
TRAIN = {"steps": 3, "threads": 1, "precision": "float32", "learning_rate": 0.02}


class Evaluated(NamedTuple):
    """A run, its file, and its evaluation on this file."""

    run: Path
    file: Path
    evaluation: Any


def tables_of(kind: str, wide: bool, folder: Path) -> Any:
    tables = dict(music(folder) if kind == "music" else find_task("masked").sample(folder))
    if kind == "words":
        tables["masking"] = tables["masking"] | {"unit": "word"}
        tables["data"] = tables["data"] | {"tokenizer": {"kind": "bpe", "size": 40}, "context": 12}
    model = tables["model"] | {"wide": wide, "dropout": 0.0}
    return tables | {"task": "masked", "model": model, "train": tables["train"] | TRAIN}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Evaluated]:
    """Train and evaluate once for each kind."""

    @cache
    def trained(kind: str, wide: bool) -> Evaluated:
        folder = tmp_path_factory.mktemp(kind)
        tables = tables_of(kind, wide, folder)
        run, file = package.train(tables, folder / "run"), Path(tables["data"]["train"][0]["source"])
        return Evaluated(run, file, package.evaluate(run, file, outcomes=True))

    return trained


@CASES
def test_rows_give_the_printed_metrics(evaluated: Any, kind: str, wide: bool) -> None:
    evaluation = evaluated(kind, wide).evaluation
    rows, figures, groups = evaluation.outcomes.rows, evaluation.figures, evaluation.outcomes.groups
    assert len(rows) == evaluation.sums["tokens"] and evaluation.outcomes.unit == "documents"
    assert np.mean([row.loss for row in rows]) == pytest.approx(figures["loss"], rel=1e-5)
    assert np.mean([row.is_right for row in rows]) == pytest.approx(figures["accuracy"])
    assert len({(row.example, row.position) for row in rows}) == len(rows)
    assert sum(float(group["unigram_nll"]) for group in groups) / len(rows) == pytest.approx(figures["unigram_loss"])
    assert sum(int(group["correct"]) for group in groups) == sum(row.is_right for row in rows)


@CASES
def test_predictions_are_those_of_the_predictor(evaluated: Any, kind: str, wide: bool) -> None:
    """Each piece is read once more with its hidden positions as gaps."""
    run, _, evaluation = evaluated(kind, wide)
    filler: Any = package.load(run)
    opened = RunFolder.open(run)
    examples: Any = opened.task.prepare(opened, lambda message: None, None).valid
    rows = {(row.example, row.position): row for row in evaluation.outcomes.rows}
    for index in range(len(examples)):
        text, chosen = torch.from_numpy(examples.text(index)), torch.from_numpy(examples.chosen(index))
        log_p = filler.log_probabilities(torch.where(chosen, filler.mask, text)[None]).double()
        _, document, first = examples.place(index)
        for scores, place in zip(log_p, chosen.nonzero()[:, 0].tolist(), strict=True):
            row, target = rows.pop((document + 1, first + place - 1)), int(text[place])
            assert row.outcome.target == filler.tokenizer.pieces([target])[0]
            assert row.loss == pytest.approx(-float(scores[target]), abs=1e-3)
            assert row.outcome.probability == pytest.approx(float(scores.max().exp()), abs=1e-3)
            assert row.outcome.target_probability == pytest.approx(math.exp(-row.loss))
            assert filler.settings.blank in row.input and row.length == len(text) - 2
            assert row.where.endswith(f"document {document + 1}")
    assert not rows


def test_the_input_is_the_text_around_a_gap(tmp_path: Path) -> None:
    tables = tables_of("tokens", False, tmp_path)
    tables["data"] = tables["data"] | {"tokenizer": {"kind": "word"}}
    run = package.train(tables, tmp_path / "run")
    (tmp_path / "test.txt").write_text("the cat sat on the mat\n")
    found = package.evaluate(run, tmp_path / "test.txt", outcomes=True)
    assert found.outcomes is not None
    words = "the cat sat on the mat".split()
    hidden = {(row.position or 0) - 1 for row in found.outcomes.rows}
    shown = ["___" if place in hidden else word for place, word in enumerate(words)]
    assert [row.outcome.target for row in found.outcomes.rows] == [words[place] for place in sorted(hidden)]
    for row, place in zip(found.outcomes.rows, sorted(hidden), strict=True):
        expected = " ".join(shown[max(place - 5, 0) : place + 6])
        assert row.input.strip("…") == expected


@pytest.mark.parametrize("kind", ["tokens", "music"])
def test_the_command_compares_a_network_with_a_wide_model(regard: Any, evaluated: Any, kind: str) -> None:
    run, file, evaluation = evaluated(kind, True)
    other, _, others = evaluated(kind, False)
    comparison = compare_runs(RunFolder.open(run), evaluation.outcomes, RunFolder.open(other), [file])
    for name in ("loss", "accuracy"):
        difference = evaluation.figures[name] - others.figures[name]
        assert comparison.metrics.differences[name][0] == pytest.approx(difference, rel=1e-4, abs=1e-5)
    assert comparison.p is not None and comparison.values == 12 and not comparison.exact
    printed = regard("evaluate", run, file, "--errors", "--against", other, "--json", "--metric", "accuracy").stdout
    record = json.loads(printed)
    assert record["against"]["loss_p"] == comparison.loss_p and record["against"]["unit"] == "documents"
    assert record["errors"]["worst"][0]["loss"] == pytest.approx(max(row.loss for row in evaluation.outcomes.rows))

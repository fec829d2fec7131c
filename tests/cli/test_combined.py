"""A network trained alone and combined with its baseline: the weights are the best on the validation data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.baseline import FOLDER
from regard.core.combination import FILE, OutputWeights, open_weights
from regard.core.task import find_task
from regard.errors import ModelError
from regard.runs.metrics_log import read_validations
from regard.runs.network_comparison import read_comparison
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluate import evaluate
from regard.tasks.load import load
from regard.tasks.supervised_combination import _best, _Choice, _simplest
from regard.testing import TaskCase
from regard.training.start import train
from tests.cli.test_run_baseline import films

APART = ["model.wide=true", "model.wide_training=apart"]
Run = tuple[Path, Path]


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    return films(tmp_path_factory.mktemp("combined"), updates=6, more=[*APART, "train.lr=0.01"])


def with_weights(run: Path, folder: Path, weights: OutputWeights) -> Path:
    shutil.copytree(run, folder)
    (folder / FOLDER / FILE).write_text(json.dumps(weights._asdict()))
    return folder


@pytest.fixture(scope="module")
def mixed(combined: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same run with weights of which neither is 0 or 1."""
    run = with_weights(combined[0], tmp_path_factory.mktemp("mixed") / "run", OutputWeights(0.7, 0.4))
    return run, combined[1]


def test_the_weights_are_the_best_on_the_validation_data(combined: Any, tmp_path: Path) -> None:
    """A loss as low as that of the alternatives, and no lower one nearby."""
    run, file, _ = combined
    losses = json.loads((run / FOLDER / FILE).read_text())["losses"]
    assert losses["both"] <= min(losses["network"], losses["baseline"]) + 1e-5
    for number, weights in enumerate([OutputWeights(1.0, 0.0), OutputWeights(0.0, 1.0), OutputWeights(0.7, 0.4)]):
        other = with_weights(run, tmp_path / str(number), weights)
        assert evaluate(other, file).figures["loss"] >= losses["both"] - 1e-5


def test_the_first_loss_is_that_of_the_network_and_the_last_that_of_both(combined: Any, tmp_path: Path) -> None:
    run, file, lines = combined
    *_, before, last = read_validations(run / "metrics.jsonl")
    assert evaluate(run, file).figures["loss"] == pytest.approx(last.figures["loss"], abs=1e-6)
    compared = read_comparison(run)
    assert compared is not None and compared.metrics["loss"].network == pytest.approx(last.figures["loss"], abs=1e-6)
    alone = with_weights(run, tmp_path / "alone", OutputWeights(1.0, 0.0))
    assert evaluate(alone, file).figures["loss"] == pytest.approx(before.figures["loss"], abs=1e-6)
    weights = open_weights(RunFolder.open(run))
    assert (
        f"output: {weights.network:.2f} × network + {weights.wide:.2f} × baseline, chosen on the validation data"
        in lines
    )
    assert any(line.startswith(f"together: validation loss {last.figures['loss']:.4f}") for line in lines)


def test_the_network_was_trained_alone(tmp_path: Path) -> None:
    """With the bits of a run without the baseline in its outputs."""
    runs = [films(tmp_path / name, updates=4, more=more)[0] for name, more in (("both", APART), ("one", []))]
    first, other = ([each.figures["loss"] for each in read_validations(run / "metrics.jsonl")] for run in runs)
    assert first[:-1] == other


def test_evaluation_is_that_of_predictions(mixed: tuple[Path, Path]) -> None:
    run, file = mixed
    texts, labels = zip(*(line.split("\t") for line in file.read_text().splitlines()), strict=True)
    model = load(run)
    model.codec.answer.temperature = 1.0  # which the loss does not have
    found = [output.probabilities[label] for output, label in zip(model(texts), labels, strict=True)]
    assert evaluate(run, file).figures["loss"] == pytest.approx(-np.log(found).mean(), rel=1e-4)


@pytest.mark.parametrize("kind", ["classification", "tagging", "graphs"])
@pytest.mark.parametrize("weights", [OutputWeights(0.0, 2.0), OutputWeights(3.0, 0.0), OutputWeights(0.5, 0.25)])
def test_outputs_are_the_weighted_sum(kind: str, weights: OutputWeights) -> None:
    case = TaskCase(find_task(kind), kind)
    case.tables["model"] |= {"wide": True, "wide_training": "apart"}
    codecs = case.data.codecs._replace(weights=weights)
    predictor: Any = case.task.predictor(case.net().float(), codecs, case.config)
    values = [predictor._accept(predictor.read(line)) for line in case.task.sample_lines]
    deep = [predictor._joined([output]) for output in predictor._compute(predictor._encode(values).rows)]
    wide = case.data.codecs._replace(weights=OutputWeights(1.0, 1.0)).wide_outputs([*zip(*values, strict=True)])
    parts = wide.split([1 if one.dim() == 1 else len(one) for one in deep])
    for found, one, other in zip(predictor._add_wide(values, deep), deep, parts, strict=True):
        assert found.reshape(other.shape).numpy() == pytest.approx(
            (weights.network * one.reshape(other.shape) + weights.wide * other).numpy()
        )


@pytest.mark.parametrize("kind", ["tagging", "graphs"])
def test_every_supervised_task_is_combined(kind: str, tmp_path: Path) -> None:
    case = TaskCase(find_task(kind), kind)
    case.tables["model"] |= {"wide": True, "wide_training": "apart"}
    run = case.run()
    train(run.config, run.path)
    losses = json.loads((run.path / FOLDER / FILE).read_text())["losses"]
    assert losses["both"] <= min(losses["network"], losses["baseline"]) + 1e-4


def test_a_network_that_adds_nothing_is_left_out_and_told(tmp_path: Path) -> None:
    run, file, lines = films(tmp_path, updates=4, more=[*APART, "train.lr=50"])
    assert open_weights(RunFolder.open(run)).network == 0
    assert any("the network does not improve on its baseline" in line for line in lines)
    found = evaluate(run, file)
    assert found.baseline is not None and found.figures["accuracy"] == found.baseline.figures["accuracy"]


def test_it_is_shared_with_its_weights(regard: Any, mixed: tuple[Path, Path], tmp_path: Path) -> None:
    told = regard("export", mixed[0], tmp_path / "shared", "--to", "hub").stdout
    assert "equal outputs for" in told
    assert open_weights(RunFolder.open(tmp_path / "shared")) == OutputWeights(0.7, 0.4)


DAMAGED = (
    "", "[]", '{"network": 1}', '{"network": -1, "wide": 1}', '{"network": NaN, "wide": 1}',
    '{"network": 1e9, "wide": 1}', '{"network": "x", "wide": 1}',
)  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_weights_are_refused(text: str, combined: Any, tmp_path: Path) -> None:
    run = with_weights(combined[0], tmp_path / "run", OutputWeights())
    (run / FOLDER / FILE).write_text(text)
    with pytest.raises(ModelError, match=r"weights\.json is damaged"):
        load(run)


def test_before_the_end_both_count_half(combined: Any, tmp_path: Path) -> None:
    run = with_weights(combined[0], tmp_path / "run", OutputWeights())
    (run / FOLDER / FILE).unlink()
    assert open_weights(RunFolder.open(run)) == OutputWeights(0.5, 0.5)


def choice(losses: Any) -> _Choice:
    return _Choice(OutputWeights(), np.asarray(losses, np.float64))


def test_the_simplest_within_one_standard_error_is_chosen() -> None:
    """Differences of ±1 in four values have a standard error of 1/√3."""
    noise = np.array([1.0, -1.0, 1.0, -1.0])
    for gap, wanted in ((0.5, "baseline"), (0.6, "both")):
        choices = {"baseline": choice(5 + gap + noise), "network": choice([9.0] * 4), "both": choice([5.0] * 4)}
        assert _simplest(choices) == wanted
    choices = {"baseline": choice([9.0] * 4), "network": choice([5.0] * 4), "both": choice([5.0] * 4)}
    assert _simplest(choices) == "network"
    choices = {"baseline": choice([9.0] * 4), "network": choice([np.nan] * 4), "both": choice([np.nan] * 4)}
    assert _simplest(choices) == "baseline"


def test_the_best_weights_of_a_parabola() -> None:
    found = _best(
        lambda free: np.full(3, (free[0] - 2) ** 2 + (free[1] - 0.25) ** 2), lambda free: OutputWeights(*free), [1, 1]
    )
    assert found.weights == pytest.approx((2, 0.25), abs=0.01)
    assert _best(lambda free: np.full(2, free[0]), lambda free: OutputWeights(free[0], 0), [1]).weights.network == 0


def test_inspection_shows_what_each_part_adds(regard: Any, mixed: tuple[Path, Path]) -> None:
    """Two classes: the difference of their logits, whose logistic function is the probability."""
    model = load(mixed[0])
    model.codec.answer.temperature = 1.0
    parts = model.inspect("a fine film").facts["parts"]
    assert 1 / (1 + np.exp(-sum(parts.values()))) == pytest.approx(model(["a fine film"])[0].probability)
    assert parts["network"] != 0 != parts["baseline"]
    told = regard("inspect", mixed[0], "a fine film", "--json").stderr
    assert f"parts of the output: network {parts['network']:+.2f}, baseline {parts['baseline']:+.2f}" in told


def test_parts_of_three_classes_and_of_a_number() -> None:
    case = TaskCase(find_task("classification"), "classification")
    case.tables["model"] |= {"wide": True}
    predictor: Any = case.predictor
    deep, logits = torch.tensor([[1.0, 2.0, 6.0]]), torch.tensor([[1.0, 3.0, 10.0]])
    assert predictor._parts(deep, logits) == {"parts": {"network": 4.5, "baseline": 3.5}}
    assert predictor._parts(torch.tensor([[0.5]]), torch.tensor([[0.25]])) == {
        "parts": {"network": 0.5, "baseline": -0.25}
    }

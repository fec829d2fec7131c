"""The wide part of a network: its outputs are added, it is the whole model at the start, and it never looks ahead."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.baseline import FOLDER
from regard.core.task import find_task
from regard.errors import ConfigError, ModelError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluate import evaluate
from regard.tasks.load import load
from regard.testing import TaskCase
from regard.training.start import train
from tests.cli.test_run_baseline import films
from tests.laws.test_baselines import CASES, KINDS, learned

WIDE = ("classification", "tagging", "graphs")
ALL_WIDE = (*WIDE, "nodes", "links")


def wide_case(kind: str) -> TaskCase:
    case = TaskCase(find_task(kind), kind)
    case.tables["model"]["wide"] = True
    return case


@pytest.mark.parametrize("kind", WIDE)
def test_an_untrained_model_is_its_wide_part(kind: str) -> None:
    case = wide_case(kind)
    net = case.task.build(case.config, case.data.spec).eval()
    predictor: Any = case.task.predictor(net, case.data.codecs, case.config)
    values = [predictor._accept(predictor.read(line)) for line in case.task.sample_lines]
    wide = case.data.codecs.wide_outputs([*zip(*values, strict=True)])
    encoded = predictor._encode(values)
    deep = predictor._compute(encoded.rows)
    joined = predictor._add_wide(values, [predictor._joined(deep[n : n + 1]) for n in range(len(values))])
    assert torch.equal(torch.cat([each.reshape(-1, wide.shape[1]) for each in joined]), wide)
    assert wide.abs().max() > 0


@pytest.mark.parametrize("kind", ALL_WIDE)
def test_training_starts_with_the_loss_of_the_baseline(kind: str) -> None:
    case = wide_case(kind)
    run = case.run()
    train(run.config, run.path)
    first = (run.path / "metrics.jsonl").read_text().splitlines()[0]
    assert '"step": 0' in first
    lines = (run.path / FOLDER / "baseline.json").read_text()
    loss = float(lines.partition('"loss": ')[2].split(",")[0].split("}")[0])
    assert float(first.partition('"loss": ')[2].split(",")[0].split("}")[0]) == pytest.approx(loss, rel=1e-4)


@KINDS
def test_training_sees_outputs_that_do_not_know_the_labels(kind: str) -> None:
    """With random labels, a model fitted on a row predicts it; one that was fitted without it cannot."""
    make, draw, outputs = CASES[kind]
    values, targets = draw(np.random.default_rng(1), 300)
    labels, model = np.random.default_rng(3).integers(0, outputs, len(targets)), make()
    model.learn([values], labels, np.ones(len(labels)), outputs)
    held_out = model.held_out_outputs([values], labels, np.ones(len(labels)), outputs)
    assert held_out.shape == (len(labels), outputs)
    assert (held_out.argmax(1) == labels).mean() < 1 / outputs + 0.1


@KINDS
def test_held_out_outputs_predict_a_rule(kind: str) -> None:
    model, values = learned(kind)
    _, draw, outputs = CASES[kind]
    values, targets = draw(np.random.default_rng(1), 120)
    held_out = model.held_out_outputs([values], targets, np.ones(len(targets)), outputs)
    assert (held_out.argmax(1) == targets).mean() >= 0.85
    assert not np.array_equal(held_out, model.outputs([values]))


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    run, file, _ = films(tmp_path_factory.mktemp("wide"), updates=8, more=["model.wide=true", "train.lr=0.01"])
    return run, file


def test_evaluation_is_that_of_predictions(wide_run: tuple[Path, Path]) -> None:
    """On the training file, too: the network was trained with other outputs of the wide part."""
    run, file = wide_run
    texts, labels = zip(*(line.split("\t") for line in file.read_text().splitlines()), strict=True)
    model = load(run)
    model.codec.answer.temperature = 1.0  # which the loss does not have
    found = [output.probabilities[label] for output, label in zip(model(texts), labels, strict=True)]
    assert evaluate(run, file).figures["loss"] == pytest.approx(-np.log(found).mean(), rel=1e-4)
    assert evaluate(run, file).baseline is not None


def test_it_is_shared_with_the_run(regard: Any, wide_run: tuple[Path, Path], tmp_path: Path) -> None:
    told = regard("export", wide_run[0], tmp_path / "shared", "--to", "hub").stdout
    assert "equal outputs for" in told and (tmp_path / "shared" / FOLDER).is_dir()


def test_other_formats_refuse_it(regard: Any, wide_run: tuple[Path, Path], tmp_path: Path) -> None:
    result = regard("export", wide_run[0], tmp_path / "other", "--to", "transformers")
    assert result.exit_code == 1 and "model.wide=false" in str(result.exception)


def test_a_run_without_its_wide_part_is_refused(wide_run: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(wide_run[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / FOLDER)
    with pytest.raises(ModelError, match="wide part"):
        load(tmp_path / "run")


def test_it_is_the_baseline() -> None:
    case = TaskCase(find_task("classification"), "classification")
    tables = case.tables | {"model": case.tables["model"] | {"wide": True}}
    with pytest.raises(ConfigError, match=r"model\.wide"):
        load_config(tables, ["train.baseline=false"])


def test_a_network_that_adds_nothing_is_told(tmp_path: Path) -> None:
    run, _, lines = films(tmp_path, updates=4, more=["model.wide=true", "train.lr=50"])
    assert any("the network does not improve on its baseline" in line for line in lines)
    assert RunFolder.open(run).weights_path(None).path.name == "step-000000"


def test_a_hidden_token_is_hidden_from_the_wide_part() -> None:
    case = wide_case("tagging")
    case.tables["model"]["affixes"] = 0
    predictor: Any = case.task.predictor(
        case.task.build(case.config, case.data.spec).eval(), case.data.codecs, case.config
    )
    tokens = ("the", "run", "dog")  # the network is at zero: all of the influence is that of the wide part
    observation = predictor.inspect(tokens)
    influences = predictor.influences(tokens, observation)
    for influence in influences:
        before = observation.predictions[influence.prediction]
        for hidden, value in enumerate(influence.values):
            changed = [(*tokens[:hidden], "", *tokens[hidden + 1 :])]
            logits = case.data.codecs.wide_outputs([changed])[influence.prediction]
            scores = {each.label: each.log_probability for each in predictor.codec.answer.alternatives(logits)}
            assert value == pytest.approx(before.log_probability - scores[before.label], abs=1e-9)
    assert (
        max(abs(value) for influence in predictor.influences(tokens, observation) for value in influence.values) > 0.1
    )


def test_a_hidden_piece_of_a_text_is_left_out() -> None:
    predictor: Any = wide_case("classification").predictor
    field = predictor.codec.fields["text"]
    ((row,),) = predictor._encode([(("fine a film",),)]).rows
    (hidden,) = field.hidden(("fine a film",), row)
    assert [variant and variant.value for variant in hidden] == [None, ("a film",), ("fine film",), ("fine a",), None]


def test_links_and_nodes_start_with_their_wide_part() -> None:
    for kind in ("nodes", "links"):
        case = wide_case(kind)
        net = case.task.build(case.config, case.data.spec).eval()
        predictor: Any = case.task.predictor(net, case.data.codecs, case.config)
        graph, wide, _ = case.data.codecs
        if kind == "links":
            found = predictor([("n0", "n1")])[0].probability
            assert found == pytest.approx(1 / (1 + np.exp(-wide.outputs(graph, np.array([[0, 1]]))[0])))
            best = predictor([("n0",)])[0].links[0]
            assert best.probability == pytest.approx(predictor([("n0", best.target)])[0].probability)
        else:
            logits = wide.outputs(graph, np.flatnonzero(graph.parts["train"]))[2]
            p = np.exp(logits) / np.exp(logits).sum()
            assert [*predictor(["n2"])[0].probabilities.values()] == pytest.approx(p.tolist())


def test_links_of_a_graph_with_labels_are_learned_if_named(tmp_path: Path) -> None:
    from regard.tasks.find_config import find_config
    from regard.tasks.nodes.task import sample_graph

    files = [*sample_graph(tmp_path).values()]
    assert find_config(files, [], []).task.kind == "nodes"
    config = find_config(files, [], ["task=links", "data.valid_share=0.2", "data.test_share=0.2"])
    assert config.task.kind == "links" and config.wide

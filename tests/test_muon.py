"""Muon: its iteration by hand, its updates as torch has them, what it takes of a network, and what it keeps."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config.settings import TrainConfig
from regard.core.task import find_task
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.head import Head
from regard.models.input import TokenInput
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.training.muon import hidden_matrices, orthogonalize_each
from regard.training.optim import Optimizer, make_optimizer
from regard.training.setup import require_trainable, set_up

# The polynomial of Jordan et al. 2024, five times, from 1 (0.7010, 1.1137, …), from 0.8 and from 0.6.
ONE, FOUR_FIFTHS, THREE_FIFTHS = 0.6964364095, 1.1192039299, 0.7228761686


class Small(nn.Module):
    """Embedding and head with one matrix, a hidden layer, and a layer that ends in one number."""

    def __init__(self) -> None:
        super().__init__()
        self.input = TokenInput(nn.Parameter(torch.randn(7, 4)))
        self.head = Head(self.input.weight, nn.Parameter(torch.zeros(7)))
        self.wide, self.tall, self.last = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(3, 1)


def feed(models: list[nn.Module], dtype: torch.dtype = torch.float32) -> None:
    """Give all of them the same random gradients."""
    for same in zip(*(model.parameters() for model in models), strict=True):
        gradient = torch.randn_like(same[0], dtype=dtype)
        for parameter in same:
            parameter.grad = gradient.to(parameter.dtype)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[-3.0]], [[-ONE]]),
        ([[4.0, 0.0], [0.0, -3.0]], [[FOUR_FIFTHS, 0.0], [0.0, -THREE_FIFTHS]]),  # of norm 5
        ([[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]], [[0.0, THREE_FIFTHS, 0.0], [FOUR_FIFTHS, 0.0, 0.0]]),
        ([[0.0, 3.0], [4.0, 0.0], [0.0, 0.0]], [[0.0, THREE_FIFTHS], [FOUR_FIFTHS, 0.0], [0.0, 0.0]]),
        ([[0.0, 0.0]], [[0.0, 0.0]]),
    ],
)
def test_singular_values_go_through_the_polynomial(matrix: list[list[float]], expected: list[list[float]]) -> None:
    (found,) = orthogonalize_each([torch.tensor(matrix, dtype=torch.float64)])
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", [(6, 6), (5, 9), (9, 5)])
def test_singular_values_come_near_1_and_vectors_stay(shape: tuple[int, int]) -> None:
    left, _, right = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
    values = torch.logspace(0, -2.2, min(shape), dtype=torch.float64)
    found = left.T @ orthogonalize_each([left @ values.diag() @ right])[0] @ right.T
    assert found.diag().min() > 0.68 and found.diag().max() < 1.21
    torch.testing.assert_close(found, found.diag().diag(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("momentum", [0.95, 0.6, 0.0])
def test_equals_torch(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, momentum: float) -> None:
    """Whose iteration is in bfloat16 whatever it is given: for a float32 model it is made to leave that."""
    if dtype == torch.float32:
        monkeypatch.setattr(Tensor, "bfloat16", Tensor.float)
    layers = [nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 2, bias=False)) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    ours = make_optimizer(layers[0].to(dtype), TrainConfig(optimizer="muon", momentum=momentum, weight_decay=0.1))
    for parameter, master in zip(layers[1].parameters(), ours.masters, strict=True):
        parameter.data = master.detach().clone()
    theirs = torch.optim.Muon(
        layers[1].parameters(), momentum=momentum, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    for rate in (0.1, 0.05, 0.2, 0.01):
        feed([layers[1], layers[0]], dtype)
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        ours.step(rate)
    for mine, other in zip(ours.masters, layers[1].parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)


def test_the_rest_is_adamw_s_at_the_same_rate_and_decay() -> None:
    one, two = Small(), Small()
    two.load_state_dict(one.state_dict())
    settings: dict[str, Any] = dict(betas=(0.8, 0.9), epsilon=1e-6, weight_decay=0.2)
    muon, adamw = Optimizer(one, kind="muon", **settings), Optimizer(two, kind="adamw", **settings)
    for rate in (0.1, 0.3):
        feed([one, two])
        muon.step(rate)
        adamw.step(rate)
    alike = {name for name, each in one.named_parameters() if torch.equal(each, two.get_parameter(name))}
    assert alike == set(muon.names) - {"wide.weight", "tall.weight"}


def test_an_update_has_the_root_mean_square_of_adam_s() -> None:
    """0.2 of the rate, about, for square and for oblong matrices (Liu et al. 2025)."""
    for shape in ((64, 64), (64, 256), (256, 64)):
        layer = nn.Linear(*shape, bias=False)
        before, optimizer = layer.weight.detach().clone(), Optimizer(layer, kind="muon")
        feed([layer])
        optimizer.step(0.5)
        assert 0.7 < float((layer.weight.detach() - before).square().mean().sqrt()) / (0.2 * 0.5) < 1.2


def test_hidden_matrices_are_what_no_end_looks_up() -> None:
    small = Small()
    assert hidden_matrices(small) == {"wide.weight": 1, "tall.weight": 1}
    small.tall.weight = small.input.weight  # shared with the embedding
    assert hidden_matrices(small) == {"wide.weight": 1}


def test_stacked_matrices_are_counted_and_orthogonalized_one_by_one() -> None:
    table = nn.Embedding(3, 4)
    net = nn.ModuleList([nn.LSTM(4, 5), nn.GRUCell(4, 5), nn.MultiheadAttention(4, 2), nn.Conv1d(2, 2, 3), table])
    found = {"0.weight_ih_l0": 4, "0.weight_hh_l0": 4, "1.weight_ih": 3, "1.weight_hh": 3,
             "2.in_proj_weight": 3, "2.out_proj.weight": 1}  # fmt: skip
    assert hidden_matrices(net) == found
    assert hidden_matrices(nn.LSTM(4, 1)) == {}, "its gates are vectors"
    gates, alone = nn.RNN(4, 5, bias=False), nn.LSTM(4, 5, bias=False)
    for weight, stacked in zip(gates.parameters(), alone.parameters(), strict=True):
        weight.grad = torch.randn_like(weight)
        stacked.grad = torch.cat([weight.grad, 10 * weight.grad, -weight.grad, torch.zeros_like(weight)])
    starts = [[each.detach().clone() for each in net.parameters()] for net in (gates, alone)]
    for net in (gates, alone):
        Optimizer(net, kind="muon").step(0.1)
    for weight, stacked, was, before in zip(gates.parameters(), alone.parameters(), *starts, strict=True):
        change = (weight - was).detach()
        wanted = torch.cat([change, change, -change, torch.zeros_like(change)])
        torch.testing.assert_close((stacked - before).detach(), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "matrices"),
    [
        ({"position": "learned", "longest": 9, "share": "none", "output_bias": True}, 16),
        ({"position": "t5"}, 16),
        ({"cross_attention": "additive"}, 16),
    ],
)
def test_of_a_transformer_all_projections_and_no_table(options: dict[str, Any], matrices: int) -> None:
    config = ModelConfig.model_validate({"layers": 1, "width": 16, "feed_forward": 16, "heads": 2} | options)
    net = build(config, source_types=9, target_types=9)
    found = hidden_matrices(net)
    assert sum(found.values()) == len(found) == matrices
    assert {name.split(".")[-2] for name in found} <= {"query", "key", "value", "output", "up", "down"}


@pytest.mark.parametrize("ema", [None, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_stored_is_all_there_is(dtype: torch.dtype, ema: float | None) -> None:
    one, two = Small().to(dtype), Small().to(dtype)
    first, second = (Optimizer(each, kind="muon", ema=ema) for each in (one, two))
    feed([one])
    first.step(0.1)
    stored = first.tensors()
    assert {name for name in stored if "master" not in name} == {"momentum_buffer.wide.weight",
        "momentum_buffer.tall.weight"} | {f"{key}.{name}" for key in ("step", "exp_avg", "exp_avg_sq")
        for name in set(first.names) - {"wide.weight", "tall.weight"}}  # fmt: skip
    second.load(first.weights(), stored)
    feed([one, two], dtype)
    assert first.step(0.1) == second.step(0.1)
    mine, theirs = first.weights() | first.tensors(), second.weights() | second.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


@pytest.mark.parametrize("key", ["momentum_buffer.tall.weight", "exp_avg.wide.bias"])
def test_what_is_stored_has_its_shape(key: str) -> None:
    model = Small()
    optimizer = Optimizer(model, kind="muon")
    feed([model])
    optimizer.step(0.1)
    with pytest.raises(ValueError, match=key.replace(".", r"\.")):
        optimizer.load(optimizer.weights(), optimizer.tensors() | {key: torch.zeros(2, 2)})


def test_the_loss_falls() -> None:
    """Of two layers that learn a rotation, from the same batch each time."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer, x = Optimizer(model, kind="muon"), torch.randn(16, 4)
    losses = []
    for _ in range(60):
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step(0.03)
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_a_config_tells_the_momentum_to_muon_alone() -> None:
    assert TrainConfig(optimizer="muon").momentum == 0.95 and TrainConfig().momentum == 0.0
    assert TrainConfig(optimizer="muon", momentum=0.0).momentum == 0.0
    with pytest.raises(ValueError, match="the optimizer is 'sgd'"):
        TrainConfig(optimizer="sgd", momentum=0.9)


def test_a_network_without_hidden_matrices_is_refused() -> None:
    given = {"data": {"train": [{"source": "a", "target": "b"}]}, "train": {"optimizer": "muon", "steps": 1}}
    require_trainable(load_config(given))
    with pytest.raises(ConfigError, match="no matrix that Muon can update") as caught:
        require_trainable(load_config(given | {"task": {"kind": "tests.laws.own_task:TASK"}}))  # of vectors alone
    assert caught.value.where == "train.optimizer"


@pytest.fixture(scope="module")
def case() -> TaskCase:
    task = find_task("language-model")
    return TaskCase(
        replace(task, sample=lambda folder: {**task.sample(folder), "train": {"optimizer": "muon"}}), "language-model"
    )


@pytest.mark.parametrize(
    "name", ["interrupted_and_resumed_is_as_if_never_stopped", "the_number_of_ranks_changes_no_bit"]
)
def test_runs_keep_their_laws(case: TaskCase, name: str) -> None:
    (law,) = [each for each in TASK_LAWS if each.name == name]
    law.check(case, Draw(random.Random(1)))
    stored = checkpoint.shapes(checkpoint.step_path(case.undisturbed[0].checkpoints, 6), "optimizer")
    assert any(key.startswith("momentum_buffer.") for key in stored), "this run is of another optimizer"


def test_a_run_says_who_updates_what(case: TaskCase) -> None:
    said: list[str] = []
    run = case.run()
    net = set_up(run, log=said.append).net
    (line,) = [each for each in said if each.startswith("muon updates")]
    hidden = sum(each.weight.numel() for each in net.modules() if isinstance(each, nn.Linear))
    others = sum(each.numel() for each in net.parameters()) - hidden
    assert hidden > 0 < others
    matrices = sum(isinstance(each, nn.Linear) for each in net.modules())
    assert (
        line == f"muon updates {hidden:,} parameters, in {matrices} hidden matrices; adamw updates the other {others:,}"
    )
    said.clear()
    set_up(case.reopened(run), log=said.append)
    assert not said or "muon" not in " ".join(said), "a plan is told once"

"""Carried state in checkpoints: what was written comes back, and nothing else is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.task import Carry, LossTerms
from regard.errors import ModelError
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder
from regard.testing import TaskCase
from regard.testing.task_case import trained
from regard.training.carry import named_carries, read_carries
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.trainer import Trainer
from tests.laws import lanes_task

LANES = lanes_task.KIND
pytestmark = pytest.mark.usefixtures("lanes")
CPU = torch.device("cpu")
Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def case() -> TaskCase:
    return TaskCase(lanes_task.TASK, LANES)


def stopped(case: TaskCase, step: int) -> RunFolder:
    run = case.run()
    trained(case, run, stop=step)
    return run


def resumed(run: RunFolder) -> Trainer:
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), interrupted=lambda: False)
    assert trainer.resume()
    return trainer


def carries() -> dict[int, Carry]:
    return {0: (torch.rand(2, 3), torch.ones(2, dtype=torch.bool)), 3: (torch.rand(1, 5), torch.zeros(1).bool())}


def test_what_was_written_comes_back() -> None:
    """Of each shard that carries anything; sizes beside the lanes may differ, as the memory of a padded batch does."""
    written = carries()
    read = read_carries(named_carries(written), lanes=3, device=CPU)
    assert read.keys() == written.keys()
    for shard, carry in written.items():
        assert all(torch.equal(*pair) for pair in zip(read[shard], carry, strict=True))
    assert read_carries({}, lanes=0, device=CPU) == named_carries({}) == {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"1": torch.zeros(1)}, "unknown name '1'"),
        ({"../0.0": torch.zeros(1)}, "unknown name"),
        ({"00.0": torch.zeros(1)}, "unknown name"),
        ({"9999999.0": torch.zeros(1)}, "unknown name"),
        ({"0.3": torch.zeros(2)}, "shard 0 lacks a tensor"),
        ({"1.1": torch.zeros(1)}, "shard 1 lacks a tensor"),
        ({"0.1": torch.zeros(1, dtype=torch.bool)}, "one row of numbers per lane"),
        ({"0.1": torch.zeros(())}, "one row of numbers per lane"),
        ({"0.0": torch.zeros(2, 3, dtype=torch.complex64)}, "one row of numbers per lane"),
        ({"0.0": torch.zeros(2, 3, dtype=torch.float64)}, "different number formats"),
        ({"1.0": torch.zeros(1)}, "different number formats"),
        ({"3.0": torch.zeros(2, 5), "3.1": torch.zeros(2).bool()}, "4 lanes, the previous batch had 3"),
    ],
)
def test_anything_else_is_refused(change: Tensors, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_carries(named_carries(carries()) | change, lanes=3, device=CPU)


def changed(run: RunFolder, change: Callable[[Tensors], Tensors]) -> None:
    """The newest checkpoint with something else carried, its sizes and hashes in order."""
    found = checkpoint.load(checkpoint.step_path(run.checkpoints, checkpoint.list_steps(run.checkpoints)[-1]))
    groups = found.groups | {"carry": change(found.groups["carry"])}
    checkpoint.save(run.checkpoints, found.step, groups, found.state, keep=9)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {name: each[:, :-1] for name, each in tensors.items()},
        lambda tensors: {name: each[:0] for name, each in tensors.items()},
        lambda tensors: {name: each[..., None] for name, each in tensors.items()},
        lambda tensors: {name: each.double() for name, each in tensors.items()},
        lambda tensors: {name: each.long() for name, each in tensors.items()},
        lambda tensors: tensors | {name.replace(".0", ".1"): each for name, each in tensors.items()},
        lambda tensors: {name: each.repeat(4, 1) for name, each in tensors.items()},
        lambda tensors: tensors | {"x": torch.zeros(1)},
    ],
)
def test_a_checkpoint_that_carries_what_the_model_does_not_is_refused(
    case: TaskCase, begun: RunFolder, change: Callable[[Tensors], Tensors]
) -> None:
    """Before anything is learned, in plain words."""
    whole = checkpoint.load(checkpoint.step_path(begun.checkpoints, 3))
    changed(begun, change)
    with pytest.raises(ModelError, match="does not belong to this run"):
        resumed(begun)
    checkpoint.save(begun.checkpoints, 3, whole.groups, whole.state, keep=9)
    resumed(begun)


@pytest.fixture(scope="module")
def begun(case: TaskCase) -> RunFolder:
    return stopped(case, 3)


def test_resuming_draws_nothing_and_leaves_the_network_as_it_was(begun: RunFolder) -> None:
    """The pass that tries what was carried: a trace of it would be a trace of the stop."""
    ready = set_up(begun, log=lambda message: None)
    trainer = Trainer(begun, ready.net, ready.data, steps=6, reporter=NullReporter(), interrupted=lambda: False)
    state = torch.get_rng_state()
    assert trainer.resume() and torch.equal(state, torch.get_rng_state())
    saved = checkpoint.load(checkpoint.step_path(begun.checkpoints, 3)).groups
    assert all(torch.equal(saved["model"][name], each) for name, each in trainer.optimizer.weights().items())
    assert all(torch.equal(saved["carry"][name], each) for name, each in named_carries(trainer.updater.carry).items())
    assert not any(each.grad is not None for each in ready.net.parameters())


def test_the_last_checkpoint_of_an_epoch_carries_nothing() -> None:
    other = TaskCase(lanes_task.TASK, LANES)
    other.tables["train"] |= {"steps": 9, "save_every": 8}
    run = other.undisturbed[0]
    groups = {step: set(checkpoint.load(checkpoint.step_path(run.checkpoints, step)).groups) for step in (8, 9)}
    assert groups == {8: {"model", "optimizer", "carry"}, 9: {"model", "optimizer"}}


def test_an_update_without_a_finite_loss_hands_nothing_on(case: TaskCase) -> None:
    """It may have left NaN, which would spoil the rest of the epoch."""
    seen: list[bool] = []

    class Once(nn.Module):
        def __init__(self, right: nn.Module) -> None:
            super().__init__()
            self.right = right

        def forward(self, batch: Any, carry: Carry = ()) -> LossTerms:
            terms = self.right(batch, carry)
            seen.append(bool(carry))
            broken = trainer.progress.step == 2 and self.training
            return terms._replace(minimized=terms.minimized * (float("nan") if broken else 1.0))

    run = case.run()
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(run, ready.net, ready.data, steps=6, reporter=NullReporter(), interrupted=lambda: False)
    trainer.updater.model = Once(trainer.model)
    for _ in range(4):
        trainer._update()
    assert seen == [False, False, True, True, True, True, False, False], (
        "two shards: 0 and 1, 2 is broken, 3 begins anew"
    )

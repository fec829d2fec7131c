"""Laws of tasks: properties on which training, validation and resuming rely, for any task."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.task import (
    Batch,
    Carry,
    ExampleIndices,
    MetricSums,
    find_task,
)
from regard.core.tensors import added_sums
from regard.testing.draw import Draw
from regard.testing.law import Law, law, same
from regard.testing.predictors import PREDICTOR_LAWS
from regard.testing.ranks import Meeting, SimulatedRanks, run_ranks
from regard.testing.task_case import UPDATES, TaskCase, trained
from regard.training.carry import continued, detach_carry
from regard.training.optim import Optimizer
from regard.training.progress import NullReporter
from regard.training.setup import prepare, set_up
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable
from regard.training.trainer import Trainer
from regard.training.validation import Validator

TASK_LAWS: list[Law] = [*PREDICTOR_LAWS]
LEARNED = 0.7  # required ratio of the last to the first loss on one batch


def check_task(kind: str, *, seed: int = 0) -> list[str]:
    """Check every law of a task, which takes seconds, and return the names of the laws.

    Args:
        kind: a name of ``TASKS``, or ``package.module:NAME``.
        seed: of the random inputs.

    Raises:
        AssertionError: with the name of the first violated law.
    """
    case = TaskCase(find_task(kind), kind)
    for one in TASK_LAWS:
        try:
            one.check(case, Draw(random.Random(seed)))
        except AssertionError as failure:
            raise AssertionError(f"the law {one.name!r} is broken: {failure}") from failure
    return [one.name for one in TASK_LAWS]


def _some(case: TaskCase, draw: Draw) -> ExampleIndices:
    """Return a random training batch with several examples, or with the only one."""
    batches = [batch for epoch in (0, 1) for batch in case.data.train.batches(epoch)]
    several = [batch for batch in batches if len(batch.index) > 1] or batches
    return several[draw.integer(0, len(several) - 1)]


def _total(sums: Sequence[MetricSums]) -> MetricSums:
    total: MetricSums = {}
    for part in sums:
        total = added_sums(total, part)
    return total


def _equal(one: Batch, other: Batch) -> bool:
    return type(one) is type(other) and _equal_parts(one, other)


def _equal_parts(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):  # a target may be missing: NaN
        return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_equal_parts, one, other))
    return bool(one == other)


@law(TASK_LAWS)
def terms_add_over_dealing(case: TaskCase, draw: Draw) -> None:
    """Loss, sums and weight of a batch are the sums over its shards: rows and padding do not affect each other."""
    net, examples = case.net(), _some(case, draw)
    whole, batch = case.terms(net, examples)
    for number in (2, len(examples.index)):
        parts = [case.terms(net, part) for part in examples.shards(number)]
        losses = torch.stack([terms.minimized for terms, _ in parts])
        same(losses.sum(), whole.minimized, f"the loss over {number} shards", tolerance=1e-8)
        assert abs(sum(part.weight for _, part in parts) - batch.weight) < 1e-9, "the weight over shards"
        total = _total([terms.sums for terms, _ in parts])
        for name, value in _total([whole.sums]).items():
            same(total[name], value, f"the sum {name!r} over {number} shards", tolerance=1e-6)


@law(TASK_LAWS)
def collating_is_pure(case: TaskCase, draw: Draw) -> None:
    """The same examples give the same batch, regardless of random draws and other batches; ``index`` names them."""
    examples = _some(case, draw)
    first = case.data.train.collate(examples)
    case.data.train.collate(_some(case, draw))
    torch.rand(3)
    assert _equal(first, case.data.train.collate(examples)), "a batch collated twice differs"
    named = set(first.index.flatten().tolist()) - {-1}
    assert named == set(examples.index.tolist()), "index does not name the examples of the batch"


@law(TASK_LAWS)
def an_epoch_is_a_function_of_its_number(case: TaskCase, draw: Draw) -> None:
    """An epoch has the same batches if requested again or from reopened data; another epoch has another order."""
    train, again = case.data.train, prepare(case.run(), log=lambda message: None).train
    for epoch in (0, 1, None):
        for other in (train, again):
            plans = zip(train.batches(epoch), other.batches(epoch), strict=True)
            alike = (np.array_equal(*pair) for one, two in plans for pair in zip(one, two, strict=True))
            assert all(alike), f"epoch {epoch} has other batches when requested again"
    orders = [np.concatenate([batch.index for batch in train.batches(epoch)]).tolist() for epoch in (0, 1)]
    assert len(train) < 3 or orders[0] != orders[1], "two epochs are in the same order"


@law(TASK_LAWS)
def visits_count_uses(case: TaskCase, draw: Draw) -> None:
    """No example occurs twice with the same visit, so random draws by (example, visit) are always new."""
    seen = [pair for epoch in range(3) for batch in case.data.train.batches(epoch) for pair in zip(*batch, strict=True)]
    assert len({(int(index), int(visit)) for index, visit in seen}) == len(seen), "an example has the same visit twice"


@law(TASK_LAWS)
def evaluation_takes_each_example_once(case: TaskCase, draw: Draw) -> None:
    """Evaluation uses each example once, and the weights of its batches equal ``token_counts``."""
    for part in ("train", "valid"):
        examples = case.part(part)
        batches = examples.batches(None)
        index = np.concatenate([batch.index for batch in batches])
        assert len(set(index.tolist())) == len(index), "an example is evaluated twice"
        weight = sum(examples.collate(batch).weight for batch in batches)
        assert abs(float(examples.token_counts().sum()) - weight) < 1e-6, "token_counts are not the weights of batches"


@law(TASK_LAWS)
def evaluating_leaves_no_trace(case: TaskCase, draw: Draw) -> None:
    """Evaluation draws no random numbers and does not change the network; repeated, it gives the same result."""
    net = case.net()
    before = [tensor.clone() for tensor in net.state_dict().values()]
    state = torch.get_rng_state()
    examples = case.part("valid").batches(None)[0]
    with torch.no_grad():
        first, second = (case.terms(net, examples, "valid")[0] for _ in range(2))
    assert torch.equal(first.minimized, second.minimized), "evaluated twice, the loss differs"
    assert torch.equal(state, torch.get_rng_state()), "evaluation draws from torch's generator"
    after = net.state_dict().values()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True)), "evaluation changes the net"


@law(TASK_LAWS)
def a_validation_draws_nothing(case: TaskCase, draw: Draw) -> None:
    """Repeated validation during training gives the same figures, without random draws from torch or NumPy."""
    net = case.net().float()
    model = Trainable(net, case.task.objective(case.config))
    data, strategy = case.data, Shards(2, Workers(1, 1))
    validator = Validator(
        case.task, case.config, strategy.wrap(model), net, case.part("valid"), data.codecs, strategy, lambda: False
    )
    expected = validator.measure(Optimizer(net), decode=True)
    before = _generators()
    for _ in range(2):
        model.train()
        assert validator.measure(Optimizer(net), decode=True) == expected, "validated again, the figures differ"
    assert _generators() == before, "a validation draws random numbers"


def _generators() -> list[Any]:
    """Return the states of global random generators. Python's is left out, as type checks draw from it."""
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return [torch.get_rng_state().tolist(), np.asarray(keys).tolist(), position]


@law(TASK_LAWS)
def figures_are_ratios_of_sums(case: TaskCase, draw: Draw) -> None:
    """Figures include a loss, do not depend on the order of sums, and do not change with doubled sums."""
    net = case.net()
    with torch.no_grad():
        sums = [case.terms(net, batch)[0].sums for batch in case.data.train.batches(0)[:3]]
    figures = case.task.compute_metrics(_total(sums))
    assert "loss" in figures, "the figures lack a loss"
    counts = {name for name, metric in case.task.metrics.items() if not metric.ratio}
    for other, exempt in ((_total(sums[::-1]), set[str]()), (_total([*sums, *sums]), counts)):
        repeated = case.task.compute_metrics(other)
        assert repeated.keys() == figures.keys()
        for name, value in figures.items():
            if name in exempt:
                continue
            assert abs(repeated[name] - value) <= 1e-9 * max(1.0, abs(value)), (
                f"the figure {name!r} is not a ratio of sums"
            )


@law(TASK_LAWS)
def measures_of_parts_add_up(case: TaskCase, draw: Draw) -> None:
    """The predictor's sums over any two halves of the validation data add up to those over all of it."""
    names = [name for name, metric in case.task.metrics.items() if metric.by_predictor]
    predictor, examples = case.predictor, case.part("valid")
    index = np.concatenate([batch.index for batch in examples.batches(None)])
    order = np.array(draw.source.sample(range(len(index)), len(index)))
    halves = index[order[: len(index) // 2]], index[order[len(index) // 2 :]]
    whole = _total([predictor.measure(examples, index, names)]) if names else {}
    parts = _total([predictor.measure(examples, half, names) for half in halves]) if names else {}
    assert parts.keys() == whole.keys(), "the sums of the parts have other names"
    for name, value in whole.items():
        same(parts[name], value, f"the predictor's sum {name!r} over two halves", tolerance=1e-5)


@law(TASK_LAWS)
def the_number_of_workers_changes_no_bit(case: TaskCase, draw: Draw) -> None:
    """Gradients of two shards are equal for one and two workers, and for a second time with the same seed."""
    net = case.net().float().train()
    update = list(case.data.train.batches(0)[:2])
    model = Trainable(net, case.task.objective(case.config))
    gradients = [
        Shards(2, Workers(workers, 1)).gradient(model, case.data.train, update, {}, seed=(1, 2)).values
        for workers in (1, 2, 1)
    ]
    for other in gradients[1:]:
        assert all(torch.equal(*pair) for pair in zip(gradients[0], other, strict=True)), (
            "the bits of a gradient differ"
        )


@law(TASK_LAWS)
def the_loss_of_one_batch_falls(case: TaskCase, draw: Draw) -> None:
    """Forty updates on one batch, without dropout, reduce its loss."""
    net, examples = case.net(), _some(case, draw)
    optimizer, losses = Optimizer(net), []
    for _ in range(40):
        terms, batch = case.terms(net, examples)
        (terms.minimized / batch.weight).backward()
        optimizer.step(0.01)
        losses.append(float(terms.minimized.detach()) / batch.weight)
    assert losses[-1] < LEARNED * losses[0], f"the loss changes from {losses[0]:.4f} to {losses[-1]:.4f}"


@law(TASK_LAWS)
def interrupted_and_resumed_is_as_if_never_stopped(case: TaskCase, draw: Draw) -> None:
    """A run that is stopped after an update or in a validation, and resumed, ends with the same weights."""
    (_, whole), stopped = case.undisturbed, case.run()
    trained(case, stopped, stop=draw.integer(1, UPDATES - 1))
    again = trained(case, case.reopened(stopped))
    for name, weight in whole.items():
        assert torch.equal(weight, again[name]), f"{name} differs after a stop"


@law(TASK_LAWS)
def the_number_of_ranks_changes_no_bit(case: TaskCase, draw: Draw) -> None:
    """Two ranks, each with its own trainer and half of the shards, end with the weights and figures of one rank."""
    (single, whole), together = case.undisturbed, case.run()
    nets = [set_up(together, log=lambda message: None) for _ in range(2)]

    def train(rank: int, meeting: Meeting) -> dict[str, Tensor]:
        ready, strategy = nets[rank], SimulatedRanks(2, rank, meeting)
        trainer = Trainer(
            together, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), strategy=strategy,
            interrupted=lambda: False,
        )  # fmt: skip
        trainer.fit()
        return {name: tensor.clone() for name, tensor in trainer.optimizer.weights().items()}

    for rank, weights in enumerate(run_ranks(2, train)):
        for name, weight in whole.items():
            assert torch.equal(weight, weights[name]), f"{name} differs on rank {rank} of two"
    logs = [
        [_unclocked(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        for run in (single, together)
    ]
    assert logs[0] == logs[1], "the figures of two ranks differ from those of one"


def _unclocked(line: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(line).items() if name != "seconds"}


@law(TASK_LAWS)
def held_out_data_leave_training_alone(case: TaskCase, draw: Draw) -> None:
    """Changes of held-out data change no bit of the sizes, batches, losses and weights of training."""
    one, other = case.held_out
    assert one.data.spec == other.data.spec, "the sizes of the network depend on held-out data"
    assert _same_bits(one.net().state_dict(), other.net().state_dict()), "the first weights depend on held-out data"
    for epoch in (0, 1):
        plans = [case.data.train.batches(epoch) for case in (one, other)]
        assert len(plans[0]) == len(plans[1]), "the number of batches depends on held-out data"
        for pair in zip(*plans, strict=True):
            assert all(np.array_equal(*parts) for parts in zip(*pair, strict=True)), (
                "the order depends on held-out data"
            )
            terms = [case.terms(case.net(), examples) for case, examples in zip((one, other), pair, strict=True)]
            assert _equal(terms[0][1], terms[1][1]), "a training batch depends on held-out data"
            assert torch.equal(terms[0][0].minimized, terms[1][0].minimized), "a loss depends on held-out data"
    weights = (case.undisturbed[1] for case in (one, other))
    assert _same_bits(*weights), "trained weights depend on held-out data"


def _same_bits(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@law(TASK_LAWS)
def lanes_carry_on_their_own(case: TaskCase, draw: Draw) -> None:
    """The carry after two batches is equal, lane by lane, for whole batches and shards; fresh rows ignore it.

    Tasks without carried state pass.
    """
    net, objective = case.net(), case.task.objective(case.config)
    plan = case.data.train.batches(0)
    if not objective(net, case.data.train.collate(plan[0]), ()).carry:
        return
    whole = _carried(case, net, plan[:2])
    for shard, part in enumerate(zip(*(batch.shards(2) for batch in plan[:2]), strict=True)):
        for one, other in zip(_carried(case, net, part), whole, strict=True):
            same(one, other[shard::2], "the carry of the lanes of a shard", tolerance=1e-8)
    for examples in plan[:4]:
        batch: Any = case.data.train.collate(examples)
        if (fresh := getattr(batch, "fresh", torch.zeros(0)).numpy()).any() and len(whole[0]) >= len(fresh):
            fresh_batch = case.data.train.collate(ExampleIndices(examples.index[fresh], examples.visit[fresh]))
            noise = tuple(torch.full_like(tensor[: fresh.sum()], 3.0) for tensor in whole)
            nothing, noisy = (objective(net, fresh_batch, carry).minimized for carry in ((), noise))
            same(noisy, nothing, "the loss of fresh rows, for any carry")


def _carried(case: TaskCase, net: nn.Module, batches: Sequence[ExampleIndices]) -> Carry:
    objective, carry = case.task.objective(case.config), Carry()
    for examples in batches:
        batch = case.data.train.collate(examples)
        rows = len(batch.index)
        carry = detach_carry(objective(net, batch, continued(carry, rows)).carry, rows)
    return carry

"""The gradient of an update: the same bits by any number of workers, and those of the mean loss."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention.kernel import _forced, kernel
from regard.core.randomness import generator, seeded_generator
from regard.core.task import Batch, Carry, ExampleIndices, LossTerms, Objective
from regard.data.pairs import PairBatch
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.dropout import Dropout
from regard.runs.config import load_config
from regard.tasks.translation.task import objective
from regard.training.optim import Optimizer
from regard.training.shards import Shards, Workers
from regard.training.strategy import Gradient, Trainable

ROWS, LENGTH, TYPES = 7, 5, 12


class Rows:
    """Examples that lie in memory as one padded batch; a batch of them is as wide as its longest."""

    def __init__(self, rows: int = ROWS, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(4, TYPES, (2, rows, LENGTH), generator=draw)
        self.lengths = torch.randint(1, LENGTH + 1, (2, rows), generator=draw)

    def __len__(self) -> int:
        return len(self.lengths[0])

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        return [picks(*range(len(self)))]

    def token_counts(self) -> np.ndarray:
        return self.lengths[1].numpy()

    def where(self, index: int) -> str:
        return f"row {index}"

    def collate(self, examples: ExampleIndices) -> PairBatch:
        at = torch.from_numpy(examples.index)
        widths = self.lengths[:, at].amax(1).tolist()
        source, target = (self.tokens[side, at, :width] for side, width in enumerate(widths))
        valid = [torch.arange(width) < self.lengths[side, at, None] for side, width in enumerate(widths)]
        before = self.tokens[1].roll(1, 1)[at, : widths[1]]
        return PairBatch(source, valid[0], before, target, valid[1], at, float(valid[1].sum()))


def picks(*index: int) -> ExampleIndices:
    return ExampleIndices(np.array(index), np.zeros(len(index), np.int64))


WHOLE = picks(*range(ROWS))


def model(dropout: float, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    config = ModelConfig(layers=1, width=16, feed_forward=16, heads=2, dropout=dropout)
    return build(config, source_types=TYPES, target_types=TYPES).to(dtype).train()


def smoothed() -> Objective:
    return objective(load_config({"data": {"train": []}, "train": {"label_smoothing": 0.1}}))


def by(
    net: nn.Module,
    shards: int | None,
    workers: int = 1,
    *,
    update: Sequence[ExampleIndices] = (WHOLE,),
    loss: Objective | None = None,
    seed: int = 3,
    examples: Rows | None = None,
) -> Gradient:
    trainable = Trainable(net, loss or smoothed())
    return Shards(shards, Workers(workers, 1)).gradient(trainable, examples or Rows(), update, {}, seed=(seed,))


def equal(one: Gradient, other: Gradient) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.values, other.values, strict=True))


@pytest.mark.parametrize("number", [1, 2, 3, ROWS, ROWS + 2])
def test_shards_deal_out_every_example_once(number: int) -> None:
    parts = WHOLE.shards(number)
    assert len(parts) == min(number, ROWS) and all(len(part.index) for part in parts)
    assert sorted(np.concatenate([part.index for part in parts])) == list(range(ROWS))


@pytest.mark.parametrize(("shards", "workers"), [(1, 1), (2, 1), (4, 2), (16, 3), (None, 1), (None, 3)])
def test_it_is_that_of_the_mean_loss_a_token(shards: int | None, workers: int) -> None:
    net, update, loss, rows = model(dropout=0.0), [WHOLE, picks(2, 5)], smoothed(), Rows()
    found = by(net, shards, workers, update=update)
    terms = [loss(net, rows.collate(each), ()) for each in update]
    count = sum(rows.collate(each).weight for each in update)
    (sum(each.minimized for each in terms) / count).backward()
    for value, parameter in zip(found.values, net.parameters(), strict=True):
        torch.testing.assert_close(value, parameter.grad, rtol=1e-9, atol=1e-12)
    assert found.minimized == pytest.approx(sum(each.minimized.item() for each in terms) / count)
    assert float(found.sums["nll"]) == pytest.approx(sum(float(each.sums["nll"]) for each in terms))
    assert found.weight == float(found.sums["tokens"]) == count


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shards", [2, 4, 8])
def test_workers_change_no_bit(shards: int, dtype: torch.dtype) -> None:
    net = model(dropout=0.3, dtype=dtype)
    one, two, three = (by(net, shards, workers, update=[WHOLE, picks(1, 3, 4)]) for workers in (1, 2, 3))
    assert equal(one, two) and equal(one, three) and one.minimized == two.minimized == three.minimized
    assert not equal(one, by(net, shards, 2, update=[WHOLE, picks(1, 3, 4)], seed=4))


def test_a_shard_knows_nothing_of_the_others() -> None:
    """Neither its padding nor its draws: the gradient of two shards is the sum of what each gives alone."""
    net, longest = model(dropout=0.3), int(Rows().lengths[1].argmax())
    seen: list[PairBatch] = []

    def loss(net: nn.Module, batch: PairBatch, carry: Carry) -> LossTerms:
        seen.append(batch)
        return smoothed()(net, batch, carry)

    by(net, 2, loss=loss)
    assert [each.index.tolist() for each in seen] == [[0, 2, 4, 6], [1, 3, 5]]
    without = next(each for each in seen if longest not in each.index)
    assert without.target_valid.any(0).all(), "as wide as its own longest"


def test_it_does_not_depend_on_who_is_done_first() -> None:
    """Three workers, the first and then the last of their parts held up; bfloat16, where the order of a sum shows."""
    net = model(dropout=0.3, dtype=torch.bfloat16)

    def held_up(first: int) -> Gradient:
        def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
            if int(part.index[0]) == first:
                time.sleep(0.2)
            return smoothed()(net, part, carry)

        return by(net, 4, 3, loss=loss)

    assert equal(held_up(0), held_up(3))


def drawing_loss(drawn: list[Tensor]) -> Objective:
    def loss(net: nn.Module, part: Batch, carry: Carry) -> LossTerms:
        drawn.append(Dropout(0.5)(torch.ones(64)))
        return smoothed()(net, part, carry)

    return loss


@pytest.mark.parametrize("shards", [2, None])
def test_every_pass_draws_on_its_own(shards: int | None) -> None:
    """Two batches of the same pairs meet different dropout, as must the shares of one."""
    drawn: list[Tensor] = []
    by(model(dropout=0.0), shards, 2, update=[picks(0, 1), picks(0, 1)], loss=drawing_loss(drawn))
    assert len(drawn) == len({tuple(each.tolist()) for each in drawn}) == 4


def test_an_older_run_deals_the_rows_of_a_padded_batch() -> None:
    """Runs made before shards: the width is that of the whole batch, and passes are numbered one after another."""
    seen: list[PairBatch] = []

    def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
        seen.append(part)
        return smoothed()(net, part, carry)

    by(model(dropout=0.0), None, 3, loss=loss)
    whole = Rows().collate(WHOLE)
    assert {tuple(each.index.tolist()) for each in seen} == {(0, 3, 6), (1, 4), (2, 5)}
    assert {each.target_valid.shape[1] for each in seen} == {whole.target_valid.shape[1]}


def summing(seen: dict[tuple[int, ...], list[int]]) -> Objective:
    """Each lane carries the sum of (index + 1) of its examples so far; ``seen``: what a batch began with."""

    def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
        before = carry[0] if carry else torch.zeros_like(part.index)
        seen[tuple(part.index.tolist())] = before.tolist()
        return smoothed()(net, part, ())._replace(carry=(before + part.index + 1,))

    return loss


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_lane_carries_is_given_to_its_next_batch(workers: int) -> None:
    """By lane, in the order of batches, and on to the next update, whoever computes; lanes end, the last first."""
    seen: dict[tuple[int, ...], list[int]] = {}
    trainable, shards = Trainable(model(dropout=0.0), summing(seen)), Shards(2, Workers(workers, 1))
    found = shards.gradient(trainable, Rows(), [picks(0, 1, 2), picks(3, 4, 5)], {}, seed=(1,))
    assert seen == {(0, 2): [0, 0], (1,): [0], (3, 5): [1, 3], (4,): [2]}
    found = shards.gradient(trainable, Rows(), [picks(6, 0)], found.carry, seed=(1,))
    assert (seen[(6,)], seen[(0,)]) == ([5], [7]), "the third lane has ended"
    left = shards.gradient(trainable, Rows(), [picks(2)], found.carry, seed=(1,)).carry
    assert seen[(2,)] == [12] and {shard: carry[0].tolist() for shard, carry in left.items()} == {0: [15]}


@pytest.mark.parametrize(
    ("carry", "problem"),
    [
        ((torch.zeros(2),), "one row for each of the 3 rows"),
        ((torch.zeros(()),), "one row for each"),
        ([torch.zeros(3)], "a tuple of tensors"),
        ((torch.zeros(3), ()), "a tuple of tensors"),
    ],
)
def test_a_carry_that_is_not_by_lane_is_refused(carry: Any, problem: str) -> None:
    def loss(net: nn.Module, part: PairBatch, before: Carry) -> LossTerms:
        return smoothed()(net, part, ())._replace(carry=carry)

    with pytest.raises(ValueError, match=problem):
        by(model(dropout=0.0), 1, update=[picks(0, 1, 2)], loss=loss)


def test_no_lane_begins_in_the_middle_of_an_epoch() -> None:
    """A row too few would be spread over all of them without a word."""
    with pytest.raises(ValueError, match="2 lanes, the previous one 1"):
        by(model(dropout=0.0), 1, update=[picks(0), picks(1, 2)], loss=summing({}))


def test_what_is_carried_is_cut_off_from_the_gradient() -> None:
    def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
        rows = len(part.index)
        return LossTerms(net.weight.sum() * rows + sum(each.sum() for each in carry), {}, (net.weight.expand(rows),))

    net = nn.Module()
    net.weight = nn.Parameter(torch.ones(1))
    found = by(net, 1, update=[picks(0), picks(1)], loss=loss)
    assert not found.carry[0][0].requires_grad
    assert float(found.values[0]) == pytest.approx(2 / found.weight)


def test_a_draw_is_that_of_the_seed_whatever_else_is_drawn() -> None:
    def one() -> Tensor:
        return Dropout(0.5)(torch.ones(64))

    with seeded_generator(5, torch.device("cpu")):
        alone = one()
    with seeded_generator(5, torch.device("cpu")):
        torch.rand(3)
        assert torch.equal(one(), alone) and not torch.equal(one(), alone)
    assert generator() is None


class Two(nn.Module):
    """Two parameters, of which one lies transposed in memory and nothing reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.unused = nn.Parameter(torch.randn(3, 4, dtype=torch.bfloat16).t())


def test_gradients_lie_as_parameters_do() -> None:
    """The optimizer walks through both as they lie in memory: a transposed gradient would move the wrong weights."""
    net = Two()

    def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
        grown = net.weight.t().contiguous().square()  # its gradient comes transposed
        return LossTerms(grown.sum() * part.target_valid.sum(), {})

    found = by(net, 1, loss=loss)
    assert [value.stride() for value in found.values] == [net.weight.stride(), net.unused.stride()]
    torch.testing.assert_close(found.values[0], 2 * net.weight.detach())
    assert not found.values[1].any() and found.values[1].dtype == torch.float32


def test_a_parameter_that_nothing_reaches_is_left_as_it_is() -> None:
    """As the keys' projection under attention that only looks at the query; in bfloat16, where masters are wider."""
    net = model(dropout=0.0, dtype=torch.bfloat16)
    net.idle = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = Optimizer(net)
    optimizer.step(0.1, by(net, 1).values)
    assert torch.equal(net.idle.detach(), torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_gradients_are_held_at_a_time(number: int) -> None:
    """However many shards an update has: the next is begun when one is taken."""
    begun: list[int] = []
    for taken, _ in enumerate(Workers(number, 1).map(begun.append, list(range(40))), start=1):
        assert len(begun) <= taken + number


def test_torch_s_own_draws_are_of_the_seed_with_one_worker() -> None:
    """A mechanism of a user's may ask torch.rand: a resumed run is then still the same run."""
    drawn: list[Tensor] = []

    def loss(net: nn.Module, part: Batch, carry: Carry) -> LossTerms:
        drawn.append(torch.rand(4))
        return smoothed()(net, part, carry)

    net = model(dropout=0.0)
    for seed in (3, 3, 4):
        by(net, 1, seed=seed, loss=loss)
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("shards", [1, 256, None])
def test_sums_are_taken_in_single_precision(shards: int | None) -> None:
    """1 + 256 · 2⁻⁹ is 1.5; added one by one in bfloat16, whose next number after 1 is 1 + 2⁻⁷, it stays 1."""
    net, rows = nn.Module(), Rows(257)
    net.weight = nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    update = [picks(each) for each in range(257)] if shards != 256 else [picks(*range(257))]
    count = float(rows.lengths[1].sum())

    def loss(net: nn.Module, part: PairBatch, carry: Carry) -> LossTerms:
        slopes = [1.0 if each == 0 else 2.0**-9 for each in part.index.tolist()]
        return LossTerms(sum(net.weight.sum() * (slope * count) for slope in slopes), {})

    found = by(net, shards, update=update, loss=loss, examples=rows)
    assert found.values[0].item() == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize("number", [0, 3, 6])
def test_shards_are_a_power_of_two(number: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Shards(number, Workers(1, 1))


def test_a_chosen_kernel_holds_for_the_workers() -> None:
    """``with kernel(…)`` holds for whoever computes inside it."""
    with kernel("reference"):
        assert list(Workers(2, 1).map(lambda _: _forced.get(), [0, 1])) == ["reference", "reference"]


def test_threads_of_workers_are_their_own() -> None:
    before = torch.get_num_threads()
    counts = list(Workers(2, 2).map(lambda _: torch.get_num_threads(), [0, 1]))
    assert counts == [2, 2] and torch.get_num_threads() == before


def test_a_pass_on_a_cpu_seeds_torchs_own_generator() -> None:
    strategy, drawn = Shards(1, Workers(1, 1)), []
    for _ in range(2):
        with strategy._drawing(7):
            drawn.append(torch.rand(3))
    torch.manual_seed(7)
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[0], torch.rand(3))


class Twice(nn.Module):
    """Two parameters that the derivative reaches as one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def forward(self, batch: PairBatch, carry: Carry = ()) -> LossTerms:
        return LossTerms(((self.one + self.other) * torch.arange(3.0)).sum(), {})


def test_a_gradient_that_two_parameters_share_is_added_to_each() -> None:
    found = Shards(1, Workers(1, 1)).gradient(Twice(), Rows(), [picks(0), picks(1)], {}, seed=(0,))
    wanted = 2 * torch.arange(3.0) / found.weight
    assert all(torch.allclose(value, wanted) for value in found.values)

"""The gradient of an update: the same by any number of workers, and the same whichever of them is done first."""

from __future__ import annotations

import time
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from regard.attention.kernel import _forced, kernel
from regard.core.randomness import drawing, generator
from regard.data.batches import Batch, shares
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.cross_entropy import Loss
from regard.models.dropout import Dropout
from regard.training.gradients import Gradient, Workers, batch_loss, gradient
from regard.training.optim import Optimizer

ROWS, LENGTH, TYPES = 7, 5, 12


def batch(rows: int = ROWS, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, TYPES, (2, rows, LENGTH), generator=draw)
    valid = torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (2, rows, 1), generator=draw)
    return Batch(tokens[0], valid[0], tokens[1].roll(1, 1), tokens[1], valid[1], torch.arange(rows))


def model(dropout: float, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, width=16, feed_forward=16, heads=2, dropout=dropout)
    return build(config, source_types=TYPES, target_types=TYPES).to(dtype).train()


def by(number: int, net: nn.Module, batches: list[Batch], *, seed: int = 3) -> Gradient:
    loss = partial(batch_loss, net, smoothing=0.1)
    return gradient(loss, list(net.parameters()), batches, seed=(seed,), workers=Workers(number, number))


def test_shares_deal_out_every_row_once() -> None:
    whole = batch()
    for number in (1, 2, 3, ROWS, ROWS + 2):
        parts = shares(whole, number)
        assert len(parts) == min(number, ROWS) and all(len(part.source) for part in parts)
        assert sorted(torch.cat([part.index for part in parts]).tolist()) == list(range(ROWS))
        for part in parts:
            assert all(torch.equal(one, all_[part.index]) for one, all_ in zip(part, whole, strict=True))


@pytest.mark.parametrize("number", [1, 2, 3, ROWS + 2])
def test_it_is_that_of_the_mean_loss_a_token(number: int) -> None:
    net, batches = model(dropout=0.0), [batch(), batch(3, seed=1)]
    found = by(number, net, batches)
    losses = [batch_loss(net, each, smoothing=0.1) for each in batches]
    count = sum(int(each.target_valid.sum()) for each in batches)
    (sum(loss.smoothed for loss in losses) / count).backward()
    for value, parameter in zip(found.values, net.parameters(), strict=True):
        torch.testing.assert_close(value, parameter.grad, rtol=1e-9, atol=1e-12)
    assert found.smoothed == pytest.approx(sum(loss.smoothed.item() for loss in losses) / count)
    assert found.nll == pytest.approx(sum(float(loss.nll) for loss in losses) / count)


def test_it_does_not_depend_on_who_is_done_first() -> None:
    """Three workers, the first and then the last of them held up; bfloat16, where the order of a sum shows."""
    net, parts = model(dropout=0.3, dtype=torch.bfloat16), shares(batch(), 3)

    def held_up(late: Tensor) -> Gradient:
        def loss(part: Batch) -> Loss:
            if torch.equal(part.index, late):
                time.sleep(0.2)
            return batch_loss(net, part, smoothing=0.1)

        return gradient(loss, list(net.parameters()), [batch()], seed=(3,), workers=Workers(3, 3))

    first, last = held_up(parts[0].index), held_up(parts[-1].index)
    assert first.nll == last.nll
    assert all(torch.equal(one, other) for one, other in zip(first.values, last.values, strict=True))
    other = by(3, net, [batch()], seed=4)
    assert not all(torch.equal(one, another) for one, another in zip(first.values, other.values, strict=True))


def test_every_share_draws_on_its_own() -> None:
    """Two batches of the same pairs meet different dropout, as must the shares of one."""
    drawn = []

    def loss(part: Batch) -> Loss:
        drawn.append(Dropout(0.5)(torch.ones(64)))
        return batch_loss(net, part, smoothing=0.1)

    net = model(dropout=0.0)
    gradient(loss, list(net.parameters()), [batch(2), batch(2)], seed=(3,), workers=Workers(2, 2))
    assert len(drawn) == len({tuple(each.tolist()) for each in drawn}) == 4


def test_a_draw_is_that_of_the_seed_whatever_else_is_drawn() -> None:
    def one() -> Tensor:
        return Dropout(0.5)(torch.ones(64))

    with drawing(5, torch.device("cpu")):
        alone = one()
    with drawing(5, torch.device("cpu")):
        torch.rand(3)
        assert torch.equal(one(), alone) and not torch.equal(one(), alone)
    assert generator() is None


def test_gradients_lie_as_parameters_do() -> None:
    """The optimiser walks through both as they lie in memory: a transposed gradient would move the wrong weights."""
    weight = torch.randn(3, 4, requires_grad=True)
    unused = torch.randn(3, 4, dtype=torch.bfloat16).t().requires_grad_()

    def loss(part: Batch) -> Loss:
        grown = weight.t().contiguous().square()  # its gradient comes transposed
        return Loss(grown.sum() * part.target_valid.sum(), grown.detach().sum())

    found = gradient(loss, [weight, unused], [batch()], seed=(1,), workers=Workers(1, 1))
    assert [value.stride() for value in found.values] == [weight.stride(), unused.stride()]
    torch.testing.assert_close(found.values[0], 2 * weight.detach())
    assert not found.values[1].any() and found.values[1].dtype == torch.float32


def test_a_parameter_that_nothing_reaches_is_left_as_it_is() -> None:
    """As the keys' projection under attention that only looks at the query; in bfloat16, where masters are wider."""
    net = model(dropout=0.0, dtype=torch.bfloat16)
    net.idle = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = Optimizer(net)
    optimizer.step(0.1, by(1, net, [batch()]).values)
    assert torch.equal(net.idle.detach(), torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_gradients_are_held_at_a_time(number: int) -> None:
    """However many batches an update accumulates: the next is begun when one is taken."""
    begun: list[int] = []
    for taken, _ in enumerate(Workers(number, number).map(begun.append, list(range(40))), start=1):
        assert len(begun) <= taken + number


def test_torch_s_own_draws_are_of_the_seed_with_one_worker() -> None:
    """A mechanism of a user's may ask torch.rand: a resumed run is then still the same run."""
    drawn: list[Tensor] = []

    def loss(part: Batch) -> Loss:
        drawn.append(torch.rand(4))
        return batch_loss(net, part, smoothing=0.1)

    net = model(dropout=0.0)
    for seed in (3, 3, 4):
        gradient(loss, list(net.parameters()), [batch()], seed=(seed,), workers=Workers(1, 1))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_sums_over_batches_are_taken_in_single_precision() -> None:
    """1 + 256 · 2⁻⁹ is 1.5; added one by one in bfloat16, whose next number after 1 is 1 + 2⁻⁷, it stays 1."""
    weight = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
    parts = [batch(1, seed=each) for each in range(257)]
    count = sum(int(part.target_valid.sum()) for part in parts)
    slopes = iter([1.0] + [2.0**-9] * 256)

    def loss(part: Batch) -> Loss:
        found = weight.sum() * (next(slopes) * count)
        return Loss(found, found.detach())

    found = gradient(loss, [weight], parts, seed=(1,), workers=Workers(1, 1))
    assert found.values[0].item() == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize("number", [1, 2])
def test_what_fails_in_a_worker_fails_in_the_trainer(number: int) -> None:
    def loss(part: Batch) -> Loss:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        gradient(loss, [torch.zeros(1, requires_grad=True)], [batch()], seed=(1,), workers=Workers(number, number))


def test_workers_see_the_context_they_are_called_in() -> None:
    """``with kernel(…)`` holds for whoever computes inside it."""
    with kernel("reference"):
        assert list(Workers(2, 2).map(lambda _: _forced.get(), [0, 1])) == ["reference", "reference"]


def test_threads_of_workers_are_their_own() -> None:
    before = torch.get_num_threads()
    counts = list(Workers(2, 4).map(lambda _: torch.get_num_threads(), [0, 1]))
    assert counts == [2, 2] and torch.get_num_threads() == before

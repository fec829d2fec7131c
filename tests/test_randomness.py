"""The streams of random numbers: what is computed twice draws the same, and a fork leaves its stream alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Thread

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.randomness import example_generator, fork, generator, mixed_seed, seeded_generator
from regard.models.dropout import Dropout

CPU = torch.device("cpu")
Enter = Callable[[], AbstractContextManager[None]]


def draws(number: int = 4) -> list[float]:
    return torch.rand(number, generator=generator()).tolist()


def gradients(recomputed: bool, forked: bool) -> list[Tensor]:
    """Of two layers with dropout between them, each computed once, or again in the backward pass."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), Dropout(0.5)) for _ in range(2)]
    x = torch.randn(8, 16)

    def run(layer: nn.Module, enter: Enter, x: Tensor) -> Tensor:
        with enter():
            return layer(x)

    with seeded_generator(5, CPU):
        for layer in layers:
            enter: Enter = fork() if forked else nullcontext
            x = checkpoint(run, layer, enter, x, use_reentrant=False) if recomputed else run(layer, enter, x)
        weights = [weight for layer in layers for weight in layer.parameters()]
        return list(torch.autograd.grad(x.square().sum(), weights))


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_recomputation_draws_the_same_dropout() -> None:
    assert equal(gradients(True, forked=True), gradients(False, forked=True))


def test_without_a_fork_recomputation_is_silently_wrong() -> None:
    """So that the test above can fail: torch's own checkpointing replays torch's generators, not the model's."""
    assert not equal(gradients(True, forked=False), gradients(False, forked=False))


@pytest.mark.parametrize("seeded", [True, False])
def test_each_entry_of_a_fork_draws_the_same_and_each_fork_its_own(seeded: bool) -> None:
    with seeded_generator(5, CPU) if seeded else nullcontext():
        enter, other = fork(), fork()
        with enter():
            first = draws()
        between = draws()
        with other():
            second = draws()
        with enter():
            assert draws() == first
    assert len({tuple(first), tuple(between), tuple(second)}) == 3


def test_a_fork_leaves_the_stream_as_it_was() -> None:
    with seeded_generator(5, CPU):
        undisturbed = draws()
    with seeded_generator(5, CPU):
        with fork()():
            draws(3)
        assert draws() == undisturbed


def test_forks_within_a_fork_are_replayed() -> None:
    def nested() -> list[float]:
        with fork()():
            return draws()

    with seeded_generator(5, CPU):
        enter = fork()
        with enter():
            first = nested()
        with enter():
            assert nested() == first
        assert nested() != first


def test_a_fork_is_the_same_in_another_thread() -> None:
    """An accelerator's backward pass runs in a thread of its own, to which no context is handed."""
    found: list[list[float]] = []
    with seeded_generator(5, CPU):
        enter = fork()
        with enter():
            found.append(draws())

    def elsewhere() -> None:
        with enter():
            found.append(draws())

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found[0] == found[1]


def test_without_a_seeded_stream_a_fork_leaves_torch_s_generator_where_it_was() -> None:
    torch.manual_seed(1)
    enter = fork()
    before = torch.get_rng_state()
    with enter():
        assert generator() is None
        torch.rand(3)
    assert torch.equal(before, torch.get_rng_state())


def test_seeds_are_mixed_so_that_no_two_streams_meet() -> None:
    seeds = {mixed_seed(*numbers) for numbers in ((1, 2), (2, 1), (1, 2, 1), (1,), (3,), (1, 3))}
    assert len(seeds) == 6 and mixed_seed(1, 2) == mixed_seed(1, 2)


def test_an_example_draws_by_its_own_numbers() -> None:
    numbers = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    drawn = {example_generator(*each).bytes(8) for each in numbers}
    assert len(drawn) == 5 and np.array_equal(*(example_generator(1, 2, 3, 4).random(3) for _ in range(2)))

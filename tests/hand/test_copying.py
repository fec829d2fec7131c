"""Copying by hand: the mixture worked out with a pencil, its gradient, and a piece that no target ever had."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.span import Span
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.copying import Pointed, mixture
from regard.models.cross_entropy import smoothed_cross_entropy, smoothed_nll


def test_the_mixture_is_what_a_pencil_says() -> None:
    """Three types of probability 1/4, 1/4, 1/2; half of what is said is copied, of pieces 2, 0, 2 by 1/2, 1/4, 1/4."""
    logits = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64).log()
    pointed = Pointed(
        torch.zeros((), dtype=torch.float64), torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64),
        torch.tensor([2, 0, 2]),
    )  # fmt: skip
    assert mixture(logits, pointed).exp().tolist() == pytest.approx([0.125 + 0.125, 0.125, 0.25 + 0.375], abs=1e-15)
    nothing = pointed._replace(weights=torch.zeros(3, dtype=torch.float64))  # an empty source: all that is left is g
    assert mixture(logits, nothing).exp().sum().item() == pytest.approx(0.5)


@pytest.mark.parametrize("gate", [-200.0, -3.0, 0.0, 40.0])
def test_probabilities_sum_to_one_and_gradients_are_numbers(gate: float) -> None:
    """Where a type has next to no probability in either part, and where the gate is as good as shut."""
    generator = torch.Generator().manual_seed(1)
    logits = (40 * torch.randn(4, 7, generator=generator)).requires_grad_()
    logits.data[:, 6] = -300.0
    weights = torch.rand(4, 5, generator=generator).softmax(-1).requires_grad_()
    gates = torch.full((4,), gate, requires_grad=True)
    log_p = mixture(logits, Pointed(gates, weights, torch.randint(0, 6, (4, 5), generator=generator)))
    assert log_p.exp().sum(-1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)
    log_p[:, 6].sum().backward(retain_graph=True)
    log_p[:, 0].sum().backward()
    for given in (logits, weights, gates):
        assert given.grad is not None and bool(given.grad.isfinite().all())


def test_the_gradient_is_the_derivative() -> None:
    generator = torch.Generator().manual_seed(2)
    logits, weights, gates = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 6), (2, 4), (2,))
    )
    tokens = torch.tensor([[1, 1, 3, 0], [5, 2, 2, 2]])
    assert torch.autograd.gradcheck(
        lambda x, a, g: mixture(x, Pointed(g, a.softmax(-1), tokens)), (logits, weights, gates)
    )


def test_a_shut_pointer_leaves_the_loss_of_the_vocabulary() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(5, 9, generator=generator, dtype=torch.float64)
    pointed = Pointed(
        torch.full((5,), 1e4, dtype=torch.float64), torch.full((5, 2), 0.5, dtype=torch.float64),
        torch.zeros(5, 2, dtype=torch.int64),
    )  # fmt: skip
    target = torch.randint(0, 9, (5,), generator=generator)
    found = smoothed_nll(mixture(logits, pointed), target, smoothing=0.1)
    plain = smoothed_cross_entropy(logits, target, smoothing=0.1)
    assert [float(x) for x in found] == pytest.approx([float(x) for x in plain], abs=1e-12)


@pytest.mark.parametrize("copying", [True, False])
def test_only_a_pointer_says_what_no_target_had(copying: bool) -> None:
    """Targets repeat their source. Types 20 to 29 stand in no target that was learned from, and are said by copying."""
    torch.manual_seed(0)
    config = ModelConfig.model_validate({
        "layers": 1, "width": 32, "feed_forward": 32, "heads": 2, "dropout": 0.0, "copying": copying, "norm": "pre",
    })  # fmt: skip
    model = build(config, source_types=30, target_types=30)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        source = torch.randint(4, 20, (32, 4))
        # Each source also holds a rare type, which its target leaves out.
        read = torch.cat([source, torch.randint(20, 30, (32, 1))], 1)
        begun = torch.cat([torch.full((32, 1), 2), source[:, :-1]], 1)
        found = model.loss(read, Span.without_padding(read), begun, Span.without_padding(begun), source, smoothing=0.0)
        optimizer.zero_grad()
        (found.smoothed / 128).backward()
        optimizer.step()
    rare = torch.randint(20, 30, (200, 4))
    begun = torch.cat([torch.full((200, 1), 2), rare[:, :-1]], 1)
    with torch.no_grad():
        span = Span.without_padding(rare)
        log_p = model.eval().log_probabilities(rare, span, begun, span)
    first = log_p[:, 0, 20:].logsumexp(-1).exp().mean().item()  # a rare type begins
    assert first > 0.5 if copying else first < 0.2
    assert math.isfinite(float(log_p.sum()))

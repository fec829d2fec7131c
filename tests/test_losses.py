"""Cross-entropy against torch's, the fused form against the plain one, and what label smoothing means."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch.nn.functional import cross_entropy, linear

from regard.answers.losses import TEMPERATURES, best_temperature, class_loss
from regard.models.cross_entropy import CHUNK, projected_cross_entropy, smoothed_cross_entropy
from regard.models.encoder_decoder import shift_right

from .tolerances import within

TYPES, WIDTH = 11, 6


def case(rows: int, dtype: torch.dtype):
    features = torch.randn(rows, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(TYPES, WIDTH, dtype=dtype, requires_grad=True)
    return features, weight, torch.randint(0, TYPES, (rows,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_plain_is_torchs(smoothing, dtype):
    logits, target = torch.randn(9, TYPES, dtype=dtype), torch.randint(0, TYPES, (9,))
    loss = smoothed_cross_entropy(logits, target, smoothing=smoothing)
    expected = cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.smoothed, expected, **within(dtype, path="foreign"))
    torch.testing.assert_close(loss.nll, cross_entropy(logits, target, reduction="sum"), **within(dtype))


@pytest.mark.parametrize("rows", [1, 7, CHUNK, CHUNK + 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_fused_is_plain_in_value_and_gradient(rows, smoothing):
    features, weight, target = case(rows, torch.float64)
    inputs = (features, weight)
    plain = smoothed_cross_entropy(linear(features, weight), target, smoothing=smoothing)
    fused = projected_cross_entropy(features, weight, target, smoothing=smoothing)
    torch.testing.assert_close(fused.smoothed, plain.smoothed, **within(torch.float64, path="fused"))
    torch.testing.assert_close(fused.nll, plain.nll, **within(torch.float64, path="fused"))
    expected = torch.autograd.grad(3 * plain.smoothed, inputs)
    for actual, wanted in zip(torch.autograd.grad(3 * fused.smoothed, inputs), expected, strict=True):
        torch.testing.assert_close(actual, wanted, **within(torch.float64, path="fused", law="gradient"))


def test_fused_in_single_precision():
    features, weight, target = case(40, torch.float32)
    plain = smoothed_cross_entropy(linear(features, weight), target, smoothing=0.1)
    fused = projected_cross_entropy(features, weight, target, smoothing=0.1)
    torch.testing.assert_close(fused.smoothed, plain.smoothed, **within(torch.float32, path="fused"))
    inputs = (features, weight)
    wanted = torch.autograd.grad(plain.smoothed, inputs)
    for actual, expected in zip(torch.autograd.grad(fused.smoothed, inputs), wanted, strict=True):
        torch.testing.assert_close(actual, expected, **within(torch.float32, path="fused", law="gradient"))


def test_fused_is_differentiable_by_finite_differences():
    features, weight, target = case(4, torch.float64)

    def smoothed(features, weight):
        return projected_cross_entropy(features, weight, target, smoothing=0.2).smoothed

    assert torch.autograd.gradcheck(smoothed, (features, weight))


def test_without_gradient_the_same_value():
    features, weight, target = case(CHUNK + 5, torch.float64)
    expected = projected_cross_entropy(features, weight, target, smoothing=0.1)
    with torch.no_grad():
        actual = projected_cross_entropy(features, weight, target, smoothing=0.1)
    torch.testing.assert_close(actual.smoothed, expected.smoothed.detach(), **within(torch.float64))
    torch.testing.assert_close(actual.nll, expected.nll.detach(), **within(torch.float64))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_target_whose_probability_underflows(smoothing):
    """e^−400 is 0 in single precision: value and gradient are right all the same."""
    features = torch.tensor([[1.0]], requires_grad=True)
    weight = torch.tensor([[200.0], [-200.0]], requires_grad=True)
    fused = projected_cross_entropy(features, weight, torch.tensor([1]), smoothing=smoothing)
    plain = smoothed_cross_entropy(linear(features, weight), torch.tensor([1]), smoothing=smoothing)
    assert plain.nll.item() == 400
    torch.testing.assert_close(fused.nll, plain.nll)
    torch.testing.assert_close(fused.smoothed, plain.smoothed)
    (actual,), (wanted,) = (torch.autograd.grad(loss.smoothed, [weight]) for loss in (fused, plain))
    torch.testing.assert_close(actual, wanted)


def test_smoothing_is_least_at_the_smoothed_distribution_and_is_its_entropy_there():
    epsilon, types = 0.3, 4
    q = torch.full((1, types), epsilon / types, dtype=torch.float64)
    q[0, 2] += 1 - epsilon
    entropy = -float((q * q.log()).sum())

    def loss(p: torch.Tensor) -> float:
        return float(smoothed_cross_entropy(p.log(), torch.tensor([2]), smoothing=epsilon).smoothed)

    assert loss(q) == pytest.approx(entropy, abs=1e-12)
    for _ in range(20):
        other = torch.softmax(q.log() + 0.3 * torch.randn(1, types, dtype=torch.float64), 1)
        assert loss(other) > entropy


def test_a_uniform_guess_costs_log_types():
    loss = smoothed_cross_entropy(torch.zeros(3, 8), torch.tensor([0, 1, 7]), smoothing=0.1)
    assert float(loss.smoothed) == pytest.approx(3 * math.log(8), abs=1e-5)
    assert float(loss.nll) == pytest.approx(3 * math.log(8), abs=1e-5)


@pytest.mark.parametrize("length", [1, 4])
def test_a_decoder_reads_begin_and_all_but_the_last(length: int) -> None:
    output = torch.arange(2 * length).view(2, length) + 10
    expected = [[7, *row[:-1]] for row in output.tolist()]
    assert shift_right(output, 7).tolist() == expected


@pytest.mark.parametrize(("examples", "margin"), [(1, 5.0), (5, 3.0), (20, 6.0), (400, 9.0), (400, 30.0)])
def test_right_predictions_of_few_examples_do_not_make_a_model_certain(examples: int, margin: float) -> None:
    """Of two classes, n right examples alone have the probability (n + 1/2) / (n + 1); the prior moves it to T = 1."""
    label = torch.arange(examples) % 2
    logits = margin * torch.nn.functional.one_hot(label, 2).double()
    temperature = best_temperature(class_loss(logits, label, smoothing=0.0, evaluating=True).sums)
    alone = margin / math.log(2 * examples + 1)  # log-odds of (n + 1/2) : 1/2
    step = 2 ** (1 / 8)
    assert min(1, alone) / step <= temperature <= max(1, alone) * step

    def objective(t: float) -> float:
        """Examples, one more with a uniform label, and the normal prior of log t with the deviation 1/2."""
        right, wrong = math.log1p(math.exp(-margin / t)), math.log1p(math.exp(margin / t))
        return examples * right + (right + wrong) / 2 + math.log(t) ** 2 / (2 * 0.5**2)

    best = minimize_scalar(lambda x: objective(math.exp(x)), bounds=(-4.2, 4.2), method="bounded").x
    assert abs(math.log(temperature) - best) <= math.log(step)


def test_few_examples_stay_near_one_and_many_are_followed() -> None:
    """Copies of the same ten examples, whose likeliest temperature is far from 1, move it further and further."""
    logits = 6 * torch.nn.functional.one_hot(torch.zeros(10, dtype=torch.int64), 2).double()
    label = torch.tensor([0] * 7 + [1] * 3)  # likeliest: 6 / log(7 / 3) = 7.1
    sums = class_loss(logits, label, smoothing=0.0, evaluating=True).sums
    found = [best_temperature({name: count * value for name, value in sums.items()}) for count in (0.1, 1, 10, 1000)]
    assert found == sorted(found) and 1 < found[0] < 3 < found[1] and found[-1] == pytest.approx(7.1, rel=0.07)


@pytest.mark.parametrize("factor", [0.03, 3.0, 40.0])
def test_the_temperature_of_many_examples_is_that_of_the_likeliest(factor: float) -> None:
    """Labels drawn by the right probabilities, logits that much too large: the factor, by the step of temperatures.

    Networks with much dropout on few nodes have logits a thirtieth as large as those of the right probabilities.
    """
    logits = torch.randn(40_000, 4, generator=torch.Generator().manual_seed(1)).double()
    label = torch.multinomial(logits.softmax(-1), 1, generator=torch.Generator().manual_seed(2))[:, 0]
    sums = class_loss(factor * logits, label, smoothing=0.0, evaluating=True).sums
    assert 0.91 * factor < best_temperature(sums) < 1.1 * factor
    assert best_temperature(sums) == TEMPERATURES[int(sums["scaled_nll"].argmin())]

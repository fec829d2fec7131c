"""SSRU and average attention in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.attention_config import OTHER_MIXERS
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.transformer.average_attention import AverageAttention
from regard.models.transformer.ssru import SimpleRecurrent

from ..laws.cases import other_mixer


def close(actual: Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def span(*valid: list[bool]) -> Span:
    return Span.of(torch.tensor(valid))


def recurrent(*, value: float, forget: float, bias: float) -> SimpleRecurrent:
    """One feature wide: W = ``value``, W_f = ``forget``, b_f = ``bias``."""
    mixer = SimpleRecurrent(1).double()
    with torch.no_grad():
        mixer.value.weight.fill_(value)
        mixer.forget.weight.fill_(forget)
        mixer.forget.bias.fill_(bias)
    return mixer


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(1, -1, 1)


def test_ssru_that_forgets_half_of_it_each_time() -> None:
    """σ(0) = 1/2: c = 2, 1, 3, 1/2 and h its positive part, from W x = 4, 0, 5, −2."""
    mixed = recurrent(value=2.0, forget=0.0, bias=0.0)(
        numbers(2, 0, 2.5, -1), span([True] * 4), torch.zeros(1, 1, dtype=torch.float64)
    )
    close(mixed.output.flatten(), [2, 1, 3, 0.5])
    close(mixed.state, [[0.5]])


def test_ssru_shows_what_is_positive_and_carries_what_is_not() -> None:
    """c = −2, then −1: nothing to see, but it is there."""
    mixed = recurrent(value=1.0, forget=0.0, bias=0.0)(
        numbers(-4, 0), span([True, True]), torch.zeros(1, 1, dtype=torch.float64)
    )
    close(mixed.output.flatten(), [0, 0])
    close(mixed.state, [[-1.0]])


def test_ssru_whose_gate_depends_on_what_it_meets() -> None:
    """W_f x = ln 3 · x: f = 3/4 at x = 1 and 1/4 at x = −1, so c = 1/4, then 1/16 − 3/4."""
    mixed = recurrent(value=1.0, forget=math.log(3), bias=0.0)(
        numbers(1, -1), span([True, True]), torch.zeros(1, 1, dtype=torch.float64)
    )
    close(mixed.output.flatten(), [1 / 4, 0])
    close(mixed.state, [[1 / 16 - 3 / 4]])


@pytest.mark.parametrize("bias, expected", [(800.0, [7.0, 7.0, 7.0]), (-800.0, [2.0, 0.0, 6.0])])
def test_ssru_keeps_all_or_nothing_at_the_ends_of_its_gate(bias: float, expected: list[float]) -> None:
    """f → 1: c stays what it was; f → 0: h = ReLU(W x)."""
    state = torch.full((1, 1), 7.0, dtype=torch.float64)
    mixed = recurrent(value=2.0, forget=0.0, bias=bias)(numbers(1, -2, 3), span([True] * 3), state)
    close(mixed.output.flatten(), expected)


def test_ssru_carries_its_cell_in_float32_where_the_model_is_bfloat16() -> None:
    """In bfloat16 1 + 2⁻⁹ is 1: two hundred small steps would lead nowhere."""
    mixer = recurrent(value=1.0, forget=0.0, bias=math.log(511)).bfloat16()
    ones = torch.ones(1, 200, 1, dtype=torch.bfloat16)
    mixed = mixer(ones, Span.of(torch.ones(1, 200, dtype=torch.bool)), mixer.start(1))
    assert mixed.state.dtype == torch.float32
    assert mixed.output.dtype == torch.bfloat16
    assert float(mixed.state.detach()) == pytest.approx(1 - (511 / 512) ** 200, rel=0.05)


def open_gates(mixer: AverageAttention, *, enter: float, keep: float) -> AverageAttention:
    """Gates that do not look at anything: σ(b)."""
    with torch.no_grad():
        mixer.gate.weight.zero_()
        mixer.gate.bias.copy_(torch.tensor([enter] * mixer.width + [keep] * mixer.width))
    return mixer.double()


def test_average_of_three_numbers() -> None:
    """Means 6, 4, 5 and gates of 1/2: h = (6 + 6)/2, (2 + 4)/2, (7 + 5)/2."""
    mixer = open_gates(AverageAttention(1), enter=0.0, keep=0.0)
    mixed = mixer(numbers(6, 2, 7), span([True] * 3), mixer.start(1))
    close(mixed.output.flatten(), [6, 3, 6])
    close(mixed.state.total, [[15.0]])
    assert mixed.state.seen.tolist() == [3]


def test_average_is_a_product_with_the_matrix_of_one_over_j() -> None:
    """ȳ = M y, M_jk = 1/j for k ≤ j (Zhang et al. 2018, §3.2); and step by step, s_j = s_{j−1} + y_j."""
    mixer = open_gates(AverageAttention(3), enter=-800.0, keep=800.0)
    y = torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    valid = torch.ones(2, 7, dtype=torch.bool)
    matrix = torch.ones(7, 7, dtype=torch.float64).tril() / torch.arange(1, 8)[:, None]
    close(mixer(y, Span.of(valid), mixer.start(2)).output, matrix @ y)
    state, steps = mixer.start(2), []
    for at in range(7):
        mixed = mixer(y[:, at : at + 1], Span(torch.full((2,), at), valid[:, :1]), state)
        state = mixed.state
        steps.append(mixed.output)
    close(torch.cat(steps, 1), matrix @ y)


def test_average_goes_through_its_feed_forward() -> None:
    """FFN(ȳ) = 2 · max(0, ȳ − 1) + 1: the means 3 and 0 become 5 and 1."""
    mixer = open_gates(AverageAttention(1, inner=1), enter=-800.0, keep=800.0)
    with torch.no_grad():
        for parameter, value in zip(mixer.feed_forward.parameters(), (1.0, -1.0, 2.0, 1.0), strict=True):
            parameter.fill_(value)
    close(mixer(numbers(3, -3), span([True, True]), mixer.start(1)).output.flatten(), [5, 1])


@pytest.mark.parametrize(
    "make", [lambda: recurrent(value=1.0, forget=1.0, bias=0.5), lambda: AverageAttention(1).double()]
)
def test_padding_enters_neither_cell_nor_mean(make) -> None:
    """A row without a valid column keeps its state, whatever stands in its padding."""
    mixer = make()
    before = mixer(numbers(2, 3), span([True, True]), mixer.start(1)).state
    after = mixer(numbers(1e9), Span(torch.tensor([2]), torch.tensor([[False]])), before).state
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "mixer, complaint",
    [
        ({"kind": "sru"}, "unknown mixer 'sru'"),
        ({"kind": "ssru", "inner": 4}, "unknown key model.decoder.mixer.inner"),
        ({"kind": "average", "iner": 4}, "did you mean model.decoder.mixer.inner?"),
        ({"kind": "average", "inner": "wide"}, "model.decoder.mixer.inner cannot be 'wide'"),
        ({"kind": "average", "width": 4}, "unknown key model.decoder.mixer.width"),
        ({"kind": "average", "inner": 0}, "inner must be at least 1"),
    ],
)
def test_what_is_no_mixer_is_a_config_error(mixer: dict[str, object], complaint: str) -> None:
    config = ModelConfig(preset="tiny", decoder={"mixer": mixer})
    with pytest.raises(ConfigError, match=complaint) as error:
        build(config, source_types=9, target_types=9)
    assert str(error.value.where).startswith("model.decoder.mixer")


@pytest.mark.parametrize("kind", OTHER_MIXERS)
def test_a_mixer_of_the_table_may_serve_in_a_decoder(kind: str) -> None:
    assert other_mixer(kind).can().causal

"""Attention in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.attention.contract import Mechanism
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.local_predictive import LocalPredictive
from regard.attention.span import Span

E = math.e


def column(*numbers: float) -> Tensor:
    """One head's keys or values, a number each."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)


def look(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, *, keys: int | None = None):
    asking = Span.of(torch.ones(1, query.shape[2], dtype=torch.bool))
    answering = Span.of(torch.arange(key.shape[2])[None] < (keys or key.shape[2]))
    bound = Padding().bind(asking, answering)
    return mechanism.double()(query, key, value, bound, mechanism.start(key, bound), need_weights=True)


def close(actual: Tensor, expected) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def fill(mechanism: Mechanism, **values) -> Mechanism:
    mechanism.double()
    with torch.no_grad():
        for name, value in values.items():
            parameter = getattr(mechanism, name)
            parameter.copy_(torch.tensor(value, dtype=parameter.dtype).view_as(parameter))
    return mechanism


def test_scaled_dot_weighs_one_to_e():
    """q = [0, √2], keys [0, 0] and [0, 1]: energies 0 and √2 · 1 / √2 = 1, weights 1 : e."""
    query = torch.tensor([[[[0.0, math.sqrt(2)]]]], dtype=torch.float64)
    key = torch.tensor([[[[5.0, 0.0], [-3.0, 1.0]]]], dtype=torch.float64)
    context, weights, _ = look(Dot(), query, key, column(10, 20))
    close(weights[0, 0, 0], [1 / (1 + E), E / (1 + E)])
    close(context[0, 0, 0], [10 + 10 * E / (1 + E)])


def test_the_unscaled_product_weighs_one_to_e_to_the_root_of_two():
    query = torch.tensor([[[[0.0, math.sqrt(2)]]]], dtype=torch.float64)
    key = torch.tensor([[[[5.0, 0.0], [-3.0, 1.0]]]], dtype=torch.float64)
    high = math.exp(math.sqrt(2))
    close(look(Dot(scale=1.0), query, key, column(1, 2)).weights[0, 0, 0], [1 / (1 + high), high / (1 + high)])


def test_a_padded_key_leaves_the_others_as_they_were():
    close(look(Dot(), column(0.0), column(1, 2, 99), column(4, 8, 99), keys=2).weights[0, 0, 0], [0.5, 0.5, 0])


def test_one_key_gives_its_value():
    for mechanism in (Dot(), General(heads=1, query_width=1, key_width=1)):
        close(look(mechanism, column(3.0), column(-2.0), column(7.0)).context[0, 0, 0], [7.0])


def test_general_is_a_bilinear_form():
    """qᵀ W k with q = [1, 2], W = [[0, ln 3], [0, 0]]: key [0, 1] has energy ln 3, key [1, 0] has 0: 3 to 1."""
    mechanism = fill(General(heads=1, query_width=2, key_width=2), weight=[0, math.log(3), 0, 0])
    query = torch.tensor([[[[1.0, 2.0]]]], dtype=torch.float64)
    key = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], dtype=torch.float64)
    close(look(mechanism, query, key, column(4, 8)).weights[0, 0, 0], [0.75, 0.25])


@pytest.mark.parametrize("mechanism", [Dot(), General(heads=2, query_width=3, key_width=3)], ids=["dot", "general"])
def test_keys_and_values_in_another_order_change_nothing(mechanism):
    query, key, value = (torch.randn(1, 2, 4, 3, dtype=torch.float64) for _ in range(3))
    order = torch.tensor([2, 0, 3, 1])
    expected = look(mechanism, query, key, value).context
    actual = look(mechanism, query, key[:, :, order], value[:, :, order]).context
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_the_dot_products_variance_is_the_width():
    """E[q·k] = 0 and Var[q·k] = d_k; the scale brings it to 1 (Vaswani et al. 2017, footnote 4)."""
    for width in (4, 64, 256):
        query, key = torch.randn(2, 1, 1, 300, width, dtype=torch.float64).unbind(0)
        assert float(Dot(scale=1.0).energy(query, key).var()) == pytest.approx(width, rel=0.1)
        assert float(Dot().energy(query, key).var()) == pytest.approx(1, rel=0.1)


def local(window: float, *, direction: float = 0.0) -> LocalPredictive:
    """tanh(1 · q) · direction under a score of 0: with direction 0 the center is S / 2."""
    inner = fill(General(heads=1, query_width=1, key_width=1), weight=[0.0])
    return fill(LocalPredictive(inner, heads=1, query_width=1, window=window), center=[1.0], direction=[direction])


def test_local_p_is_a_gaussian_over_a_softmax_and_is_not_renormalized():
    """S = 4, p = 4 · σ(0) = 2, D = 1: keys 1, 2, 3 share 1/3 each, times exp(−(s − 2)² / (2 · ½²)) = e⁻², 1, e⁻²."""
    _, weights, _ = look(local(1), column(5.0), column(0, 0, 0, 0), column(1, 2, 3, 4))
    close(weights[0, 0, 0], [0, math.exp(-2) / 3, 1 / 3, math.exp(-2) / 3])
    assert weights.sum().item() == pytest.approx((1 + 2 * math.exp(-2)) / 3)


def test_local_p_counts_valid_keys_alone():
    """S = 2 of 4 columns: p = 1, D = 1: keys 0 and 1 share ½, times e⁻² and 1."""
    _, weights, _ = look(local(1), column(5.0), column(0, 0, 9, 9), column(1, 2, 3, 4), keys=2)
    close(weights[0, 0, 0], [math.exp(-2) / 2, 0.5, 0, 0])


def test_local_p_with_a_window_wider_than_everything_is_global():
    mechanism = local(1e6, direction=0.3)
    fill(mechanism.score, weight=[1.0])
    query, key, value = column(0.5, 1.0), column(1, 2, 3), column(4, 5, 6)
    expected = look(mechanism.score, query, key, value).weights
    torch.testing.assert_close(look(mechanism, query, key, value).weights, expected, rtol=1e-10, atol=1e-10)


def test_local_p_gradient_runs_through_the_gaussian_alone():
    """∂a(s)/∂p = a(s)(s − p)/σ² and ∂p/∂v = p (1 − p/S) tanh(W q), σ = D/2."""
    mechanism = local(3, direction=0.4).double()
    query, key = column(0.7), column(0, 0, 0, 0, 0)
    _, weights, _ = look(mechanism, query, key, column(1, 2, 3, 4, 5))
    hidden = math.tanh(0.7)
    p = 5 / (1 + math.exp(-mechanism.direction.item() * hidden))
    for s in range(5):
        (gradient,) = torch.autograd.grad(weights[0, 0, 0, s], mechanism.direction, retain_graph=True)
        expected = weights[0, 0, 0, s].item() * (s - p) / 1.5**2 * p * (1 - p / 5) * hidden
        assert float(gradient) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_identity_projections_leave_one_head_alone():
    attention = MultiHead(3, heads=1, mechanism=Dot(), project=()).double()
    assert not list(attention.parameters())
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    span = Span.of(torch.ones(1, 4, dtype=torch.bool))
    key, value = attention.keys_values(x)
    context = attention(attention.queries(x), key, value, Padding().bind(span, span)).output
    expected = torch.softmax(x @ x.transpose(1, 2) / math.sqrt(3), -1) @ x
    torch.testing.assert_close(context, expected, rtol=1e-12, atol=1e-12)


def test_an_identity_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a query projection is required: 4 features cannot become 6"):
        MultiHead(4, heads=2, key_width=3, mechanism=Dot(), project=("key", "value", "output"))


@torch.no_grad()
def test_a_cache_grows_by_32_slots_and_no_sooner_than_it_must() -> None:
    """After the first piece, which is its own cache; copied for each column it would cost the square of the length."""
    mixer = SelfAttention(MultiHead(4, heads=2, mechanism=Dot()), mask=Causal() & Padding())
    state, fed = mixer.start(2), 0
    for columns in (1, 30, 1, 1, 40, 23, 1):
        fed += columns
        span = Span(state.length, torch.ones(2, columns, dtype=torch.bool))
        state = mixer(torch.randn(2, columns, 4), span, state).state
        slots = 1 if fed == 1 else 32 * math.ceil(fed / 32)
        assert state.key.shape[2] == state.value.shape[2] == slots
        assert state.length.tolist() == [fed, fed]

"""The scores and windows of the recurrent papers, in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.attention.catalog import build_mechanism
from regard.attention.contract import Mechanism
from regard.attention.mask import Padding
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.cosine import Cosine
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.hard import Hard
from regard.attention.mechanisms.local_monotonic import LocalMonotonic
from regard.attention.mechanisms.location import Location
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig

LN3 = math.log(3)


def column(*numbers: float) -> Tensor:
    """One head's queries, keys or values, a number each."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)


def points(*vectors: tuple[float, ...]) -> Tensor:
    """One head's queries or keys, a vector each."""
    return torch.tensor(vectors, dtype=torch.float64)[None, None]


def look(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, *, keys: int | None = None, first: int = 0):
    """The first ``keys`` keys are valid; the first query stands at position ``first``."""
    asking = Span(torch.full((len(query),), first), torch.ones(len(query), query.shape[2], dtype=torch.bool))
    answering = Span.of((torch.arange(key.shape[2]) < (keys or key.shape[2])).expand(len(key), -1))
    bound = Padding().bind(asking, answering)
    return mechanism.double()(query, mechanism.prepare(key), value, bound, need_weights=True)


def weights(mechanism: Mechanism, query: Tensor, key: Tensor, **options: int) -> Tensor:
    """Of the first head, query by key."""
    return look(mechanism, query, key, key, **options).weights[0, 0]


def close(actual: Tensor, expected) -> None:
    expected = expected if isinstance(expected, Tensor) else torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


def fill(mechanism: Mechanism, **values) -> Mechanism:
    mechanism.double()
    with torch.no_grad():
        for name, value in values.items():
            parameter = getattr(mechanism, name)
            parameter.copy_(torch.tensor(value, dtype=parameter.dtype).view_as(parameter))
    return mechanism


def additive(**options) -> Additive:
    """v tanh(q + k) of one number, v = ln 3 / tanh 1: the energy is ln 3 where q + k = 1, and 0 where it is 0."""
    made = Additive(heads=1, query_width=1, key_width=1, **options)
    fill(made.content, query_weight=[1.0], key_weight=[1.0], vector=[LN3 / math.tanh(1)])
    return made


# --- additive -------------------------------------------------------------------------------------------------------


def test_additive_weighs_by_the_tanh_of_a_sum():
    close(weights(additive(), column(0), column(0, 1)), [[1 / 4, 3 / 4]])
    close(weights(additive(), column(1), column(0, -1)), [[3 / 4, 1 / 4]])


def test_sharpening_multiplies_the_energy_and_the_sigmoid_shares_out_sigmoids():
    close(weights(additive(sharpening=2.0), column(0), column(0, 1)), [[1 / 10, 9 / 10]])
    # σ(0) = 1/2 and σ(ln 3) = 3/4
    close(weights(additive(normalize="sigmoid"), column(0), column(0, 1, 0), keys=2), [[2 / 5, 3 / 5, 0]])


def test_additive_is_luongs_concat_of_any_two_widths():
    """vᵀ tanh(W_a [q; k]) over all pairs, written out, with W_a = [W U]."""
    made = Additive(heads=2, query_width=3, key_width=5, width=4).double()
    query, key = torch.randn(2, 2, 6, 3, dtype=torch.float64), torch.randn(2, 2, 7, 5, dtype=torch.float64)
    content = made.content
    whole = torch.cat([content.query_weight, content.key_weight], 2)
    pairs = torch.cat([query[:, :, :, None].expand(-1, -1, -1, 7, -1), key[:, :, None].expand(-1, -1, 6, -1, -1)], -1)
    expected = torch.einsum(
        "hn,bhtsn->bhts", content.vector, torch.tanh(torch.einsum("hnc,bhtsc->bhtsn", whole, pairs))
    )
    close(made.energy(query, made.prepare(key)), expected)


def test_without_a_weight_for_the_query_all_queries_look_alike():
    made = Additive(heads=1, query_width=2, key_width=2)
    fill(made.content, query_weight=[0.0] * 4)
    seen = weights(made, torch.randn(1, 1, 3, 2, dtype=torch.float64), torch.randn(1, 1, 4, 2, dtype=torch.float64))
    close(seen[1:], seen[:1].expand(2, -1))
    assert seen[0].std() > 1e-3


def test_additive_with_nothing_of_its_own_is_espnets_over_projected_heads():
    """vᵀ tanh(q + k); and what W, U and b add, a projection outside can do as well."""
    query, key = torch.randn(2, 1, 2, 3, 4, dtype=torch.float64).unbind(0)
    bare = Additive(heads=2, query_width=4, key_width=4, learned=()).double()
    expected = (torch.tanh(query[:, :, :, None] + key[:, :, None]) * bare.content.vector[:, None, None]).sum(-1)
    close(bare.energy(query, key), expected)
    assert [name for name, _ in bare.named_parameters()] == ["content.vector"]

    whole = Additive(heads=2, query_width=4, key_width=4, learned=("query", "key", "bias")).double()
    content = whole.content
    torch.nn.init.normal_(content.bias)
    bare.load_state_dict({"content.vector": content.vector})
    asked = torch.einsum("bhtd,hnd->bhtn", query, content.query_weight)
    answered = torch.einsum("bhsd,hnd->bhsn", key, content.key_weight) + content.bias[:, None]
    close(bare.energy(asked, answered), whole.energy(query, whole.prepare(key)))


def test_a_side_without_weights_of_its_own_gives_the_width():
    assert Additive(heads=1, query_width=3, key_width=5, learned=("query",)).content.vector.shape == (1, 5)
    assert Additive(heads=1, query_width=3, key_width=5, learned=("key",)).content.vector.shape == (1, 3)
    with pytest.raises(
        ValueError, match="a query with 3 features and no learned weights cannot be added to 5 hidden units"
    ):
        Additive(heads=1, query_width=3, key_width=5, learned=())
    with pytest.raises(ValueError, match="learned accepts query, key, bias, got value"):
        Additive(heads=1, query_width=3, key_width=3, learned=("key", "value"))


# --- location -------------------------------------------------------------------------------------------------------


def test_location_looks_at_places_whatever_stands_there():
    """W_a q = [0, ln 2, ln 5] at q = 1; two keys use the first two rows."""
    made = fill(Location(heads=1, query_width=1, longest=3), weight=[0, math.log(2), math.log(5)])
    for keys in (column(0, 0, 0), column(7, -3, 100)):
        close(weights(made, column(1), keys), [[1 / 8, 2 / 8, 5 / 8]])
    close(weights(made, column(1), column(7, -3)), [[1 / 3, 2 / 3]])


def test_location_ignores_the_end_of_a_longer_sentence():
    made = fill(Location(heads=1, query_width=1, longest=2), weight=[0, math.log(2)])
    key = column(1, 1, 1, 1).requires_grad_()
    context, seen, _ = look(made, column(1), key, key)
    close(seen[0, 0], [[1 / 3, 2 / 3, 0, 0]])
    gradients = torch.autograd.grad(context.sum(), [key, made.weight])
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_location_says_when_it_will_ignore_something():
    made = Location(heads=1, query_width=1, longest=2)
    assert made.warning(2) is None
    assert "covers 2 positions (longest) and ignores later ones" in str(made.warning(3))


# --- cosine ---------------------------------------------------------------------------------------------------------


def test_cosine_weighs_by_the_angle_alone():
    """q = [3, 4]: one key points the same way, one stands at a right angle; scale ln 4 makes that 4 to 1."""
    made = Cosine(heads=1, scale=math.log(4))
    for stretch in (1.0, 1e-3, 1e3):
        query, key = points((3 * stretch, 4 * stretch)), points((6, 8), (-4 * stretch, 3 * stretch))
        torch.testing.assert_close(weights(made, query, key), points((4 / 5, 1 / 5))[0, 0], rtol=1e-6, atol=1e-6)


def test_cosine_sharpness_is_learned_and_bounds_the_energy():
    made = Cosine(heads=2, scale=7.0).double()
    energy = made.energy(*torch.randn(2, 3, 2, 5, 4, dtype=torch.float64).unbind(0))
    assert 3 < energy.abs().max() <= 7
    (gradient,) = torch.autograd.grad(energy[:, 0].square().sum(), made.sharpness)
    assert gradient[0] != 0 and gradient[1] == 0, "each head has its own"


def test_cosine_of_nothing_is_nothing_and_has_a_finite_gradient():
    query, key = points((0, 0), (1, 0)).requires_grad_(), points((0, 0), (0, 2)).requires_grad_()
    energy = Cosine(heads=1).double().energy(query, key)
    close(energy[0, 0], [[0.0, 0.0], [0.0, 0.0]])
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(energy.sum(), [query, key]))


# --- local-m --------------------------------------------------------------------------------------------------------


def indifferent() -> General:
    """A score that gives every pair the energy 0."""
    return fill(General(heads=1, query_width=1, key_width=1), weight=[0.0])


def test_a_monotonic_window_moves_with_the_query_and_leaves_the_sentence():
    """Energies of 0, D = 1, three valid keys: queries 0 to 4 look at {0, 1}, {0, 1, 2}, {1, 2}, {2}, nothing."""
    query, key = column(9, 9, 9, 9, 9), column(1, 2, 4, 99)
    context, seen, _ = look(LocalMonotonic(indifferent(), window=1), query, key, key, keys=3)
    half, third = 1 / 2, 1 / 3
    expected = [[half, half, 0, 0], [third, third, third, 0], [0, half, half, 0], [0, 0, 1, 0], [0.0] * 4]
    close(seen[0, 0], expected)
    close(context[0, 0, :, 0], [1.5, 7 / 3, 3, 4, 0])


def test_a_monotonic_window_knows_absolute_positions():
    made = LocalMonotonic(indifferent(), window=1)
    close(weights(made, column(9), column(1, 2, 4, 8, 16), first=3), [[0, 0, 1 / 3, 1 / 3, 1 / 3]])


def test_a_monotonic_window_wider_than_the_sentence_is_global_attention():
    score = General(heads=2, query_width=3, key_width=3).double()
    query, key = torch.randn(2, 4, 2, 5, 3, dtype=torch.float64).unbind(0)
    local = look(LocalMonotonic(score, window=5), query, key, key)
    close(local.context, look(score, query, key, key).context)


# --- hard -----------------------------------------------------------------------------------------------------------


def test_hard_reads_exactly_one_key():
    query, key = column(1, -1), column(0.1, 0.3, -0.2, 9)
    context, seen, _ = look(Hard(Dot()), query, key, column(5, 6, 7, 8), keys=3)
    assert seen[0, 0].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert context.flatten().tolist() == [6, 7]


def test_of_equal_energies_the_first_is_chosen():
    assert weights(Hard(indifferent()), column(1), column(3, 2, 1)).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_gradient_goes_straight_through_to_the_softmax(temperature):
    """For queries, keys and parameters, that of softmax(e / τ); for values, that of the chosen one alone."""
    score = General(heads=2, query_width=3, key_width=3).double()
    query, key, value, slope = torch.randn(4, 1, 2, 5, 3, dtype=torch.float64).unbind(0)
    inputs = [query.requires_grad_(), key.requires_grad_(), score.weight]
    soft = torch.softmax(score.energy(query, key) / temperature, -1)
    expected = torch.autograd.grad((torch.einsum("bhts,bhsv->bhtv", soft, value) * slope).sum(), inputs)

    value.requires_grad_()
    context, chosen, _ = look(Hard(score, temperature=temperature), query, key, value)
    *actual, of_value = torch.autograd.grad((context * slope).sum(), [*inputs, value])
    for one, other in zip(actual, expected, strict=True):
        close(one, other)
        assert other.any()
    close(of_value, torch.einsum("bhts,bhtv->bhsv", chosen, slope))
    assert set(chosen.flatten().tolist()) == {0.0, 1.0}


# --- put together ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", ["local-m", "local-p", "hard"])
@pytest.mark.parametrize(
    "score",
    [{"kind": "additive", "width": 3}, {"kind": "general"}, "general", {"kind": "location", "longest": 4}],
    ids=str,
)
def test_windows_and_choices_take_any_score_between_two_widths(outer, score):
    sizes = {"heads": 2, "query_width": 4, "key_width": 6}
    made = build_mechanism(outer, {"score": score}, where="model.x", sizes=sizes)
    query, key = torch.randn(1, 2, 3, 4, dtype=torch.float64), torch.randn(1, 2, 5, 6, dtype=torch.float64)
    context, seen, _ = look(made, query, key, key)
    close(torch.einsum("bhts,bhsv->bhtv", seen, key), context)
    assert seen.any()


@pytest.mark.parametrize(
    "kind, options, complaint",
    [
        ("local-m", {"window": 0}, "≥ 1 .*got 0"),
        ("local-m", {"window": 2.5}, "whole number|window"),
        ("local-p", {"window": 0}, "window must be at least 1"),
        ("hard", {"temperature": 0.0}, "temperature must be greater than 0"),
        ("location", {"longest": 0}, "at least 1, got 0"),
        ("additive", {"normalize": "relu"}, "relu|normalize"),
        ("hard", {"score": {"kind": "local-p"}}, "'local-p' cannot be the score of another mechanism"),
        ("hard", {"score": 3}, "a score must be a kind"),
    ],
)
def test_what_cannot_be_built_says_why(kind, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        build_mechanism(kind, options, where="model.x", sizes={"heads": 2, "query_width": 4, "key_width": 4})


@pytest.mark.parametrize("kind", ["additive", "cosine", "hard", "local-m", "location"])
def test_a_model_of_each_kind_learns_from_a_gradient(kind):
    """As reader and as causal self-attention, through the config."""
    config = ModelConfig(preset="tiny", cross_attention={"kind": kind}, mixer={"kind": kind})
    model = build(config, source_types=9, target_types=9)
    tokens = torch.tensor([[4, 5, 6]])
    model(tokens, Span.of(tokens > 0), tokens, Span.of(tokens > 0)).square().mean().backward()
    for name, parameter in model.named_parameters():
        if ".mechanism." in name:
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name

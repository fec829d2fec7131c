"""Mechanisms that remember where they looked, in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism
from regard.attention.heads import MultiHead
from regard.attention.mask import Padding
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.coverage import Coverage
from regard.attention.mechanisms.coverage_location_aware import CoverageLocationAware
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.forward import FLOOR, Forward
from regard.attention.mechanisms.location_aware import LocationAware
from regard.attention.mechanisms.location_aware_2d import LocationAware2D
from regard.attention.mechanisms.location_recurrent import LocationRecurrent
from regard.attention.mechanisms.multi_resolution import MultiResolution
from regard.attention.mechanisms.tanh_dot import TanhDot
from regard.attention.previous_weights import PreviousWeights, initial_weights
from regard.attention.span import Span

ONE = {"heads": 1, "query_width": 1, "key_width": 1}
SMALL = ONE | {"width": 1, "channels": 1, "reach": 1}
FAMILY = {
    "location-aware": lambda: LocationAware(**SMALL),
    "location-aware-2d": lambda: LocationAware2D(**SMALL),
    "location-recurrent": lambda: LocationRecurrent(**SMALL),
    "multi-resolution": lambda: MultiResolution(**SMALL),
    "coverage": lambda: Coverage(**ONE),
    "coverage-location-aware": lambda: CoverageLocationAware(**SMALL),
    "forward": lambda: Forward(**SMALL),
}
family = pytest.mark.parametrize("name", FAMILY)


def column(*numbers: float) -> Tensor:
    """One head's keys or values, a number each."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)


def look(mechanism: Mechanism, query: Tensor, key: Tensor, *, keys: int | None = None, state=None) -> Attended:
    """With the keys as values; ``state`` None is the beginning."""
    asking = Span.of(torch.ones(1, query.shape[2], dtype=torch.bool))
    answering = Span.of(torch.arange(key.shape[2])[None] < (keys or key.shape[2]))
    bound = Padding().bind(asking, answering)
    before = mechanism.double().start(key, bound) if state is None else state
    return mechanism(query, mechanism.prepare(key), key, bound, before, need_weights=True)


def weights(mechanism: Mechanism, query: Tensor, key: Tensor, **options) -> Tensor:
    """Of the first row's only head, or of all its heads."""
    return look(mechanism, query, key, **options).weights[0].squeeze(0)


def close(actual: Tensor, expected) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), expected, rtol=1e-12, atol=1e-12)


def fill(module: nn.Module, **values: float | list[float]) -> nn.Module:
    """Parameters by name, ``content_vector`` for content.vector; those not named become 0, the vector 1."""
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            given = values.pop(name.replace(".", "_"), 1.0 if name == "content.vector" else 0.0)
            parameter.copy_(torch.tensor(given, dtype=parameter.dtype).expand(parameter.numel()).view_as(parameter))
    assert not values, f"no such parameters: {values}"
    return module


def told(*energies: float) -> list[float]:
    """softmax(energies)."""
    return torch.softmax(torch.tensor(energies, dtype=torch.float64), 0).tolist()


def bold(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter)
    return module


def test_location_aware_shifts_with_what_it_saw_last():
    """F copies the weight of the left neighbor, energy = tanh(U · that): uniform thirds give (0, ⅓, ⅓)."""
    mechanism = fill(LocationAware(**SMALL), filters_weight=[1, 0, 0], location_weight=3.0)
    seen = look(mechanism, column(0, 0), column(0, 0, 0))
    first = told(0, math.tanh(1), math.tanh(1))
    close(seen.weights[0, 0], [first, told(0, math.tanh(3 * first[0]), math.tanh(3 * first[1]))])
    close(seen.state.weights[0, 0], seen.weights[0, 0, 1])


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_sharpening_multiplies_energies(beta: float):
    """Last look at the first of two keys, F copies it: energies tanh(1) and 0, so the odds are e^(β tanh 1)."""
    mechanism = fill(LocationAware(**SMALL, sharpening=beta, initial="first"),
                     filters_weight=[0, 1, 0], location_weight=1.0)  # fmt: skip
    first, second = weights(mechanism, column(0), column(0, 0))[0]
    assert (first / second).item() == pytest.approx(math.exp(beta * math.tanh(1)))


def test_smoothing_divides_sigmoids_by_their_sum():
    """Energies tanh(1) and 0: σ(tanh 1) and ½ over their sum; a padded third key has no part in it."""
    mechanism = fill(LocationAware(**SMALL, normalize="sigmoid", initial="first"),
                     filters_weight=[0, 1, 0], location_weight=1.0)  # fmt: skip
    high = 1 / (1 + math.exp(-math.tanh(1)))
    expected = [high / (high + 0.5), 0.5 / (high + 0.5), 0.0]
    close(weights(mechanism, column(0), column(0, 0, 0), keys=2)[0], expected)


@pytest.mark.parametrize("initial, expected", [
    ("uniform", [[0.5, 0.5, 0], [1 / 3] * 3]),
    ("first", [[1, 0, 0], [1, 0, 0]]),
    ("nowhere", [[0, 0, 0], [0, 0, 0]]),
])  # fmt: skip
def test_the_first_look_leaves_padding_out(initial, expected):
    span = Span.of(torch.tensor([[True, True, False], [True, True, True]]))
    key = torch.zeros(2, 1, 3, 1, dtype=torch.float64)
    for made in (LocationAware(**SMALL, initial=initial), Coverage(**ONE, initial=initial)):
        close(made.start(key, Padding().bind(span, span)).weights[:, 0], expected)


def test_another_first_look_is_refused():
    with pytest.raises(ValueError, match="initial must be one of uniform, first, nowhere, got 'last'"):
        initial_weights("last")


@pytest.mark.parametrize("name", ["location-aware", "location-aware-2d", "multi-resolution", "coverage",
                                  "coverage-location-aware"])  # fmt: skip
def test_blind_to_its_past_it_is_additive(name):
    """U = 0 (c = 0): what remains is vᵀ tanh(W q + U k), with the same scale."""
    mechanism = bold(FAMILY[name]())
    additive = bold(Additive(**ONE, learned=("query", "key", "bias"), width=1))
    with torch.no_grad():
        getattr(mechanism, "coverage_weight" if name == "coverage" else "location_weight").zero_()
    additive.content.load_state_dict(mechanism.content.state_dict())
    query, key = column(0.3, -1, 2), column(1, 2, -0.5, 0.1)
    close(weights(mechanism, query, key), weights(additive, query, key))


@pytest.mark.parametrize("name", ["location-aware", "location-aware-2d", "multi-resolution", "coverage-location-aware",
                                  "forward"])  # fmt: skip
def test_equal_frames_are_told_apart_by_where_they_stand(name):
    """Keys 0 and 2 are the same; only the filters and the shift know that they stand elsewhere."""
    key, query = column(0.2, 0.7, 0.2), column(0.1, 0.1)
    by_place = weights(bold(FAMILY[name]()), query, key)
    assert (by_place[:, 0] - by_place[:, 2]).abs().min() > 1e-3


@pytest.mark.parametrize("mechanism", [Dot(), TanhDot(), bold(Additive(**ONE)), bold(LocationRecurrent(**SMALL)),
                                       bold(Coverage(**ONE))], ids=lambda each: type(each).__name__)  # fmt: skip
def test_equal_frames_are_equal_to_content_and_to_what_has_no_filters(mechanism):
    """Coverage sees them apart only once it has looked at them differently, and it never does."""
    by_content = weights(mechanism, column(1, 1, 0.5), column(2, 7, 2))
    close(by_content[:, 0], by_content[:, 2])


@family
def test_padded_frames_have_no_weight_at_all(name):
    attended = look(bold(FAMILY[name]()), column(1, -1, 2), column(1, 2, 3, 4, 5), keys=3)
    assert not attended.weights[..., 3:].any()
    assert attended.weights[..., :3].sum(-1).allclose(torch.ones(3, dtype=torch.float64))


@family
def test_one_utterance_leaves_nothing_to_the_next(name):
    mechanism, query, key = bold(FAMILY[name]()), column(1, -1), column(1, 2, 3)
    before = weights(mechanism, query, key)
    look(mechanism, column(5, 5, 5), column(-3, 4))
    assert torch.equal(weights(mechanism, query, key), before)


def test_resolutions_are_the_reference_s():
    made = MultiResolution(heads=4, query_width=2, key_width=2, channels=3, reach=100)
    assert [each.reach for each in made.filters] == [25, 50, 75, 100]
    assert [each.weight.shape for each in made.filters] == [(3, 1, 51), (3, 1, 101), (3, 1, 151), (3, 1, 201)]


def test_heads_of_one_resolution_are_location_aware():
    """With half-widths (1, 1) the filters of both heads, side by side, are those of the plain mechanism."""
    sizes = {"heads": 2, "query_width": 2, "key_width": 2, "channels": 2}
    several, one = bold(MultiResolution(**sizes, reach=[1, 1])), bold(LocationAware(**sizes, reach=1))
    state = several.state_dict()
    state["filters.weight"] = torch.cat([state.pop(f"filters.{n}.weight") for n in range(2)])
    one.load_state_dict(state)
    query, key = torch.randn(1, 2, 3, 2, dtype=torch.float64), torch.randn(1, 2, 4, 2, dtype=torch.float64)
    close(weights(several, query, key), weights(one, query, key).detach())


def test_each_head_sees_as_far_as_its_filters():
    """Last look at the first of four keys, filters of ones: head 0 (F = 1) sees it from key 1, head 1 (F = 2)
    from key 2 as well. Energies tanh(1) there and 0 beyond."""
    made = fill(MultiResolution(heads=2, query_width=1, key_width=1, channels=1, reach=2, initial="first"),
                filters_0_weight=1.0, filters_1_weight=1.0, location_weight=1.0)  # fmt: skip
    query, key = torch.zeros(1, 2, 1, 1, dtype=torch.float64), torch.zeros(1, 2, 4, 1, dtype=torch.float64)
    high = math.tanh(1)
    close(weights(made, query, key)[:, 0], [told(high, high, 0, 0), told(high, high, high, 0)])


def test_without_own_weights_query_and_key_enter_as_they_are():
    """ESPnet's heads project: e = gᵀ tanh(k + q + U f). With q = ½ and keys 0 and 1: tanh ½ and tanh 1½."""
    made = fill(LocationAware(**(SMALL | {"width": None}), learned=()))
    assert {name for name, _ in made.named_parameters()} == {"content.vector", "filters.weight", "location_weight"}
    close(weights(made, column(0.5), column(0, 1))[0], told(math.tanh(0.5), math.tanh(1.5)))


def test_one_head_with_identities_reads_by_the_score_alone():
    """MultiHead with W_o = W_v = I: the context is Σ α h, with α of the mechanism asked directly."""
    mechanism = bold(LocationAware(heads=1, query_width=3, key_width=3, channels=2, reach=1))
    attention = MultiHead(3, heads=1, mechanism=mechanism, project=()).double()
    h, z = torch.randn(1, 4, 3, dtype=torch.float64), torch.randn(1, 2, 3, dtype=torch.float64)
    bound = Padding().bind(*(Span.of(torch.ones(1, n, dtype=torch.bool)) for n in (2, 4)))
    key, value = attention.keys_values(h)
    key = mechanism.prepare(key)
    mixed = attention(attention.queries(z), key, value, bound, mechanism.start(key, bound))
    close(mixed.output[0], (weights(mechanism, z[:, None], h[:, None]) @ h[0]).detach())


def test_tanh_dot_is_bounded():
    """tanh(±∞) = ±1: two features, so energies ±2 / √2, or ±2 · 2 with ESPnet's scale for one head."""
    query = torch.tensor([[[[100.0, 100.0]]]], dtype=torch.float64)
    key = torch.tensor([[[[100.0, 100.0], [-100.0, -100.0]]]], dtype=torch.float64)
    close(weights(TanhDot(), query, key)[0], told(math.sqrt(2), -math.sqrt(2)))
    close(weights(TanhDot(scale=2.0), query, key)[0], told(4, -4))


def test_coverage_adds_up_what_was_looked_at():
    """c = −1 and two keys: sums ½ and ½ at first, so equal energies; the key looked at more is then left for the
    other. With sums (1½, ½): energies tanh(−1½) and tanh(−½)."""
    made = fill(Coverage(**ONE), coverage_weight=-1.0)
    seen = look(made, column(0), column(0, 0))
    close(seen.weights[0, 0], [[0.5, 0.5]])
    close(seen.state.weights[0, 0], [1.0, 1.0])
    ahead = PreviousWeights(torch.tensor([[[1.5, 0.5]]], dtype=torch.float64))
    after = look(made, column(0), column(0, 0), state=ahead)
    expected = told(math.tanh(-1.5), math.tanh(-0.5))
    close(after.weights[0, 0], [expected])
    close(after.state.weights[0, 0], [1.5 + expected[0], 0.5 + expected[1]])


def test_coverage_through_filters_sees_the_sum():
    """F copies the left neighbor's sum; two looks on the first of two keys give the second key tanh(2)."""
    made = fill(CoverageLocationAware(**SMALL), filters_weight=[1, 0, 0], location_weight=1.0)
    twice = PreviousWeights(torch.tensor([[[2.0, 0.0]]], dtype=torch.float64))
    seen = look(made, column(0), column(0, 0), state=twice)
    expected = told(0, math.tanh(2))
    close(seen.weights[0, 0], [expected])
    close(seen.state.weights[0, 0], [2 + expected[0], expected[1]])


def test_forward_stays_or_moves_on_by_one():
    """y = ⅓ each, α_0 = (1, 0, 0): α̂_1 = (⅓, ⅓, floor); then (½ · ⅓, 1 · ⅓, ½ · ⅓) but for the floor."""
    seen = weights(fill(Forward(**SMALL)), column(0, 0), column(0, 0, 0))
    total = 2 / 3 + FLOOR
    first = [1 / 3 / total, 1 / 3 / total, FLOOR / total]
    close(seen[0], first)
    moved = torch.tensor([first[0], first[0] + first[1], first[1] + first[2]], dtype=torch.float64)
    close(seen[1], (moved / moved.sum()).tolist())
    torch.testing.assert_close(
        seen[1].detach(), torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64), rtol=0, atol=2e-6
    )


def test_forward_cannot_skip():
    """Additive attention goes where the key asks, at once; forward attention gets there by way of the keys between."""
    key = column(-1, -1, -1, -1, 1)
    wanted = Additive(**ONE)
    fill(wanted.content, key_weight=5.0, vector=3.0)
    assert weights(wanted, column(0), key)[0, 4] > 0.98
    seen = weights(fill(Forward(**SMALL), content_key_weight=5.0, content_vector=1.5), column(0, 0, 0, 0), key)
    assert (seen[:3, 4] < 0.1).all()
    assert seen[3, 4] > 0.5


def test_the_last_looks_stand_in_order_newest_last():
    """P = 2, filters that see the older look alone: the second query sees α_0, not α_1."""
    made = fill(LocationAware2D(**SMALL, past=2, initial="first"), filters_weight=[0, 1, 0, 0, 0, 0],
                content_query_weight=1.0, location_weight=1.0)  # fmt: skip
    seen = weights(made, column(0, 0, 0), column(0, 0))
    start = told(math.tanh(1), 0)
    close(seen, [start, start, told(math.tanh(start[0]), math.tanh(start[1]))])


def test_one_look_in_two_dimensions_is_location_aware():
    flat, deep = bold(LocationAware(**SMALL)), bold(LocationAware2D(**SMALL, past=1))
    deep.load_state_dict(flat.state_dict())
    query, key = column(1, -1, 0.5), column(1, 2, 3, -1)
    close(weights(deep, query, key), weights(flat, query, key).detach())


def test_the_recurrent_memory_is_an_lstm_cell():
    """Against torch's cell, fed with max_j relu(F ∗ α)_j by hand."""
    made = bold(LocationRecurrent(heads=1, query_width=2, key_width=2, channels=3, reach=1))
    cell = nn.LSTMCell(3, 2, bias=False).double()
    cell.load_state_dict({"weight_ih": made.input_weight[0], "weight_hh": made.hidden_weight[0]})
    query, key = torch.randn(1, 1, 3, 2, dtype=torch.float64), torch.randn(1, 1, 4, 2, dtype=torch.float64)
    last, state = torch.full((1, 1, 4), 0.25, dtype=torch.float64), None
    for i in range(3):
        found = nn.functional.conv1d(last, made.filters.weight, padding=1).relu().amax(-1)
        state = cell(found, state)
        hidden = (
            made.content.project_query(query[:, :, i : i + 1]) + made.content.project_key(key) + state[0][:, None, None]
        )
        last = (hidden.tanh() @ made.content.vector[0]).softmax(-1)
    close(look(made, query, key).state.previous.weights, last.detach())


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "coverage"])
def test_filters_wider_than_the_source_are_remarked_upon(name):
    mechanism = FAMILY[name]()
    assert mechanism.warning(3) is None
    assert mechanism.warning(2) == "the location filter of width 3 is wider than the longest source (2 tokens)"


@pytest.mark.parametrize("kind", [Coverage, CoverageLocationAware])
def test_a_sum_of_weights_takes_small_ones_in_bfloat16_too(kind):
    """1 + 1/512 is 1 in bfloat16: five looks at 512 equal keys would leave the first at 1."""
    mechanism = kind(**ONE, initial="first").to(torch.bfloat16)
    nn.init.zeros_(mechanism.content.vector)
    keys, queries = torch.zeros(1, 1, 512, 1, dtype=torch.bfloat16), torch.zeros(1, 1, 5, 1, dtype=torch.bfloat16)
    bound = Padding().bind(Span.of(torch.ones(1, 5).bool()), Span.of(torch.ones(1, 512).bool()))
    prepared = mechanism.prepare(keys)
    attended = mechanism(queries, prepared, keys, bound, mechanism.start(prepared, bound))
    assert attended.state.weights[0, 0, 0].item() == pytest.approx(1 + 5 / 512, rel=1e-6)
    assert attended.context.dtype == torch.bfloat16

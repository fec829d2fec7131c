"""Positions, with a pencil: what each kind says of two places, and what it must not depend on."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.shaw import Shaw
from regard.attention.positions.absolute import LearnedPosition, SinusoidalPosition, sinusoids
from regard.attention.positions.distance_bias import (
    Alibi,
    T5CausalBias,
    T5TwoSidedBias,
    alibi_slopes,
    distances,
    t5_bucket,
)
from regard.attention.positions.rotary import Rotary, relayout
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig

WIDTH = 16


def rotation(step: int, width: int) -> torch.Tensor:
    """M_k: per pair [[cos ω k, sin ω k], [−sin ω k, cos ω k]] on (sin, cos)."""
    whole = torch.zeros(width, width, dtype=torch.float64)
    for i in range(width // 2):
        angle = step * 10000.0 ** (-2 * i / width)
        cos, sin = math.cos(angle), math.sin(angle)
        whole[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    return whole


@pytest.mark.parametrize("step", [1, 7, 50])
def test_a_step_is_a_linear_map_that_depends_on_the_step_alone(step):
    here = sinusoids(torch.arange(40), WIDTH).double()
    there = sinusoids(torch.arange(40) + step, WIDTH).double()
    torch.testing.assert_close(here @ rotation(step, WIDTH).T, there, rtol=0, atol=2e-7)


def test_first_numbers():
    """PE(0) = (0, 1, 0, 1, …); PE(1) = (sin 1, cos 1, sin 0.01, cos 0.01) at width 4: 10000^(−2/4) = 0.01."""
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(sinusoids(torch.arange(2), 4), torch.tensor(expected))


def test_length_and_products_depend_on_distance_alone():
    table = sinusoids(torch.arange(30), WIDTH).double()
    products = table @ table.T
    frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    distance = (torch.arange(30)[:, None] - torch.arange(30)).double()
    expected = torch.cos(distance[..., None] * frequencies).sum(-1)
    torch.testing.assert_close(products, expected, rtol=0, atol=1e-5)
    assert float(products[3, 3]) == pytest.approx(WIDTH / 2, abs=1e-5)


def test_far_positions_are_exact_and_beyond_the_table():
    position = SinusoidalPosition(WIDTH, table=8)
    far = torch.tensor([[7, 8, 100_000]])
    expected = sinusoids(far, WIDTH)
    assert torch.equal(position(torch.zeros(1, 3, WIDTH), far), expected)
    assert float(expected[0, 2, 0]) == pytest.approx(math.sin(100_000), abs=1e-7)


def test_learned_positions_end():
    position = LearnedPosition(4, longest=3)
    assert torch.equal(position(torch.zeros(1, 1, 4), torch.tensor([[2]]))[0, 0], position.table[2])
    with pytest.raises(ValueError, match="position 3 is outside the learned table of 3 rows"):
        position(torch.zeros(1, 1, 4), torch.tensor([[3]]))


def encode(position: str, tokens: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=1, width=16, feed_forward=8, heads=2, position=position)
    model = build(config, source_types=20, target_types=20).double().eval()
    return model.encoder(tokens, Span.without_padding(tokens)).states


def test_without_positions_the_encoder_is_permutation_equivariant():
    tokens, order = torch.arange(4, 10)[None], torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(
        encode("none", tokens[:, order]), encode("none", tokens)[:, order], rtol=1e-10, atol=1e-10
    )
    moved = encode("sinusoidal", tokens[:, order]) - encode("sinusoidal", tokens)[:, order]
    assert moved.abs().max() > 0.01, "with positions it is not: the test can fail"


# --- what self-attention is told: everything depends on distance alone

HEADS, PER_HEAD = 2, 6
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def self_attention(name: str) -> SelfAttention:
    """In float64, with parameters that are not at rest."""
    torch.manual_seed(0)
    rotary = None
    mechanism = Dot()
    if name.startswith("rotary"):
        rotary = Rotary(PER_HEAD, layout=name.removeprefix("rotary-"))
    elif name == "alibi":
        mechanism = Dot(bias=Alibi())
    elif name == "t5":
        bias = T5TwoSidedBias(HEADS, buckets=8, distance=6)
        torch.nn.init.normal_(bias.table)
        mechanism = Dot(bias=bias)
    elif name == "shaw":
        mechanism = Shaw(heads=HEADS, query_width=PER_HEAD, clip=2)
    heads = MultiHead(12, heads=HEADS, mechanism=mechanism)
    return SelfAttention(heads, mask=Padding(), rotary=rotary).double()


KINDS = ["rotary-interleaved", "rotary-half", "alibi", "t5", "shaw"]


@pytest.mark.parametrize("name", KINDS)
def test_moving_all_positions_changes_nothing(name):
    mixer, x = self_attention(name), torch.randn(2, 7, 12, dtype=torch.float64)
    here = Span.of(torch.ones(2, 7, dtype=torch.bool))
    there = here._replace(start=torch.tensor([3, 1000]))
    torch.testing.assert_close(mixer(x, there, ()).output, mixer(x, here, ()).output, **EXACT)


@pytest.mark.parametrize("name", KINDS)
def test_order_matters(name):
    """Without any of them self-attention is permutation-equivariant; with each it is not."""
    x, order = torch.randn(1, 5, 12, dtype=torch.float64), torch.tensor([3, 0, 2, 4, 1])
    span = Span.of(torch.ones(1, 5, dtype=torch.bool))
    plain, told = self_attention("none"), self_attention(name)
    torch.testing.assert_close(plain(x[:, order], span, ()).output, plain(x, span, ()).output[:, order], **EXACT)
    assert (told(x[:, order], span, ()).output - told(x, span, ()).output[:, order]).abs().max() > 1e-3


def test_distances_are_absolute():
    """Two new queries over five keys stand at 3 and 4; rows that stand elsewhere have rows of their own."""
    keys = Span.of(torch.ones(2, 5, dtype=torch.bool))
    asking = Span(torch.tensor([3, 3]), torch.ones(2, 2, dtype=torch.bool))
    expected = torch.tensor([[-3, -2, -1, 0, 1], [-4, -3, -2, -1, 0]])
    assert torch.equal(distances(Causal().bind(asking, keys)), expected[None])
    apart = asking._replace(start=torch.tensor([3, 0]))
    assert torch.equal(distances(Causal().bind(apart, keys)), torch.stack([expected, expected + 3]))


# --- rotary


def rotate(x: list[float], position: int, layout: str = "interleaved", base: float = 10000.0) -> torch.Tensor:
    rotary = Rotary(len(x), layout=layout, base=base)
    return rotary(torch.tensor(x, dtype=torch.float64)[None, None, None], torch.tensor([[position]])).flatten()


def test_rotary_first_numbers():
    """Width 4, base 100: θ = 1, 1/10. Pairs (1, 0) and (0, 1) at position 2 turn by 2 and by 0.2."""
    c, s, c2, s2 = math.cos(2), math.sin(2), math.cos(0.2), math.sin(0.2)
    expected = torch.tensor([c, s, -s2, c2], dtype=torch.float64)
    torch.testing.assert_close(rotate([1, 0, 0, 1], 2, base=100.0), expected)
    half = torch.tensor([c, -s2, s, c2], dtype=torch.float64)
    torch.testing.assert_close(rotate([1, 0, 0, 1], 2, "half", 100.0), half)
    assert torch.equal(rotate([1.0, 2.0, 3.0, 4.0], 0), torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_keeps_lengths_and_products_know_the_distance_alone(layout):
    rotary = Rotary(8, layout=layout)
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def product(i: int, j: int) -> torch.Tensor:
        return (rotary(q, torch.tensor([[i]])) * rotary(k, torch.tensor([[j]]))).sum()

    torch.testing.assert_close(rotary(q, torch.tensor([[77]])).norm(), q.norm(), **EXACT)
    torch.testing.assert_close(product(3, 5), product(103, 105), **EXACT)
    torch.testing.assert_close(product(3, 3), (q * k).sum(), **EXACT)
    assert (product(3, 5) - product(5, 3)).abs() > 1e-3, "before and after are not the same"


def test_far_rotations_are_exact_in_single_precision():
    """In float32 angles of 100,000 would be off by 1/100."""
    x = torch.tensor([[[[1.0, 0.0]]]])
    turned = Rotary(2)(x, torch.tensor([[100_000]])).flatten()
    torch.testing.assert_close(turned, torch.tensor([math.cos(100_000), math.sin(100_000)]), rtol=0, atol=1e-7)


def test_values_are_not_turned():
    """With one key the output is the value itself, wherever it stands."""
    mixer, x = self_attention("rotary-half"), torch.randn(1, 1, 12, dtype=torch.float64)
    span = Span(torch.tensor([9]), torch.ones(1, 1, dtype=torch.bool))
    heads = mixer.attention
    torch.testing.assert_close(mixer(x, span, ()).output, heads.output(heads.value(x)), **EXACT)


def test_weights_of_one_layout_serve_in_the_other():
    one, other = self_attention("rotary-interleaved"), self_attention("rotary-half")
    x, span = torch.randn(2, 5, 12, dtype=torch.float64), Span.of(torch.ones(2, 5, dtype=torch.bool))
    other.load_state_dict(one.state_dict())
    expected = one(x, span, ()).output
    assert (other(x, span, ()).output - expected).abs().max() > 1e-3, "mixing them up is wrong"
    with torch.no_grad():
        for linear in (other.attention.query, other.attention.key):
            linear.weight.copy_(relayout(linear.weight, heads=HEADS, to="half"))
    torch.testing.assert_close(other(x, span, ()).output, expected, **EXACT)
    rows = torch.arange(12.0)
    assert relayout(rows, heads=2, to="half").tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert torch.equal(relayout(relayout(rows, heads=2, to="half"), heads=2, to="interleaved"), rows)


# --- ALiBi


@pytest.mark.parametrize(
    "heads, expected",
    [
        (8, [2.0**-h for h in range(1, 9)]),
        (16, [2 ** (-h / 2) for h in range(1, 17)]),
        (1, [2.0**-8]),
        # those of 8 heads, then the 1st, 3rd, 5th and 7th of 16
        (12, [2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
        (6, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]),
    ],
)
def test_alibi_slopes(heads, expected):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)


def test_alibi_is_added_after_the_scale():
    """q = 0 and 8 heads: weights of the first head stand as 1 : e^(−1/2) : e^(−1) going back; no √d_k in them."""
    span = Span.of(torch.ones(1, 3, dtype=torch.bool))
    x = torch.zeros(1, 8, 3, 4)
    weights = Dot(bias=Alibi())(x, x, x, Causal().bind(span, span), need_weights=True).weights
    expected = torch.softmax(torch.tensor([-1.0, -0.5, 0.0]), 0)
    torch.testing.assert_close(weights[0, 0, 2], expected)
    torch.testing.assert_close(weights[0, 7, 2], torch.softmax(torch.tensor([-2.0, -1.0, 0.0]) / 256, 0))


def test_alibi_knows_far_distances_in_bfloat16():
    """300 and 301 are one number in bfloat16; half of each, rounded once, is as near as that format comes."""
    span = Span.of(torch.ones(1, 400, dtype=torch.bool))
    query = torch.zeros(1, 8, 400, 2, dtype=torch.bfloat16)
    bias = Alibi()(query, Padding().bind(span, span))
    expected = (-0.5 * torch.arange(400, dtype=torch.float64)).to(torch.bfloat16)
    assert bias.dtype == torch.bfloat16 and torch.equal(bias[0, 0, 0], expected)


# --- T5


def test_t5_buckets_looking_both_ways():
    bias = T5TwoSidedBias(1)
    past = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 91, 127, 128, 5000])
    expected = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 15, 15, 15])
    assert torch.equal(bias.bucket(-past), expected)
    assert torch.equal(bias.bucket(past[1:]), expected[1:] + 16)
    assert int(bias.bucket(torch.tensor(-90))) == 14


def test_t5_buckets_looking_back():
    bias = T5CausalBias(1)
    past = torch.tensor([0, 1, 15, 16, 32, 64, 112, 113, 5000])
    assert torch.equal(bias.bucket(-past), torch.tensor([0, 1, 15, 16, 21, 26, 30, 31, 31]))
    assert not bias.bucket(torch.arange(1, 9)).any(), "the future shares bucket 0"


def test_t5_buckets_grow_with_distance_and_none_is_left_out():
    found = t5_bucket(torch.arange(300), 32, 128)
    assert (found.diff() >= 0).all() and set(found.tolist()) == set(range(32))


def test_one_table_serves_a_stack():
    model = build(ModelConfig(**SIZES, position="t5"), source_types=20, target_types=20)
    tables = [layer.mixer.attention.mechanism.bias.table for layer in model.encoder.layers]
    assert tables[0] is tables[1] and tables[0].shape == (32, 2)
    assert sum("bias.table" in name for name, _ in model.named_parameters()) == 2, "one for each stack"
    assert isinstance(model.encoder.layers[0].mixer.attention.mechanism.bias, T5TwoSidedBias)
    assert isinstance(model.decoder.layers[0].mixer.attention.mechanism.bias, T5CausalBias)


# --- Shaw


def naive(mechanism: Shaw, query, key, value):
    """Eq. 3 and 4 as they stand, with every a_ij written out: (query, key, d) a head."""
    length, width = query.shape[2:]
    offset = torch.arange(length) - torch.arange(length)[:, None]
    row = offset.clamp(-mechanism.clip, mechanism.clip) + mechanism.clip
    keys, values = mechanism.keys[:, row], mechanism.values[:, row]
    energy = torch.einsum("bhtd,bhtsd->bhts", query, key[:, :, None] + keys) / math.sqrt(width)
    return torch.einsum("bhts,bhtsd->bhtd", torch.softmax(energy, -1), value[:, :, None] + values)


def shaw(clip: int, length: int = 5) -> tuple[Shaw, torch.Tensor, torch.Tensor, torch.Tensor, object]:
    mechanism = Shaw(heads=HEADS, query_width=PER_HEAD, clip=clip).double()
    torch.nn.init.normal_(mechanism.keys)
    torch.nn.init.normal_(mechanism.values)
    span = Span.of(torch.ones(3, length, dtype=torch.bool))
    return mechanism, *torch.randn(3, 3, HEADS, length, PER_HEAD, dtype=torch.float64), Padding().bind(span, span)


@pytest.mark.parametrize("clip", [0, 1, 3, 9])
def test_shaw_is_its_formula(clip):
    mechanism, query, key, value, bound = shaw(clip)
    torch.testing.assert_close(
        mechanism(query, key, value, bound).context, naive(mechanism, query, key, value), **EXACT
    )


def test_shaw_clipped_to_nothing_is_a_constant_shift():
    """k = 0: one vector for all. a^K adds the same to each energy of a query, a^V the same to each context."""
    mechanism, query, key, value, bound = shaw(0)
    plain = Dot()(query, key, value, bound, need_weights=True)
    told = mechanism(query, key, value, bound, need_weights=True)
    torch.testing.assert_close(told.weights, plain.weights, **EXACT)
    torch.testing.assert_close(told.context, plain.context + mechanism.values[:, 0][None, :, None], **EXACT)


def test_shaw_beyond_the_longest_distance_clips_nothing():
    """k ≥ T − 1: vectors farther out are never looked at."""
    near, query, key, value, bound = shaw(4)
    far, *_ = shaw(7)
    with torch.no_grad():
        for name in ("keys", "values"):
            getattr(far, name)[:, 3:-3] = getattr(near, name)
    torch.testing.assert_close(far(query, key, value, bound).context, near(query, key, value, bound).context, **EXACT)


def test_shaw_by_pencil():
    """q = k = 0, a^K = 0: weights 1/2 each. v = 1 and 3, a^V = 10 before, 20 at, 40 after."""
    mechanism = Shaw(heads=1, query_width=1, clip=1)
    with torch.no_grad():
        mechanism.keys.zero_()
        mechanism.values.copy_(torch.tensor([10.0, 20.0, 40.0])[None, :, None])
    nothing, value = torch.zeros(1, 1, 2, 1), torch.tensor([1.0, 3.0])[None, None, :, None]
    span = Span.of(torch.ones(1, 2, dtype=torch.bool))
    context = mechanism(nothing, nothing, value, Padding().bind(span, span)).context
    assert context.flatten().tolist() == [(1 + 20 + 3 + 40) / 2, (1 + 10 + 3 + 20) / 2]


# --- from a config

SIZES = {"layers": 2, "width": 16, "feed_forward": 8, "heads": 2}


@pytest.mark.parametrize("position", ["rotary", "alibi", "t5", "shaw"])
def test_nothing_is_added_to_embeddings_and_reading_the_source_knows_no_positions(position):
    config = ModelConfig(**SIZES, position=position)
    model = build(config, source_types=20, target_types=20).double().eval()
    embedded = model.encoder(torch.tensor([[5, 5, 5]]), Span.of(torch.ones(1, 3, dtype=torch.bool))).embedded
    assert torch.equal(embedded[:, 0], embedded[:, 2])
    reader = model.decoder.layers[0].reader.attention.mechanism
    assert type(reader) is Dot and reader.bias is None


@pytest.mark.parametrize("position", ["alibi", "t5", "shaw"])
def test_a_mechanism_with_no_place_for_a_position_says_so(position):
    own = {"kind": "transformer", "mixer": {"kind": "general"}}
    config = ModelConfig(**SIZES, position=position, encoder=own)
    with pytest.raises(ConfigError, match="cannot be combined") as caught:
        build(config, source_types=20, target_types=20)
    assert caught.value.where == "model.encoder.mixer.kind"
    assert "'general' attention" in str(caught.value.why) and caught.value.help
    model = ModelConfig(**SIZES, position=position, mixer="general")
    with pytest.raises(ConfigError) as caught:
        build(model, source_types=20, target_types=20)
    assert caught.value.where == "model.encoder.mixer.kind"


@pytest.mark.parametrize(
    "position, more, why",
    [
        ("rotary", {"key_width": 5}, "an even head width, got 5"),
        ({"kind": "t5", "buckets": 32, "distance": 16}, {}, "distance must be greater than 16"),
    ],
)
def test_positions_that_cannot_be(position, more, why):
    with pytest.raises(ConfigError) as caught:
        build(ModelConfig(**SIZES, position=position, **more), source_types=20, target_types=20)
    assert caught.value.where == "model.encoder.position" and why in str(caught.value.why)


@pytest.mark.parametrize("side, where", [("encoder", "an encoder"), ("decoder", "a decoder")])
def test_rotary_positions_turn_queries_and_keys_of_their_own_width_alone(side, where):
    """Pairs of wider keys would all be turned by the same angle, silently."""
    own = {"kind": "general", "project": ["query", "value", "output"]}
    config = ModelConfig(width=8, heads=4, key_heads=1, position="rotary", **{side: {"mixer": own}})
    with pytest.raises(ConfigError, match=f"cannot be used in {where}") as caught:
        build(config, source_types=9, target_types=9)
    assert "keys of width 8" in str(caught.value.why)


def test_options_of_dot_are_kept_where_it_becomes_shaws():
    own = {"kind": "dot", "scale": 1.0}
    config = ModelConfig(**SIZES, position={"kind": "shaw", "clip": 3, "values": False}, mixer=own)
    mechanism = build(config, source_types=20, target_types=20).encoder.layers[1].mixer.attention.mechanism
    assert isinstance(mechanism, Shaw)
    assert (mechanism.clip, mechanism.values, mechanism.scale) == (3, None, 1.0)

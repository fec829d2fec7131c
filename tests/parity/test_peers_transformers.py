"""Positions, norms and gated feed-forwards of Hugging Face transformers and of x-transformers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Bound, Causal, Mask, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.distance_bias import Alibi, EnergyBias, T5CausalBias, T5TwoSidedBias
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.models.transformer.feed_forward import feed_forward
from regard.models.transformer.norms import normalization

from .peers.asking import Case, Pair, Peer, check, needs_peers, ways

WIDTH, HEADS, HEAD, INNER, LENGTH = 12, 4, 6, 10, 40
VALID = torch.arange(LENGTH) < torch.tensor([[LENGTH], [17]])


def bound(queries: int, keys: int) -> Bound:
    """The last ``queries`` of ``keys`` positions."""
    start = torch.tensor([keys - queries])
    asking = Span(start, torch.ones(1, queries, dtype=torch.bool))
    return Padding().bind(asking, Span.of(torch.ones(1, keys, dtype=torch.bool)))


def hears(mask: Mask) -> Tensor:
    """Who may look at whom: what the peers are given as a mask."""
    return mask.bind(Span.of(VALID), Span.of(VALID)).sdpa().expand(len(VALID), 1, LENGTH, LENGTH)[:, 0].clone()


def columns() -> dict[str, Tensor]:
    return {"x": torch.randn(2, LENGTH, WIDTH)}


def alone(ours: nn.Module, x: Tensor) -> dict[str, Tensor]:
    return {"output": ours(x)}


def attend(ours: SelfAttention, x: Tensor, look: Tensor, position: Tensor | None = None) -> dict[str, Tensor]:
    return {"output": ours(x, Span.of(VALID), ours.start(len(x))).output}


def attention(mask: Mask, *, dot: Dot, key_heads: int = HEADS, rotary: Rotary | None = None) -> SelfAttention:
    heads = MultiHead(WIDTH, heads=HEADS, mechanism=dot, key_heads=key_heads, key_width=HEAD, value_width=HEAD)
    return SelfAttention(heads, mask=mask, rotary=rotary)


def projections(ours: SelfAttention, names: str) -> dict[str, Pair]:
    """``names`` of query, key, value and output there."""
    heads = ours.attention
    mine = (heads.query, heads.key, heads.value, heads.output)
    return {f"{name}.weight": Pair(linear.weight) for name, linear in zip(names.split(), mine, strict=True)}


def t5(name: str, mask: Mask, bias: type[EnergyBias]) -> Case:
    return Case(
        name=name,
        kind="T5Attention",
        options=dict(decoder=bias is T5CausalBias, d_model=WIDTH, num_heads=HEADS, d_kv=HEAD),
        ours=lambda: attention(mask, dot=Dot(scale=1.0, bias=bias(HEADS))),
        pairs=lambda ours: (
            projections(ours, "q k v o") | {"relative_attention_bias.weight": Pair(ours.attention.mechanism.bias.table)}
        ),
        inputs=lambda: columns() | {"look": hears(mask)},
        run=attend,
    )


def buckets(name: str, bias: type[EnergyBias]) -> Case:
    """Bucket numbers over the whole range, far beyond the last bucket on both sides."""
    return Case(
        name=name,
        kind="T5Attention buckets",
        options=dict(decoder=False, d_model=WIDTH, num_heads=HEADS, d_kv=HEAD),
        ours=lambda: bias(HEADS),
        inputs=lambda: {"distance": torch.arange(-200, 201), "two_sided": torch.tensor(bias is T5TwoSidedBias)},
        run=lambda ours, distance, two_sided: {"bucket": ours.bucket(distance)},
        single=True,
    )


def llama() -> Case:
    """Grouped heads, causal, with padding, turned in halves."""
    mask = Causal() & Padding()
    return Case(
        name="LlamaAttention",
        kind="LlamaAttention",
        options=dict(hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=2, head_dim=HEAD),
        ours=lambda: attention(mask, dot=Dot(), key_heads=2, rotary=Rotary(HEAD, layout="half")),
        pairs=lambda ours: projections(ours, "q_proj k_proj v_proj o_proj"),
        inputs=lambda: columns() | {"look": hears(mask), "position": torch.arange(LENGTH).expand(2, -1).clone()},
        run=attend,
        single=True,
    )


def norm(kind: str) -> Case:
    return Case(
        name=kind,
        kind=kind,
        options=dict(hidden_size=WIDTH),
        ours=lambda: normalization("rms", WIDTH),
        pairs=lambda ours: {"weight": Pair(ours.weight)},
        inputs=columns,
        run=alone,
        single=True,
    )


def gated(kind: str, activation: str, names: str, **options: object) -> Case:
    return Case(
        name=kind,
        kind=kind,
        options=options,
        ours=lambda: feed_forward(activation, WIDTH, INNER),
        pairs=lambda ours: {
            f"{name}.weight": Pair(linear.weight)
            for name, linear in zip(names.split(), (ours.gate, ours.up, ours.down), strict=True)
        },
        inputs=columns,
        run=alone,
    )


TRANSFORMERS = Peer(
    "transformers",
    (
        t5("T5Attention of an encoder", Padding(), T5TwoSidedBias),
        t5("T5Attention of a decoder", Causal() & Padding(), T5CausalBias),
        buckets("T5 buckets, two-sided", T5TwoSidedBias),
        buckets("T5 buckets, causal", T5CausalBias),
        llama(),
        norm("T5LayerNorm"),
        norm("LlamaRMSNorm"),
        gated(
            "LlamaMLP",
            "swiglu",
            "gate_proj up_proj down_proj",
            hidden_size=WIDTH,
            num_attention_heads=HEADS,
            intermediate_size=INNER,
        ),
        # T5 1.1 names its gate gelu_new, an approximation of GELU; given GELU itself, it is GEGLU.
        gated("T5DenseGatedActDense", "geglu", "wi_0 wi_1 wo", d_model=WIDTH, d_ff=INNER, dense_act_fn="gelu"),
    ),
)


def rotary() -> Case:
    return Case(
        name="RotaryEmbedding",
        kind="RotaryEmbedding",
        options=dict(dim=HEAD),
        ours=lambda: Rotary(HEAD, layout="interleaved"),
        inputs=lambda: {"x": torch.randn(2, HEADS, 9, HEAD), "position": torch.arange(2, 11).expand(2, -1).clone()},
        run=lambda ours, x, position: {"turned": ours(x, position)},
        single=True,
    )


def biased(ours: EnergyBias, query: Tensor, key: Tensor, heads: int) -> dict[str, Tensor]:
    return {"bias": ours(torch.zeros(1, heads, int(query), 1), bound(int(query), int(key)))[0]}


def alibi(heads: int) -> Case:
    return Case(
        name=f"AlibiPositionalBias of {heads} heads",
        kind="AlibiPositionalBias",
        options=dict(heads=heads),
        ours=Alibi,
        inputs=lambda: {"query": torch.tensor(5), "key": torch.tensor(23)},
        run=lambda ours, query, key: biased(ours, query, key, heads),
    )


def relative(name: str, bias: type[EnergyBias]) -> Case:
    return Case(
        name=name,
        kind="RelativePositionBias",
        options=dict(scale=1.0, causal=bias is T5CausalBias, heads=HEADS),
        ours=lambda: bias(HEADS),
        pairs=lambda ours: {"relative_attention_bias.weight": Pair(ours.table)},
        inputs=lambda: {"query": torch.tensor(60), "key": torch.tensor(150)},
        run=lambda ours, query, key: biased(ours, query, key, HEADS),
    )


X_TRANSFORMERS = Peer(
    "x_transformers",
    (
        rotary(),
        alibi(8),
        alibi(6),
        relative("RelativePositionBias, two-sided", T5TwoSidedBias),
        relative("RelativePositionBias, causal", T5CausalBias),
    ),
)


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(TRANSFORMERS))
def test_transformers(case, dtype, way):
    check(TRANSFORMERS, case, dtype, way)


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(X_TRANSFORMERS))
def test_x_transformers(case, dtype, way):
    check(X_TRANSFORMERS, case, dtype, way)

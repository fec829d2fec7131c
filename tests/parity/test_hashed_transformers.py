"""Hashed attention of Hugging Face transformers, which attends across buckets, by its chunks and its rotations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.models.transformer import hashed
from regard.models.transformer.hashed import HashedAttention

modeling = pytest.importorskip("transformers.models.reformer.modeling_reformer")
LENGTH, CHUNK, HEADS, HEAD, BUCKETS, SEED = 32, 8, 2, 6, 8, 4
WIDTH = HEADS * HEAD


def peer(*, decoder: bool, chunk: int = CHUNK) -> nn.Module:
    from transformers.models.reformer.configuration_reformer import ReformerConfig

    config = ReformerConfig(
        attn_layers=["lsh"], hidden_size=WIDTH, num_attention_heads=HEADS, attention_head_size=HEAD, num_hashes=1,
        num_buckets=BUCKETS, lsh_attn_chunk_length=chunk, hash_seed=SEED, is_decoder=decoder,
        lsh_attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return modeling.LSHSelfAttention(config, layer_idx=0).eval()


def ours(of: nn.Module, *, causal: bool, **options: object) -> HashedAttention:
    """With its projections, and none of the output."""
    mixer = HashedAttention(
        WIDTH, heads=HEADS, causal=causal, chunk=CHUNK, rounds=1, nearest=False, across=True, seed=SEED, **options
    ).eval()
    with torch.no_grad():
        mixer.query.weight.copy_(of.query_key.weight)
        mixer.value.weight.copy_(of.value.weight)
        mixer.output.weight.copy_(torch.eye(WIDTH))
    return mixer


def columns() -> tuple[Tensor, Span]:
    x = torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    return x, Span.of(torch.ones(2, LENGTH, dtype=torch.bool))


@torch.no_grad()
@pytest.mark.parametrize("causal", [True, False])
def test_one_round(causal: bool) -> None:
    """But for the first chunk of the sorted columns, which looks round the corner at the last one there."""
    torch.manual_seed(0)
    theirs = peer(decoder=causal)
    mixer, (x, span) = ours(theirs, causal=causal, buckets=BUCKETS), columns()
    found = theirs(x)
    output = mixer(x, span, mixer.start(2)).output
    order = found.buckets[:, :, 0].argsort(dim=-1, stable=True)
    compared = torch.ones(2, HEADS, LENGTH, dtype=torch.bool).scatter(-1, order[..., :CHUNK], False)
    both = [y.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)[compared] for y in (output, found.hidden_states)]
    assert len(both[0]) == 2 * HEADS * (LENGTH - CHUNK)
    torch.testing.assert_close(both[0], both[1], rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("causal", [True, False])
def test_its_full_attention(causal: bool) -> None:
    """Which it takes where a chunk holds everything: ours has one bucket."""
    torch.manual_seed(0)
    theirs = peer(decoder=causal, chunk=LENGTH)
    mixer, (x, span) = ours(theirs, causal=causal, buckets=BUCKETS), columns()
    mixer.use_single_bucket()
    torch.testing.assert_close(mixer(x, span, mixer.start(2)).output, theirs(x).hidden_states, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_its_buckets() -> None:
    torch.manual_seed(0)
    theirs = peer(decoder=False)
    x, _ = columns()
    query = theirs.query_key(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
    drawn = hashed.fixed_rotations(HEADS, HEAD, 1, (BUCKETS,), SEED)
    assert torch.equal(hashed.hash_positions(query, drawn, (BUCKETS,)), theirs(x).buckets)

"""Copying from the source: a mixture of the vocabulary and of the source tokens that a pointer attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from regard.attention.contract import Encoded, RowMap, SourceKeys
from regard.attention.mask import Padding, limited
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.core.state import join


class CopyMemory(NamedTuple):
    """Memory of a pointer: its keys and values of the source, and the source tokens."""

    keys: SourceKeys
    tokens: Int[Tensor, "sentences length"]

    def join(self, states: Sequence[CopyMemory]) -> CopyMemory:
        keys = join([state.keys for state in states])
        longest = keys.span.valid.shape[1]
        tokens = [pad(state.tokens, (0, longest - state.tokens.shape[1])) for state in states]
        return CopyMemory(keys, torch.cat(tokens))


class Pointed(NamedTuple):
    """Gate and pointer at each target position; ``tokens`` are the source tokens of the weights."""

    gate: Float[Tensor, "*positions"]  # logit of generating instead of copying
    weights: Float[Tensor, "*positions source"]
    tokens: Int[Tensor, "*positions source"]


class Copying(nn.Module):
    """P(y) = g · P_vocabulary(y) + (1 − g) · Σ_{j: x_j = y} α_j (See et al. 2017, Eq. 9).

    α is attention with one head (scaled dot product) from the decoder's features h to the encoder's states s, and g =
    σ(w · [h; Σ α s] + b). Source and target require one vocabulary: a source token is a type of the output.

    The paper points with the decoder's own attention, feeds the decoder's input into g, and numbers words outside the
    vocabulary per text. Here the pointer is a separate attention, so it works with any decoder, and subword tokens
    spell such words. Cost in addition to the decoder's: target · source · (width + memory_width).

    Args:
        width: features of the decoder.
        memory_width: features of an encoder's state.
    """

    def __init__(self, width: int, memory_width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.mechanism = Dot()
        self.gate = nn.Linear(width + memory_width, 1)

    def prepare(self, encoded: Encoded, tokens: Int[Tensor, "sentences length"]) -> CopyMemory:
        """Return the memory of each sentence, computed once."""
        key = self.mechanism.prepare(self.key(encoded.states)[:, None])
        return CopyMemory(SourceKeys(key, encoded.states[:, None], encoded.span), tokens)

    def forward(
        self, features: Float[Tensor, "rows length width"], span: Span, memory: CopyMemory, rows: RowMap
    ) -> Pointed:
        """Return gate and pointer of every position; rows that read one sentence share its keys."""
        query = rows.scatter(self.query(features))  # (sentences, rows of each, length, width)
        folded, keys = query.flatten(1, 2), memory.keys
        mask = limited(Padding(), span)
        query_span = Span.without_padding(folded) if mask == Padding() else rows.fold(span)
        bound = mask.bind(query_span, keys.span)
        context, weights, _ = self.mechanism(folded[:, None], keys.key, keys.value, bound, (), need_weights=True)
        shape = query.shape[1:3]
        context, weights = (rows.gather(x[:, 0].unflatten(1, shape)) for x in (context, weights))
        gate = self.gate(torch.cat([features, context], -1))[..., 0]
        tokens = memory.tokens[rows.sentence][:, None].expand(weights.shape)
        return Pointed(gate, weights, tokens)


def mixture(logits: Float[Tensor, "*positions types"], pointed: Pointed) -> Float[Tensor, "*positions types"]:
    """Return log P of every type at each position, in float32 or wider."""
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    gate = pointed.gate.to(wide)[..., None]
    copied = torch.zeros(logits.shape, dtype=wide, device=logits.device)
    copied = copied.scatter_add(-1, pointed.tokens, pointed.weights.to(wide) * torch.sigmoid(-gate))
    generated = torch.log_softmax(logits.to(wide), -1) + logsigmoid(gate)
    both = torch.logaddexp(generated, copied.clamp_min(torch.finfo(wide).tiny).log())
    return torch.where(copied > 0, both, generated)

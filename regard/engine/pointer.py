"""Fast pointer of a model that copies source tokens: one product for query and gate, over a table of the source.

The gate reads the pointer's context only through a product with one vector: σ(w · [h; Σ α s] + b) equals
σ(w₁ · h + Σ α v + b) with v = w₂ · s. So the value of a source position is one number, computed once per sentence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.engine.cache import KeyValueTable
from regard.engine.heads import HeadSizes
from regard.engine.layer import StepLayout, attend
from regard.engine.packed import PackedLinear, PackedMatrix, stacked
from regard.models.copying import Copying, Pointed


class PointerMatrices(NamedTuple):
    """Query and own part of the gate, from the decoder's features; key and value, from the encoder's states."""

    query: PackedMatrix  # multiplied by the scale of the energies
    gate: PackedMatrix
    key: PackedMatrix
    value: PackedMatrix

    @classmethod
    def of(cls, copying: Copying) -> PointerMatrices:
        width = copying.query.in_features
        own, source = copying.gate.weight.detach().split([width, copying.key.in_features], 1)
        query = PackedMatrix.of(copying.query).map(lambda x: x / math.sqrt(width))
        return cls(
            query,
            PackedMatrix(own, copying.gate.bias.detach()),
            PackedMatrix.of(copying.key),
            PackedMatrix(source),
        )


class FastPointer:
    """A ``Copying`` over one new token of each row; its table has ``table_dtype``."""

    def __init__(self, copying: Copying, table_dtype: torch.dtype) -> None:
        matrices, self.table_dtype = PointerMatrices.of(copying), table_dtype
        self.width = len(matrices.query.weight)
        self.query = PackedLinear(stacked(matrices.query, matrices.gate), alone=True)
        self.key_value = PackedLinear(stacked(matrices.key, matrices.value))

    def source_table(
        self,
        states: Float[Tensor, "sentences length width"],
        valid: Bool[Tensor, "sentences length"],
        tokens: Int[Tensor, "sentences length"],
    ) -> KeyValueTable:
        """Return keys, values and tokens of the source, computed once per sentence; values of padding are 0."""
        both = self.key_value(states.flatten(0, 1)).unflatten(0, states.shape[:2]).to(self.table_dtype)
        key, value = (x.contiguous()[:, None] for x in both.split([self.width, 1], 2))
        value = value.masked_fill(~valid[:, None, :, None], 0.0)
        return KeyValueTable(key, value, source_tokens(tokens, valid))

    def __call__(self, features: Float[Tensor, "padded width"], source: KeyValueTable, layout: StepLayout) -> Pointed:
        assert source.token is not None
        both = self.query(features)[: layout.rows].to(self.table_dtype)
        sizes = HeadSizes(1, 1, self.width, self.width, 1)
        mask = layout.source_mask(sizes)
        context, weights = attend(both[:, None, :-1], sizes, source, mask, layout)
        weights = weights.masked_fill(mask < 0, 0.0)  # a source without tokens has weights of 0
        tokens = layout.from_slots(source.token[:, 0, :, 0]).long().repeat_interleave(layout.width, 0)
        return Pointed(both[:, -1] + context[:, 0, 0], layout.from_slots(weights).flatten(0, 1), tokens)


def source_tokens(
    tokens: Int[Tensor, "sentences length"], valid: Bool[Tensor, "sentences length"]
) -> Int[Tensor, "sentences 1 length 1"]:
    """Return the tokens of a pointer's table; 0 in padding."""
    return tokens.masked_fill(~valid, 0).int()[:, None, :, None].contiguous()

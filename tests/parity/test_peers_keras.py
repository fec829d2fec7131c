"""Keras' additive attention, and its GRU that resets before the product, as Cho et al. 2014 and Bahdanau do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.mask import Padding
from regard.attention.mechanisms.additive import Additive
from regard.attention.span import Span
from regard.models.recurrent.cells import GRU

from .peers.asking import Case, Pair, Peer, check, needs_peers, ways

ENTER, WIDTH = 3, 5
VALID = torch.arange(6) < torch.tensor([[6], [2], [4]])


def sequences() -> dict[str, Tensor]:
    keys = {"key": torch.randn(3, 6, WIDTH), "value": torch.randn(3, 6, WIDTH)}
    return {"query": torch.randn(3, 4, WIDTH), **keys, "valid": VALID}


def attend(ours: Additive, query: Tensor, key: Tensor, value: Tensor, valid: Tensor) -> dict[str, Tensor]:
    bound = Padding().bind(Span.of(torch.ones(query.shape[:2], dtype=torch.bool)), Span.of(valid))
    attended = ours(query[:, None], ours.prepare(key[:, None]), value[:, None], bound, need_weights=True)
    return {"context": attended.context[:, 0], "weights": attended.weights[:, 0]}


def run(ours: GRU, x: Tensor, first: Tensor, valid: Tensor) -> dict[str, Tensor]:
    outputs, (last,) = ours.run(x, valid.sum(1), (first,))
    return {"outputs": outputs * valid[..., None], "last": last}


def gates(parameter: Tensor) -> Tensor:
    """Blocks r, z, n as Keras has them: z, r, n."""
    reset, update, candidate = parameter.chunk(3)
    return torch.cat([update, reset, candidate])


PEER = Peer(
    "keras",
    (
        Case(
            name="AdditiveAttention",
            kind="AdditiveAttention",
            options=dict(width=WIDTH),
            ours=lambda: Additive(heads=1, query_width=WIDTH, key_width=WIDTH, learned=()),
            pairs=lambda ours: {"scale": Pair(ours.content.vector, lambda p: p[0])},
            inputs=sequences,
            run=attend,
            single=True,
        ),
        Case(
            name="GRU, reset before",
            kind="GRU",
            options=dict(enter=ENTER, units=WIDTH, reset_after=False),
            ours=lambda: GRU(ENTER, WIDTH, reset="before"),
            pairs=lambda ours: {
                "kernel": Pair(ours.weights.input, lambda p: gates(p).T),
                "recurrent_kernel": Pair(ours.weights.recurrent, lambda p: gates(p).T),
                "bias": Pair(ours.weights.enter_bias, gates),  # Keras has one here, ours a second
            },
            inputs=lambda: {"x": torch.randn(3, 6, ENTER), "first": torch.randn(3, WIDTH), "valid": VALID},
            run=run,
            single=True,
        ),
    ),
)


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_keras(case, dtype, way):
    check(PEER, case, dtype, way)

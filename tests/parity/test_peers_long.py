"""Global and local attention beside BigBird's and Longformer's of transformers."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from regard.attention import global_local_kernel
from regard.attention.global_local_kernel import Neighborhood
from regard.attention.span import Span
from regard.models.transformer.global_local import GlobalLocal

from .peers.asking import Case, Pair, Peer, check, needs_peers, ways

WIDTH, HEADS, LENGTH, RANDOM, RADIUS = 8, 2, 16, 2, 2
NAMES = "query key value".split()


def mixer(**options: object) -> GlobalLocal:
    """Without a projection of the output, which is another module there."""
    made = GlobalLocal(WIDTH, heads=HEADS, causal=False, first=0, **options)
    made.output = nn.Identity()
    return made


def weights(ours: nn.Module) -> dict[str, Pair]:
    return {f"{name}.weight": Pair(getattr(ours, name).weight) for name in NAMES}


def drawn() -> Tensor:
    """Columns (LENGTH, RANDOM) that none sees otherwise: what is seen twice counts twice there, and once here."""
    apart = torch.randperm(LENGTH - 7, generator=torch.Generator().manual_seed(1))[:RANDOM] + 3
    columns = (torch.arange(LENGTH)[:, None] + apart) % LENGTH
    seen = (columns == 0) | (columns == LENGTH - 1) | ((columns - torch.arange(LENGTH)[:, None]).abs() < 2)
    free = torch.tensor([[c for c in range(1, LENGTH - 1) if abs(c - i) > 1][-RANDOM:] for i in range(LENGTH)])
    return torch.where(seen.any(1, keepdim=True), free, columns)


def as_big_bird(ours: GlobalLocal, x: Tensor, random: Tensor) -> dict[str, Tensor]:
    table = torch.cat([random[:1], random, random[-1:]])[None]  # the first and last column are global: none is drawn
    is_global = torch.zeros(x.shape[:2], dtype=torch.bool)
    is_global[:, [0, -1]] = True
    span = Span.of(torch.ones_like(is_global))._replace(is_global=is_global)
    with (
        patch.object(global_local_kernel, "MIN_BLOCK", 1),  # blocks of one position
        patch.object(Neighborhood, "drawn", lambda around, length, blocks: table.expand(len(length), -1, -1)),
    ):
        return {"output": ours(x, span, ()).output}


def as_longformer(ours: GlobalLocal, x: Tensor, valid: Tensor, is_global: Tensor) -> dict[str, Tensor]:
    return {"output": ours(x, Span.of(valid)._replace(is_global=is_global), ()).output * valid[..., None]}


def here_and_there() -> dict[str, Tensor]:
    """Padding, and global columns."""
    is_global = torch.zeros(2, LENGTH, dtype=torch.bool)
    is_global[0, [0, 5]] = is_global[1, 3] = True
    valid = torch.arange(LENGTH) < torch.tensor([[LENGTH], [11]])
    return {"x": torch.randn(2, LENGTH, WIDTH), "valid": valid, "is_global": is_global}


PEER = Peer(
    "long_attention",
    (
        Case(
            name="BigBirdBlockSparseAttention",
            kind="BigBirdBlockSparseAttention",
            options=dict(hidden_size=WIDTH, num_attention_heads=HEADS, block_size=1, num_random_blocks=RANDOM),
            ours=lambda: mixer(radius=1, random=RANDOM, separate=False),
            pairs=weights,
            inputs=lambda: {"x": torch.randn(2, LENGTH, WIDTH), "random": drawn()[1:-1].clone()},
            run=as_big_bird,
        ),
        Case(
            name="LongformerSelfAttention",
            kind="LongformerSelfAttention",
            options=dict(hidden_size=WIDTH, num_attention_heads=HEADS, attention_window=[2 * RADIUS]),
            ours=lambda: mixer(radius=RADIUS, separate=True),
            pairs=lambda ours: (
                weights(ours)
                | {f"{name}_global.weight": Pair(getattr(ours, f"global_{name}").weight) for name in NAMES}
            ),
            inputs=here_and_there,
            run=as_longformer,
            single=True,  # its softmax
        ),
    ),
)


def test_what_is_drawn_is_not_seen_otherwise() -> None:
    for column, others in enumerate(drawn().tolist()[1:-1], start=1):
        assert len({*others}) == RANDOM and not {0, LENGTH - 1, column - 1, column, column + 1} & {*others}


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_long_attention(case: Case, dtype: torch.dtype, way: str) -> None:
    check(PEER, case, dtype, way)

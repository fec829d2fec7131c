"""Hashed attention of reformer_pytorch, within buckets and with several rounds that count each pair once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.attention.hashing import SortedChunks, attend_chunks, hash_positions

from .peers.asking import Case, Peer, check, needs_peers, ways

LENGTH, WIDTH, CHUNK, ROUNDS = 64, 6, 16, 3
BUCKETS = LENGTH // CHUNK


class Hashing(nn.Module):
    """Chunks of the paper's form."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal


def inputs() -> dict[str, Tensor]:
    return {"query": torch.randn(2, LENGTH, WIDTH), "value": torch.randn(2, LENGTH, WIDTH)}


def attend(ours: Hashing, query: Tensor, value: Tensor) -> dict[str, Tensor]:
    """Later columns alone: of who sees only itself theirs loses a part, since −50,000 + log 3 is rounded."""
    torch.manual_seed(3)
    drawn = torch.randn(1, WIDTH, ROUNDS, BUCKETS // 2, dtype=query.dtype)
    bucket = hash_positions(query[:, None], drawn, (BUCKETS,))[:, 0]
    valid = torch.ones(query.shape[:2], dtype=torch.bool)
    chunks = SortedChunks.of(bucket, valid, chunk=CHUNK, causal=ours.causal, nearest=False)
    key = normalize(query, dim=-1)
    return {"output": attend_chunks(query, key, value, chunks, scale=WIDTH**-0.5)[:, 24:]}


def case(name: str, *, causal: bool) -> Case:
    options = {
        "bucket_size": CHUNK, "n_hashes": ROUNDS, "causal": causal, "allow_duplicate_attention": False,
        "attend_across_buckets": False,
    }  # fmt: skip
    return Case(  # single: its log(N + 1e-9) is a billionth off
        name=name, kind="LSHAttention", options=options, ours=lambda: Hashing(causal=causal), inputs=inputs, run=attend,
        single=True,
    )  # fmt: skip


PEER = Peer("reformer", (case("LSHAttention", causal=False), case("LSHAttention causal", causal=True)))


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_reformer_pytorch(case: Case, dtype: torch.dtype, way: str) -> None:
    check(PEER, case, dtype, way)

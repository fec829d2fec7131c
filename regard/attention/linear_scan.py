"""Sums of key-value products along a sequence, with or without decay, computed in chunks."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

CHUNK = 64  # positions: balances the products within chunks and between chunks, at heads of about this width
PIECE = 64  # chunks that are scanned together in training, and recomputed for their gradient


def chunked_scan(
    query: Float[Tensor, "batch #heads length key_width"],
    key: Float[Tensor, "batch #heads length key_width"],
    value: Float[Tensor, "batch heads length value"],
    state: Float[Tensor, "batch heads key_width value"],
    log_decay: Float[Tensor, "batch heads length"] | None = None,
    *,
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "batch heads length value"], Float[Tensor, "batch heads key_width value"]]:
    """y_t = q_tᵀ S_t with S_t = a_t S_{t−1} + k_t v_tᵀ, and the last S; a_t = exp(``log_decay``) ≤ 1, or 1 without.

    Within a chunk y is the masked product (L ∘ Q Kᵀ) V, L_ts = a_{s+1} ⋯ a_t for s ≤ t (Katharopoulos et al. 2020, Eq.
    9; Dao & Gu 2024, Eq. 16). Between chunks only S is passed on. Queries and keys that all heads share are multiplied
    once. Decays enter as differences of sums of logarithms that are never positive, so nothing overflows.

    Cost: length · (chunk · (d_k + d_v) + 2 · d_k · d_v) multiply-adds per head. For the gradient, length · (chunk + d_k
    · d_v / chunk) numbers are stored. A long sequence with decay has the largest tables, so these are recomputed piece
    by piece: half the memory for a quarter more time.
    """
    length = value.shape[2]
    if not length:
        return value, state
    piece = PIECE * chunk
    if log_decay is None or length <= piece or not torch.is_grad_enabled():
        return _scan(query, key, value, state, log_decay, chunk)
    outputs = []
    for q, k, v, decay in zip(*(x.split(piece, 2) for x in (query, key, value, log_decay)), strict=True):
        inputs = (q, k, v, state, decay, chunk)
        y, state = checkpoint(_scan, *inputs, use_reentrant=False, preserve_rng_state=False)
        outputs.append(y)
    return torch.cat(outputs, 2), state


def _scan(
    query: Tensor, key: Tensor, value: Tensor, state: Tensor, log_decay: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor]:
    length = value.shape[2]
    size = min(chunk, length)
    chunks = -(-length // size)
    padding = (0, 0, 0, chunks * size - length)
    q, k, v = (pad(x, padding).unflatten(2, (chunks, size)) for x in (query, key, value))
    within = q @ k.transpose(-1, -2)
    earlier = torch.ones(size, size, dtype=torch.bool, device=value.device).tril()
    if log_decay is None:
        products = k.transpose(-1, -2) @ v
        before = torch.cat([state[:, :, None], products], 2).cumsum(2)
        y = within.masked_fill(~earlier, 0) @ v + q @ before[:, :, :-1]
        return y.flatten(2, 3)[:, :, :length], before[:, :, -1]
    total = pad(log_decay, padding[2:]).unflatten(2, (chunks, size)).cumsum(3)
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~earlier, float("-inf")).exp()
    to_end = (total[..., -1:] - total).exp()
    products = k.transpose(-1, -2) @ (v * to_end[..., None])
    chunk_decay, states = total[..., -1].exp()[..., None, None], []
    for decay_factor, product in zip(chunk_decay.unbind(2), products.unbind(2), strict=True):
        states.append(state)
        state = torch.addcmul(product, decay_factor, state)
    y = (within * decay) @ v + (q @ torch.stack(states, 2)) * total.exp()[..., None]
    return y.flatten(2, 3)[:, :, :length], state

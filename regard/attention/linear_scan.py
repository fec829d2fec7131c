"""Sums of key-value products along a sequence, with or without decay, a chunk of columns at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

CHUNK = 64  # columns: as many products within a chunk as between chunks, at heads of about this width
PIECE = 64  # chunks of a longer sequence that are scanned at once in training, and again for their gradient


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

    Within a chunk y is the masked product (L ∘ Q Kᵀ) V, L_ts = a_{s+1} ⋯ a_t for s ≤ t (Katharopoulos et al. 2020,
    Eq. 9; Dao & Gu 2024, Eq. 16), between chunks goes S alone. Queries and keys that all heads share are multiplied
    once. Decays enter as differences of sums of logarithms that are never positive, so that nothing overflows.
    Cost: length · (chunk · (d_k + d_v) + 2 · d_k · d_v) multiply-adds a head, and length · (chunk + d_k · d_v / chunk)
    numbers kept for the gradient; of a long sequence with decay, whose tables take the most, they are computed again
    for it, a piece at a time: half the memory for a quarter more time.
    """
    length = value.shape[2]
    if not length:
        return value, state
    piece = PIECE * chunk
    if log_decay is None or length <= piece or not torch.is_grad_enabled():
        return _scan(query, key, value, state, log_decay, chunk)
    found = []
    for q, k, v, decay in zip(*(x.split(piece, 2) for x in (query, key, value, log_decay)), strict=True):
        given = (q, k, v, state, decay, chunk)
        y, state = checkpoint(_scan, *given, use_reentrant=False, preserve_rng_state=False)
        found.append(y)
    return torch.cat(found, 2), state


def _scan(
    query: Tensor, key: Tensor, value: Tensor, state: Tensor, log_decay: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor]:
    length = value.shape[2]
    size = min(chunk, length)
    chunks = -(-length // size)
    more = (0, 0, 0, chunks * size - length)
    q, k, v = (pad(x, more).unflatten(2, (chunks, size)) for x in (query, key, value))
    within = q @ k.transpose(-1, -2)
    earlier = torch.ones(size, size, dtype=torch.bool, device=value.device).tril()
    if log_decay is None:
        added = k.transpose(-1, -2) @ v
        before = torch.cat([state[:, :, None], added], 2).cumsum(2)
        y = within.masked_fill(~earlier, 0) @ v + q @ before[:, :, :-1]
        return y.flatten(2, 3)[:, :, :length], before[:, :, -1]
    total = pad(log_decay, more[2:]).unflatten(2, (chunks, size)).cumsum(3)
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~earlier, float("-inf")).exp()
    to_end = (total[..., -1:] - total).exp()
    added = k.transpose(-1, -2) @ (v * to_end[..., None])
    kept, states = total[..., -1].exp()[..., None, None], []
    for keep, add in zip(kept.unbind(2), added.unbind(2), strict=True):
        states.append(state)
        state = torch.addcmul(add, keep, state)
    y = (within * decay) @ v + (q @ torch.stack(states, 2)) * total.exp()[..., None]
    return y.flatten(2, 3)[:, :, :length], state

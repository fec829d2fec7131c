"""Attention to positions that may be remembered ones, by content and distance: Transformer-XL, or rotary."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.cpu_softmax import attend_short
from regard.attention.positions.rotary import Rotary
from regard.core.reference_mode import in_reference_mode
from regard.models.dropout import Dropout

BLOCKED = -1e30  # added to any energy, gives weight 0 without becoming infinite
Features = Float[Tensor, "rows length width"]
Energy = Float[Tensor, "rows heads length keys"]


def sinusoids(distances: int, width: int) -> Float[Tensor, "{distances} {width}"]:
    """R_d = [sin(d ω_i) ‖ cos(d ω_i)], ω_i = 10000^(−2i/width), for the distances 0 … (Dai et al. 2019, §3.3)."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(distances, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1)[:, :width].to(torch.get_default_dtype())


class MemoryAttention(nn.Module, ABC):
    """Base of multi-head attention of positions x to positions h, with distances by index in h; no biases."""

    def __init__(self, width: int, *, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads = {heads} does not divide width = {width}")
        self.heads, self.key_width = heads, width // heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.dropout = Dropout(dropout)

    def set_distances(self, distances: int) -> None:  # nothing to do without a table
        """Set the number of distances; no parameter depends on it."""

    @abstractmethod
    def forward(
        self,
        x: Features,
        h: Float[Tensor, "rows keys width"],
        first: Int[Tensor, "rows"],
        allowed: Bool[Tensor, "rows length keys"],
        *,
        need_weights: bool = False,
    ) -> tuple[Features, Energy | None]:
        """Return the output of each position of x, and the weights before dropout with ``need_weights``.

        ``first``: the key of position 0 of x. Position i is key first + i, at distance first + i − j from key j.
        """

    def by_content(self, x: Features, h: Float[Tensor, "rows keys width"]) -> Features:
        """Return contexts of x by content alone, softmax(q·k / √d_k) W_v h, with detached weights."""
        query, key, value = (
            self._heads(nn.functional.linear(inputs, part.weight.detach()))
            for part, inputs in ((self.query, x), (self.key, h), (self.value, h))
        )
        weights = torch.softmax(query @ key.mT * self.key_width**-0.5, -1)
        return (weights @ value).transpose(1, 2).flatten(2)

    @property
    def _dropping(self) -> Dropout | None:
        return self.dropout if self.training and self.dropout.probability else None

    def _heads(self, x: Features) -> Float[Tensor, "rows heads length key_width"]:
        return x.unflatten(-1, (self.heads, self.key_width)).transpose(1, 2)


class RotaryAttention(MemoryAttention):
    """Attention with rotary positions: A_ij = (R_{first + i} q_i)·(R_j k_j) / √d_k.

    Energies depend on the distance alone. Every key is projected again in each call. See ``Rotary``.
    """

    def __init__(self, width: int, *, heads: int, rotary: Rotary, dropout: float = 0.0) -> None:
        super().__init__(width, heads=heads, dropout=dropout)
        self.rotary = rotary

    def forward(
        self,
        x: Features,
        h: Float[Tensor, "rows keys width"],
        first: Int[Tensor, "rows"],
        allowed: Bool[Tensor, "rows length keys"],
        *,
        need_weights: bool = False,
    ) -> tuple[Features, Energy | None]:
        positions = torch.arange(h.shape[1], device=x.device)
        query = self.rotary(self._heads(self.query(x)), first[:, None] + positions[: x.shape[1]])
        key, value = self.rotary(self._heads(self.key(h)), positions.expand(len(h), -1)), self._heads(self.value(h))
        blocked = _blocked(allowed, x)[:, None]
        scale, dropping = self.key_width**-0.5, self._dropping
        if not need_weights and not in_reference_mode():
            context = attend_short(query, key, value, blocked, None, scale=scale, dropping=dropping)
            return self.output(context.transpose(1, 2).flatten(2)), None
        weights = torch.softmax(scale * (query @ key.mT) + blocked, -1)
        context = (weights if dropping is None else dropping(weights)) @ value
        return self.output(context.transpose(1, 2).flatten(2)), weights if need_weights else None


class RelativeAttention(MemoryAttention):
    """Attention by content and distance, each with a bias.

    A_ij = (q_i·k_j + q_i·r_{i−j} + u·k_j + v·r_{i−j}) / √d_k; q = W_q x, k = W_k,E h, r_d = W_k,R R_d. The output
    is W_o softmax(A) W_v h (Dai et al. 2019, §3.3; no biases). u and v are one vector per head, learned from 0.

    ``distances``: their number, from 0. With few queries and many keys, as in generation, queries are multiplied by the
    transposed projections instead of projecting every key: (W_kᵀ q)·h = q·(W_k h).
    """

    def __init__(self, width: int, *, heads: int, distances: int, dropout: float = 0.0) -> None:
        super().__init__(width, heads=heads, dropout=dropout)
        self.place = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, self.key_width))  # u
        self.place_bias = nn.Parameter(torch.zeros(heads, self.key_width))  # v
        self.sinusoid: Tensor
        self.set_distances(distances)

    def set_distances(self, distances: int) -> None:
        self.register_buffer("sinusoid", sinusoids(distances, self.query.in_features), persistent=False)

    def forward(
        self,
        x: Features,
        h: Float[Tensor, "rows keys width"],
        first: Int[Tensor, "rows"],
        allowed: Bool[Tensor, "rows length keys"],
        *,
        need_weights: bool = False,
    ) -> tuple[Features, Energy | None]:
        few = x.shape[1] < self.key_width
        plain = need_weights or few or in_reference_mode()
        query = self._heads(self.query(x))
        content, place = query + self.content_bias[:, None], query + self.place_bias[:, None]
        scale = self.key_width**-0.5
        # Fill instead of adding: beyond its own distances a row holds values of another row or of padding.
        added = self._by_distance(place * scale, first, h.shape[1], few).masked_fill(~allowed[:, None], BLOCKED)
        dropping = self._dropping
        if not plain:
            key, value = self._heads(self.key(h)), self._heads(self.value(h))
            context = attend_short(content, key, value, added, None, scale=scale, dropping=dropping)
            return self.output(context.transpose(1, 2).flatten(2)), None
        energy = scale * (self._against(content, self.key, h) if few else content @ self._heads(self.key(h)).mT)
        weights = torch.softmax(energy + added, -1)
        used = weights if dropping is None else dropping(weights)
        if few:
            context = torch.einsum("rhld,hvd->rlhv", used @ h[:, None], self._matrices(self.value))
        else:
            context = (used @ self._heads(self.value(h))).transpose(1, 2)
        return self.output(context.flatten(2)), weights if need_weights else None

    def _by_distance(
        self, query: Float[Tensor, "rows heads length key_width"], first: Int[Tensor, "rows"], keys: int, few: bool
    ) -> Energy:
        """Return q_i·r_{i−j}: computed for every distance, then each row is shifted to its distances."""
        length, sinusoid = query.shape[2], self.sinusoid[:keys]
        aligned = bool((first + length == keys).all())  # in every row, the positions of x are the last keys
        if aligned:  # largest distance first, after an unused column
            sinusoid = torch.cat([sinusoid[:1], sinusoid.flip(0)])
        if few:
            energy = self._against(query, self.place, sinusoid)
        else:
            energy = query @ self.place(sinusoid).view(-1, self.heads, self.key_width).permute(1, 2, 0)
        if aligned:
            # Relative shift without a copy: rows of keys + 1 numbers are viewed as rows of ``keys`` numbers, so each
            # row begins one distance earlier than the previous one.
            return energy.flatten(2)[..., length:].unflatten(-1, (length, keys))
        columns = torch.arange(length, device=first.device)
        distance = first[:, None, None] + columns[:, None] - torch.arange(keys, device=first.device)
        return energy.gather(-1, distance.clamp(0, keys - 1)[:, None].expand_as(energy))

    def _against(self, query: Tensor, part: nn.Linear, h: Tensor) -> Energy:
        """Return q·(W h) as (Wᵀ q)·h, for each head."""
        return torch.einsum("rhlk,hkw->rhlw", query, self._matrices(part)) @ (h[:, None].mT if h.dim() == 3 else h.mT)

    def _matrices(self, part: nn.Linear) -> Float[Tensor, "heads key_width width"]:
        return part.weight.view(self.heads, self.key_width, -1)


def _blocked(allowed: Bool[Tensor, "rows length keys"], like: Tensor) -> Float[Tensor, "rows length keys"]:
    """Return 0 where a query may attend to a key, else a number that gives weight 0."""
    return torch.zeros(allowed.shape, dtype=like.dtype, device=like.device).masked_fill_(~allowed, BLOCKED)

"""Global and local attention: a window for most positions, and a few that see all and are visible to all."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.global_local_kernel import (
    GlobalPositions,
    Neighborhood,
    attend_neighbors,
    attend_neighbors_reference,
)
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.kernel import attend
from regard.attention.mask import Causal, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.core.reference_mode import in_reference_mode
from regard.core.state import State
from regard.models.dropout import Dropout


class GlobalLocal(Mixer):
    """e_ij = q_i·(k_j + a_{l(i,j)}) / √d, α = softmax(e): i sees j if |i − j| ≤ ``radius``, or if one is global.

    Covers ETC (Ainslie et al. 2020), Longformer (Beltagy et al. 2020) and BigBird (Zaheer et al. 2020). Global
    positions are those marked by ``Span.is_global``, or else the ``first`` ones.

    Any two valid positions are connected within two layers, through a global one. Not causal, and stateless. With
    ``causal`` it is a window with the first positions as sinks, and a cache of constant size; then only ``radius`` and
    ``first`` are options. Cost: 4 · width² per position, with ``separate`` 7, and length · (2 · radius + globals +
    random blocks) · 2 · width; no table of length².

    Args:
        width: features of a position.
        heads: number of heads.
        causal: whether a position sees no later one.
        dropout: dropout probability of the weights.
        rotary: rotary positions of queries and keys; None: no rotation.
        layer: index of the layer in its stack.
        radius: of this layer, or a list with one per layer, the last for all further layers; in steps of ``dilation``
            positions.
        first: the number of first positions that are global if the span marks none.
        dilation: distance between two visible positions of a window.
        random: additional blocks of keys for each block of queries (BigBird), independent of the batch.
        seed: of the random blocks, with ``layer``.
        labels: k: keys are k_j + a_l, l the distance clipped at ±k, or the label of pairs with a global position (ETC,
            Eq. 2); 0: none.
        separate: whether global positions attend to all positions with their own projections of queries, keys and
            values (Longformer, §3.1).
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        causal: bool,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        layer: int = 0,
        radius: int | list[int] = 64,
        first: int = 1,
        dilation: int = 1,
        random: int = 0,
        seed: int = 0,
        labels: int = 0,
        separate: bool | None = None,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads must divide width = {width}, got {heads}")
        radii = radius if isinstance(radius, list) else [radius]
        if not radii or min(*radii, dilation) < 1:
            raise ValueError("radius (every entry of a list) and dilation must be 1 or more")
        if min(first, random, seed, labels) < 0:
            raise ValueError("first, random, seed and labels must be 0 or more")
        reach = radii[min(layer, len(radii) - 1)]
        if random and dilation > 1:
            raise ValueError("random blocks cannot be combined with dilation > 1")
        self.causal, self.heads, self.first, self.labels = causal, heads, first, labels
        self.around = Neighborhood(reach, dilation, random, 1009 * layer + seed)  # different blocks in each layer
        if causal:
            if dilation > 1 or random or labels or separate:
                raise ValueError("causal global-local attention supports the options radius and first only")
            self.inner = _windowed(width, heads, Window(reach, first), dropout, rotary)
            return
        self.rotary, self.dropping = rotary, Dropout(dropout) if dropout else None
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.separate = separate is not False
        if self.separate:
            self.global_query, self.global_key, self.global_value = (
                nn.Linear(width, width, bias=False) for _ in range(3)
            )
        # Labels of distances −k … k and of global keys. Queries of global positions need none: one label would cancel.
        table = torch.randn(heads, 2 * labels + 2, width // heads) / math.sqrt(width // heads)
        self.label = nn.Parameter(table) if labels else None

    @property
    def packs(self) -> bool:
        return self.causal and self.inner.packs

    @property
    def position_work(self) -> int:
        return 2 * self.around.random * self.around.size * self.output.in_features if self.around.random else 0

    def can(self) -> Abilities:
        return Abilities(
            causal=self.causal,
            cross=False,
            stream="exact" if self.causal else "none",
            weights=False,
            order_free=False,
            normalized=True,
            fused=True,
        )

    def start(self, rows: int) -> State:
        return self.inner.start(rows) if self.causal else ()

    def forward(self, x: Float[Tensor, "rows length width"], span: Span, state: State) -> Mixed:
        if self.causal:
            mixed: Mixed = self.inner(x, span, state)
            return mixed._replace(weights=None)
        query, key, value = (self._heads(part(x)) for part in (self.query, self.key, self.value))
        if self.rotary is not None:
            query, key = self.rotary(query, span.position), self.rotary(key, span.position)
        is_global = self._global(span)
        scale, dropping = 1 / math.sqrt(query.shape[-1]), self.dropping if self.training else None
        near = attend_neighbors_reference if in_reference_mode() else attend_neighbors
        context = near(
            query, key, value, span.valid, is_global, self.around, scale=scale, labels=self.label, dropping=dropping
        )
        globals_ = GlobalPositions.of(is_global)
        if globals_.indices.shape[1]:
            if self.separate:
                query, key, value = self._separate(x, span)
            context = self._with_global_context(context, globals_, query, key, value, span, dropping)
        return Mixed(self.output(context.transpose(1, 2).flatten(2)), ())

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _global(self, span: Span) -> Bool[Tensor, "batch length"]:
        if isinstance(span.is_global, Tensor):
            return span.is_global & span.valid
        return (torch.arange(span.valid.shape[1], device=span.valid.device) < self.first) & span.valid

    def _separate(self, x: Tensor, span: Span) -> tuple[Tensor, Tensor, Tensor]:
        parts = (self.global_query, self.global_key, self.global_value)
        query, key, value = (self._heads(part(x)) for part in parts)
        if self.rotary is not None:
            query, key = self.rotary(query, span.position), self.rotary(key, span.position)
        return query, key, value

    def _with_global_context(
        self,
        context: Float[Tensor, "batch heads length width"],
        globals_: GlobalPositions,
        query: Float[Tensor, "batch heads length width"],
        key: Float[Tensor, "batch heads length width"],
        value: Float[Tensor, "batch heads length width"],
        span: Span,
        dropping: nn.Module | None,
    ) -> Float[Tensor, "batch heads length width"]:
        """Return the context in which global positions have attended to all positions."""
        global_query = globals_.take(query)
        bound = Padding().bind(Span.of(globals_.valid), Span.of(span.valid))
        attended, _ = attend(global_query, key, value, bound, dropping=dropping)
        global_context = torch.where(
            globals_.valid[:, None, :, None], attended.to(context.dtype), globals_.take(context)
        )
        return context.scatter(2, globals_.indices[:, None, :, None].expand_as(global_context), global_context)


def _windowed(width: int, heads: int, window: Window, dropout: float, rotary: Rotary | None) -> SelfAttention:
    mechanism = Dot()
    if dropout:
        mechanism.drop_weights(Dropout(dropout))
    return SelfAttention(
        MultiHead(width, heads=heads, mechanism=mechanism), mask=Causal() & Padding() & window, rotary=rotary
    )

"""Random scenes for the laws of mechanisms: queries, keys and values, their spans, and the mask between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.attention.contract import Attended, Mechanism
from regard.attention.mask import Bound, Causal, Mask, Padding, Window
from regard.attention.span import Span
from regard.core.state import State, select
from regard.testing.draw import Draw, piece_of


@dataclass(frozen=True, kw_only=True)
class MechanismCase:
    """A mechanism in float64, with its sizes.

    Attributes:
        mechanism: the mechanism.
        heads: number of heads.
        query_width: features of a query per head.
        key_width: features of a key per head.
        value_width: features of a value per head.
    """

    mechanism: Mechanism
    heads: int
    query_width: int
    key_width: int
    value_width: int


class Scene(NamedTuple):
    """Queries, keys and values with their spans, and the mask between them."""

    query: Tensor
    key: Tensor
    value: Tensor
    query_span: Span
    key_span: Span
    mask: Mask

    def bound(self) -> Bound:
        return self.mask.bind(self.query_span, self.key_span)

    def start(self, case: MechanismCase) -> State:
        return case.mechanism.start(case.mechanism.prepare(self.key), self.bound())

    def attend(self, case: MechanismCase, state: State | None = None) -> Attended:
        before = self.start(case) if state is None else state
        key = case.mechanism.prepare(self.key)
        attended: Attended = case.mechanism(self.query, key, self.value, self.bound(), before, need_weights=True)
        return attended

    def piece(self, positions: slice) -> Scene:
        return self._replace(query=self.query[:, :, positions], query_span=piece_of(self.query_span, positions))

    def of(self, rows: Tensor) -> Scene:
        query_span, key_span = select(self.query_span, rows), select(self.key_span, rows)
        return Scene(self.query[rows], self.key[rows], self.value[rows], query_span, key_span, self.mask)


def scene(
    case: MechanismCase, draw: Draw, *, causal: bool | None = None, rows: int = 3, queries: int | None = None
) -> Scene:
    """Return a random scene.

    A causal scene has equally many queries and keys. ``causal`` None: random if the mechanism supports it.
    """
    able = case.mechanism.can()
    causal = able.causal and draw.integer(0, 1) == 1 if causal is None else causal
    keys = draw.integer(3, 6)
    query_count = keys if causal or not able.cross else queries or draw.integer(2, 5)
    key_span = draw.span(rows, keys)
    query_span = key_span if causal else draw.span(rows, query_count)
    mask: Mask = Padding() & Causal() if causal else Padding()
    if causal and draw.integer(0, 1):
        mask = mask & Window(draw.integer(0, 3))
    return Scene(
        draw.tensor(rows, case.heads, query_count, case.query_width),
        draw.tensor(rows, case.heads, keys, case.key_width),
        draw.tensor(rows, case.heads, keys, case.value_width),
        query_span,
        key_span,
        mask,
    )

"""Cache of a window with sinks: the last keys of a sequence, and its first ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.key_value import KeyValue
from regard.attention.span import Span
from regard.core.state import join, select


class SinkCache(NamedTuple):
    """Cache of the last keys and values of each row, and of the first, after the window has passed them.

    Its size does not grow with the sequence (Xiao et al. 2023, Fig. 4). Keys keep the positions that they have in the
    sequence; the paper numbers them again within the cache. Sinks are stored separately when a row first drops keys.
    Sinks that are still among the last keys are hidden in the separate part.
    """

    first: KeyValue
    recent_keys: KeyValue

    @classmethod
    def around(cls, empty: KeyValue) -> SinkCache:
        """Return a cache without keys, like ``empty``."""
        return cls(empty._replace(forgotten=()), empty)

    @property
    def key(self) -> Float[Tensor, "batch prepared_heads slots prepared"]:
        """Keys of both parts, sinks first."""
        return torch.cat([self.first.key, self.recent_keys.key], 2) if self._has_sinks else self.recent_keys.key

    @property
    def value(self) -> Float[Tensor, "batch key_heads slots value"]:
        """Values of both parts, sinks first."""
        return torch.cat([self.first.value, self.recent_keys.value], 2) if self._has_sinks else self.recent_keys.value

    @property
    def span(self) -> Span:
        """Span of the columns of ``key``; positions are given if there are two parts."""
        if not self._has_sinks:
            return self.recent_keys.span
        sinks, recent = self.first.span, self.recent_keys.span
        columns = torch.arange(sinks.valid.shape[1], device=sinks.valid.device)
        sinks = sinks._replace(valid=sinks.valid & (columns < self._forgotten[:, None]))
        fields: dict[str, Any] = {
            name: torch.cat([field, recent.read(name)], 1) for name, field in sinks.fields().items()
        }
        fields["given_position"] = torch.cat([sinks.position, recent.position], 1)
        return Span(recent.start, torch.cat([sinks.valid, recent.valid], 1))._replace(**fields)

    @property
    def _forgotten(self) -> Int[Tensor, "batch"]:
        forgotten = self.recent_keys.forgotten
        assert isinstance(forgotten, Tensor), "the cache of a window"
        return forgotten

    @property
    def _has_sinks(self) -> bool:
        return bool((self._forgotten > 0).any())

    def append(
        self,
        key: Float[Tensor, "batch prepared_heads length prepared"],
        value: Float[Tensor, "batch key_heads length value"],
        span: Span,
    ) -> SinkCache:
        """Return the cache with more columns; only the valid ones, a prefix of each row, count."""
        return SinkCache(self.first, self.recent_keys.append(key, value, span))

    def recent(self, limit: int, sinks: int) -> SinkCache:
        """Return the cache of the first ``sinks`` and the last ``limit`` keys of each row.

        At least ``sinks`` last keys are kept: then a row that drops keys has all of its sinks.
        """
        first, recent = self.first, self.recent_keys.recent(max(limit, sinks))
        if recent is self.recent_keys:
            return self
        if bool((self._forgotten == 0).any()):
            recent_keys, sink_slots = self.recent_keys, slice(0, sinks)
            sink_keys = KeyValue(
                recent_keys.key[:, :, sink_slots],
                recent_keys.value[:, :, sink_slots],
                recent_keys.span.columns(0, sinks),
            )
            rows = torch.arange(len(self._forgotten), device=sink_keys.key.device)
            first = select(join([first, sink_keys]), rows + (self._forgotten == 0) * len(rows))
        return SinkCache(first, recent)

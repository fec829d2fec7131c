"""Joint search of a decoder, of CTC and of a language model over sources that are encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.contract import Encoded, Encoder
from regard.attention.span import Span
from regard.config.settings import ChoiceConfig, SearchConfig
from regard.core.state import State, repeat
from regard.inference.decoding import SYMBOLS, Sources, max_lengths
from regard.inference.search_model import SearchInput, WatchBeam, require_probabilities, start_search
from regard.search.contract import Reduce, StatePair, Step, chunked
from regard.search.joint import JointStep, Scorer


class JointScorer(NamedTuple):
    """One model of a joint search.

    Attributes:
        start: (encoded sources, sources) → the state before the first token, one row per source.
        step: its step.
        weight: of its log-probabilities; 0: it is not computed.
    """

    start: Callable[[Encoded, Tensor], State]
    step: Step
    weight: float


class JointDecoding:
    """A ``SearchModel`` whose scores are weighted sums of those of several models.

    Args:
        encoder: encodes the sources, once.
        sources: how sources become tensors, and how long outputs may be.
        scorers: the models.
        device: of the encoder.
        positions: number of learned positions of the decoder; None if unlimited.
    """

    def __init__(
        self, encoder: Encoder, sources: Sources, scorers: Sequence[JointScorer], *, device: torch.device,
        positions: int | None = None,
    ) -> None:  # fmt: skip
        self.encoder, self.sources, self.device, self.positions = encoder, sources, device, positions
        self._scorers = [scorer for scorer in scorers if scorer.weight]
        self._joint = JointStep([Scorer(scorer.step, scorer.weight) for scorer in self._scorers])
        self._chunked_step = chunked(self._joint)

    @torch.no_grad()
    def encode(self, sources: Sequence[object]) -> tuple[Encoded, Tensor]:
        """Return the encoded sources, and the sources as a tensor."""
        source, valid = (x.to(self.device) for x in self.sources.pad(sources, [True] * len(sources)))
        return self.encoder(source, Span.of(valid)), source

    @torch.no_grad()
    def open(
        self, ids: Sequence[int], inputs: Sequence[SearchInput], settings: ChoiceConfig, watch: WatchBeam | None = None
    ) -> StatePair:
        """See ``SearchModel``."""
        assert isinstance(settings, SearchConfig)
        encoded, source = self.encode([input.tokens for input in inputs])
        state = self._joint.start([scorer.start(encoded, source) for scorer in self._scorers])
        longest = max_lengths(self.sources, inputs, settings, self.positions).to(self.device)
        search, rows = start_search(ids, inputs, settings, SYMBOLS, max_lengths=longest, watch=watch)
        return search, state if rows == 1 else repeat(state, rows)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State, read: Reduce) -> tuple[tuple[Tensor, ...], State]:
        """See ``ChunkedStep``. ModelError if the model computes no probabilities."""
        reduced, state = self._chunked_step(tokens, state, read)
        require_probabilities(reduced)
        return reduced, state

"""Log probability of targets, piece by piece, under a translation model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.attention.observe import observe, shared_copy
from regard.attention.span import Span
from regard.core.wording import pluralize
from regard.data.order import batches_in_order
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.models.encoder_decoder import EncoderDecoder, shift_right


class PairScorer:
    """A translation model with its tokenizers, for teacher-forced scoring."""

    def __init__(self, model: EncoderDecoder, source: Tokenizer, target: Tokenizer, max_length: int) -> None:
        """Store a model, and set it to evaluation mode.

        Args:
            model: the model.
            source: the tokenizer of sources.
            target: the tokenizer of targets.
            max_length: the maximum number of pieces per side.
        """
        self.model, self.source, self.target, self.max_length = model.eval(), source, target, max_length
        self.device = model.head.weight.device
        self._observing = threading.Lock()

    @torch.no_grad()
    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        tokens: int = 4096,
        where: Callable[[int], str] = lambda index: f"pair {index + 1}",
    ) -> list[list[float]]:
        """Return log p of each piece of each target, END last, given the source and the earlier pieces.

        Pairs of similar length form a batch.

        Args:
            sources: the source sentences.
            targets: the target sentences.
            tokens: the batch size in tokens of the longer side, padding included.
            where: returns the place of a pair, for errors.

        Raises:
            DataError: for a pair of more than ``max_length`` pieces.
        """
        encoded_sources = [self.source.encode(self._readable(line)) for line in sources]
        encoded_targets = [self.target.encode(line) for line in targets]
        lengths = np.array(
            [max(map(len, pair)) for pair in zip(encoded_sources, encoded_targets, strict=True)], np.int64
        )
        for index in np.flatnonzero(lengths > self.max_length)[:1].tolist():
            raise DataError(
                f"the pair is too long to score: {pluralize(lengths[index], 'piece')}",
                where=where(index),
                why=f"the limit of this model is {pluralize(self.max_length, 'piece')} per side (data.max_length)",
                help="remove this pair",
            )
        scores: list[list[float]] = [[] for _ in encoded_targets]
        for indices in batches_in_order(lengths + 1, tokens):
            rows = self.scored_ids([encoded_sources[i] for i in indices], [encoded_targets[i] for i in indices])
            for index, row in zip(indices.tolist(), rows, strict=True):
                scores[index] = row
        return scores

    def scored_pieces(self, target: str) -> list[str]:
        """Return the pieces of a target that ``score`` returns numbers for."""
        return [*self.target.pieces(self.target.encode(target)), SPECIALS[END]]

    @torch.no_grad()
    def scored_ids(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Return the same as ``score`` for one batch of ids, none of more than ``max_length``."""
        output, valid = (x.to(self.device) for x in pad_sources(targets))
        log_p = self.log_probabilities(sources, targets).gather(-1, output[..., None]).squeeze(-1)
        return [row[mask].tolist() for row, mask in zip(log_p, valid, strict=True)]

    @torch.no_grad()
    def log_probabilities(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        model: EncoderDecoder | None = None,
        ended: bool = True,
    ) -> Tensor:
        """Return log p (batch, target, types) of each type at each target position, END included, for pairs of ids.

        ``ended``: whether the sources are complete.
        """
        return (model or self.model).log_probabilities(*self._taught(sources, targets, ended))

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, ended: bool = True
    ) -> dict[str, Tensor]:
        """Return attention weights (batch, heads, query, key) by name for pairs of ids, teacher-forced.

        Args:
            sources: the ids of each source.
            targets: the ids of each target, without BEGIN and END.
            ended: whether the sources are complete.
        """
        with self.observed() as model, observe(model) as tables:
            self.log_probabilities(sources, targets, model=model, ended=ended)
        return tables

    def attention(self, source: Sequence[int], target: Sequence[int]) -> dict[str, Tensor]:
        """Return the attention weights (heads, query, key) by name for one pair, teacher-forced.

        Args:
            source: the ids of the source.
            target: the ids of the target, without BEGIN and END.
        """
        return {name: weights[0] for name, weights in self.attentions([source], [target]).items()}

    @contextmanager
    def observed(self) -> Iterator[EncoderDecoder]:
        """Yield a copy of the model for hooks, to one thread at a time; other threads can translate meanwhile."""
        with self._observing, torch.no_grad():
            yield self._shared_copy

    @cached_property
    def _shared_copy(self) -> EncoderDecoder:
        return shared_copy(self.model)

    def _taught(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], ended: bool
    ) -> tuple[Tensor, Span, Tensor, Span]:
        """Return source and target with their spans; target position t predicts piece t, and the last predicts END."""
        complete = [ended] * len(sources), [True] * len(targets)
        sides = (pad_sources(*side) for side in zip((sources, targets), complete, strict=True))
        (source, source_valid), (output, valid) = ([x.to(self.device) for x in side] for side in sides)
        return source, Span.of(source_valid), shift_right(output, BEGIN), Span.of(valid)

    def _readable(self, line: str) -> str:
        """Replace white space that did not occur in training, such as line breaks, by spaces."""
        for space in {char for char in line if char.isspace()} - {" "}:
            if space in "\r\n" or UNKNOWN in self.source.encode(space):
                line = line.replace(space, " ")
        return line

"""Probability of given targets, piece by piece, by a translation model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.data.order import batches_in_order
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.models.encoder_decoder import EncoderDecoder, shift_right


class PairScorer:
    """A translation model with its vocabularies, teacher-forced."""

    def __init__(self, model: EncoderDecoder, source: Tokenizer, target: Tokenizer, max_length: int) -> None:
        """Take a model.

        Args:
            model: the model, which is set to evaluation.
            source: tokenizer of sources.
            target: tokenizer of targets.
            max_length: maximum of pieces of a side.
        """
        self.model, self.source, self.target, self.max_length = model.eval(), source, target, max_length
        self.device = model.head.weight.device

    @torch.no_grad()
    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        tokens: int = 4096,
        where: Callable[[int], str] = lambda index: f"pair {index + 1}",
    ) -> list[list[float]]:
        """log p of every piece of each target (the end symbol's last), given its source and the pieces before.

        Pairs of like length go together, ``tokens`` of the longer side at a time, padding included. Raises DataError
        for one of more than ``max_length`` pieces, named by ``where(index)``.
        """
        encoded = [self.source.encode(self._readable(line)) for line in sources]
        wanted = [self.target.encode(line) for line in targets]
        lengths = np.array([max(map(len, pair)) for pair in zip(encoded, wanted, strict=True)], np.int64)
        for index in np.flatnonzero(lengths > self.max_length)[:1].tolist():
            raise DataError(
                f"a sentence of {lengths[index]:,} pieces is too long to score",
                where=where(index),
                why=f"this model was trained on at most {self.max_length:,} a side (data.max_length)",
                help="leave this pair out",
            )
        scores: list[list[float]] = [[] for _ in wanted]
        for indices in batches_in_order(lengths + 1, tokens):
            rows = self._scored([encoded[i] for i in indices], [wanted[i] for i in indices])
            for index, row in zip(indices.tolist(), rows, strict=True):
                scores[index] = row
        return scores

    def scored_pieces(self, target: str) -> list[str]:
        """Return the pieces of a target that ``score`` has a number for."""
        return [*self.target.pieces(self.target.encode(target)), SPECIALS[END]]

    def _scored(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        output, valid = (x.to(self.device) for x in pad_sources(targets))
        log_p = self.log_probabilities(sources, targets).gather(-1, output[..., None]).squeeze(-1)
        return [row[mask].tolist() for row, mask in zip(log_p, valid, strict=True)]

    @torch.no_grad()
    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, model: EncoderDecoder | None = None
    ) -> Tensor:
        """(batch, target, types) of pairs of piece numbers: log p of every type at every place, the end's included."""
        return (model or self.model).log_probabilities(*self._taught(sources, targets))

    def _taught(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> tuple[Tensor, Span, Tensor, Span]:
        """Return source and target with their spans: column t of the target predicts piece t, the last one END."""
        sides = (pad_sources([list(pieces) for pieces in side]) for side in (sources, targets))
        (source, source_valid), (output, valid) = ([x.to(self.device) for x in side] for side in sides)
        return source, Span.of(source_valid), shift_right(output, BEGIN), Span.of(valid)

    def _readable(self, line: str) -> str:
        """With a space for every other white space that no training line had; line ends never stood in one."""
        for space in {sign for sign in line if sign.isspace()} - {" "}:
            if space in "\r\n" or UNKNOWN in self.source.encode(space):
                line = line.replace(space, " ")
        return line

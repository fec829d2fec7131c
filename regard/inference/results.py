"""Results of a translation: the outputs for one input, with their scores and the attention of the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from regard.core.notebook import shortened, translation_html

__all__ = ["Candidate", "Translation"]


class Candidate(NamedTuple):
    """One output: ``score`` is what search ranked by, ``log_probability`` the model's own, in nats."""

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    piece_log_probabilities: list[float]  # the end symbol's last, where the output ended by itself
    finished: bool

    def __repr__(self) -> str:
        return f"Candidate({shortened(self.text)!r}, score={self.score:.3f}, {len(self.pieces)} pieces)"


class Translation:
    """The outputs for one input, best first; ``attention`` is computed when asked for, over ``pieces`` of the input.

    ``unknown``: what of the input the model has no piece for, as often as it stands there: characters, or words where
    pieces are words. The model reads ``<unk>`` in their place.
    """

    def __init__(
        self,
        source: str,
        candidates: list[Candidate],
        attend: Callable[[], Mapping[str, Tensor]],
        *,
        pieces: Sequence[str] = (),
        unknown: Sequence[str] = (),
    ) -> None:
        self.source, self.candidates, self.pieces, self.unknown = source, candidates, pieces, unknown
        self._attend = attend

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float:
        return self.candidates[0].score

    @cached_property
    def attention(self) -> Mapping[str, Tensor]:
        """Per name (``decoder.3.source``, …) the weights (heads, target, source) of the best output.

        One teacher-forced pass through the reference path over the tokens decoded. Row t is the query that predicts
        piece t + 1 of the target: it stands at the token before.
        """
        return self._attend()

    def saying(self, text: str) -> Translation:
        """The same with another text for the best output, whose pieces ``Translator.spelling`` finds."""
        candidates = [self.candidates[0]._replace(text=text), *self.candidates[1:]]
        return Translation(self.source, candidates, lambda: self.attention, pieces=self.pieces, unknown=self.unknown)

    def __repr__(self) -> str:
        more = f", {len(self.candidates)} candidates" if len(self.candidates) > 1 else ""
        return f"Translation({shortened(self.text)!r}, score={self.score:.3f}{more})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return translation_html(self)

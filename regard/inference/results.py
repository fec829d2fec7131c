"""Results of a translation: outputs for one input, with scores and the attention of the best output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize

REPR_LENGTH = 60  # maximum characters of a text in a one-line representation


class Candidate(NamedTuple):
    """One output of a translation.

    Attributes:
        text: the output.
        score: the value by which the search ranked it.
        log_probability: log P(output | source) in nats.
        pieces: its pieces, without the end symbol.
        piece_log_probabilities: in nats; that of the end symbol is last, if the output is finished.
        finished: False if the length limit truncated it.
    """

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    piece_log_probabilities: list[float]
    finished: bool

    def __repr__(self) -> str:
        text, pieces = shortened(self.text, REPR_LENGTH), pluralize(len(self.pieces), "piece")
        return f"Candidate({text!r}, score={self.score:.3f}, {pieces})"


def joined(parts: Sequence[Candidate]) -> Candidate:
    """Combine the outputs of the parts of one input into one output."""
    return Candidate(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [piece for part in parts for piece in part.pieces],
        [value for part in parts for value in part.piece_log_probabilities],
        all(part.finished for part in parts),
    )


class Translation:
    """The outputs for one input, best first.

    Args:
        source: the input.
        candidates: the outputs.
        attend: computes ``attention``; called on first use.
        pieces: the pieces of the input.
        unknown: unknown parts of the input (characters, or words if pieces are words), in order, with repetitions; the
            model reads ``<unk>`` instead.
        unread: number of pieces at the end of the input that were cropped (``data.long_sources = "cropped"``).

    An output of a translation memory has ``recalled``: the cosine of the input with the training pair whose target is
    the output; None if the output was searched.
    """

    def __init__(
        self,
        source: str,
        candidates: list[Candidate],
        attend: Callable[[], Mapping[str, Tensor]],
        *,
        pieces: Sequence[str] = (),
        unknown: Sequence[str] = (),
        unread: int = 0,
    ) -> None:
        self.unread = unread
        self.recalled: float | None = None
        self.source, self.candidates, self.pieces, self.unknown = source, candidates, pieces, unknown
        self._attend = attend

    @property
    def text(self) -> str:
        """The best output."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """The score of the best output."""
        return self.candidates[0].score

    @cached_property
    def attention(self) -> Mapping[str, Tensor]:
        """The attention weights (heads, target, source) of the best output, by name (``decoder.3.source``, …).

        Computed by one teacher-forced pass with the reference implementation. Row t is the query at piece t of the
        target, which predicts piece t + 1.
        """
        return self._attend()

    def with_text(self, text: str) -> Translation:
        """Return this translation with another text for the best output (pieces: ``Translator.with_text``)."""
        return self.with_candidates([self.candidates[0]._replace(text=text), *self.candidates[1:]])

    def with_candidates(self, candidates: list[Candidate]) -> Translation:
        """Return this translation with other outputs; the attention remains that of its own best output."""
        fields: dict[str, Any] = {"pieces": self.pieces, "unknown": self.unknown, "unread": self.unread}
        changed = Translation(self.source, candidates, lambda: self.attention, **fields)
        changed.recalled = self.recalled
        return changed

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain JSON: the source, the fields of the best output, and the candidates."""
        candidates = [candidate._asdict() for candidate in self.candidates]
        unknown = dict(Counter(self.unknown))
        some: dict[str, float] = {"unread": self.unread} if self.unread else {}
        some |= {} if self.recalled is None else {"recalled": self.recalled}
        return {"source": self.source, **candidates[0], "unknown": unknown, **some, "candidates": candidates}

    def __repr__(self) -> str:
        more = f", {pluralize(len(self.candidates), 'candidate')}" if len(self.candidates) > 1 else ""
        return f"Translation({shortened(self.text, REPR_LENGTH)!r}, score={self.score:.3f}{more})"

    def _repr_html_(self) -> str:
        """Return an HTML table of the input and all candidates with scores, best first; texts are escaped."""
        rows = [
            f"<tr><td>{rank}</td><td>{candidate.score:.3f}</td>{_cell(candidate.text)}</tr>"
            for rank, candidate in enumerate(self.candidates, start=1)
        ]
        head = f"<tr><th></th><th>score</th>{_cell(self.source, 'th')}</tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(text: str, tag: str = "td") -> str:
    return f'<{tag} dir="auto" style="text-align: start; white-space: pre-wrap">{escape(text)}</{tag}>'

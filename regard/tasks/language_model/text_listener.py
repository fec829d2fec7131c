"""Generation of one text: the text of its tokens, in pieces, and the reason of its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.inference.spelling import Spelling
from regard.search.rows import TokenListener
from regard.tasks.language_model.config import GenerateConfig

FinishReason = Literal["end", "stop", "length"]


class GeneratedPiece(NamedTuple):
    """Next piece of text ``number``; the last piece has a ``finish_reason``.

    ``end``: the model ended the text; ``stop``: the model generated a stop string, which is not part of the text;
    ``length``: the text has the maximum number of tokens. ``log_probability`` and ``tokens`` are cumulative and include
    the stop string and the end.
    """

    number: int
    text: str
    finish_reason: FinishReason | None
    log_probability: float  # nats
    tokens: int


class TokenScore(NamedTuple):
    """Token, its log-probability (nats), and the most probable alternatives with theirs."""

    token: int
    log_probability: float
    alternatives: Sequence[tuple[int, float]] = ()


class TextStep(NamedTuple):
    """Token of a text, and the text that it completes."""

    piece: GeneratedPiece
    score: TokenScore


class TextListener(TokenListener):
    """Listener for the tokens of one text (``search.rows.TokenListener``)."""

    def __init__(
        self,
        number: int,
        tokenizer: Tokenizer,
        settings: GenerateConfig,
        on_step: Callable[[TextStep], None],
        alternatives: int = 0,
    ) -> None:
        """Create a listener.

        Args:
            number: number of the text in its pieces.
            tokenizer: decodes the tokens.
            settings: stop strings and length.
            on_step: called with each token and the text that it completes.
            alternatives: number of most probable tokens that are reported for each token.
        """
        self.number, self.alternatives = number, alternatives
        self._limit, self._on_step = settings.length, on_step
        self._spelling = Spelling(tokenizer, settings.stop)
        self._total = 0.0

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]] = ()) -> bool:
        """Add the next token; return True if the text ends with it."""
        self._total += log_probability
        text = "" if token == END else self._spelling.add(token)
        reason: FinishReason | None = None
        if self._spelling.stopped:
            reason = "stop"
        elif token == END or self.count >= self._limit:
            text += self._spelling.rest(halves=token == END)
            reason = "stop" if self._spelling.stopped else "end" if token == END else "length"
        piece = GeneratedPiece(self.number, text, reason, self._total, self.count)
        self._on_step(TextStep(piece, TokenScore(token, log_probability, alternatives)))
        return reason is not None

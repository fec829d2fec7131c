"""One text in generation: what its tokens spell, piece by piece, and why it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.inference.spelling import Spelling
from regard.search.rows import TokenListener
from regard.tasks.language_model.config import GenerateConfig

FinishReason = Literal["end", "stop", "length"]


class GeneratedPiece(NamedTuple):
    """The next piece of text ``number``; the last of a text has a ``finish_reason``.

    ``end``: the model ended the text; ``stop``: a stop string came, which is not part of the text; ``length``: it has
    the maximum of tokens. ``log_probability`` and ``tokens`` are of the text so far, stop string and end included.
    """

    number: int
    text: str
    finish_reason: FinishReason | None
    log_probability: float  # nats
    tokens: int


class TokenScore(NamedTuple):
    """A token, its log-probability (nats), and the most probable tokens in its place with theirs."""

    token: int
    log_probability: float
    alternatives: Sequence[tuple[int, float]] = ()


class TextStep(NamedTuple):
    """One token of a text, and the text that is certain with it."""

    piece: GeneratedPiece
    score: TokenScore


class TextListener(TokenListener):
    """Receiver of the tokens of one text (``search.rows.TokenListener``)."""

    def __init__(
        self,
        number: int,
        tokenizer: Tokenizer,
        settings: GenerateConfig,
        on_step: Callable[[TextStep], None],
        alternatives: int = 0,
    ) -> None:
        """Listen to a text.

        Args:
            number: of the text, for its pieces.
            tokenizer: spells the tokens.
            settings: stop strings and length.
            on_step: called with each token and the text that is certain with it.
            alternatives: most probable tokens that are reported with each.
        """
        self.number, self.alternatives = number, alternatives
        self._limit, self._on_step = settings.length, on_step
        self._spelling = Spelling(tokenizer, settings.stop)
        self._total = 0.0

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]] = ()) -> bool:
        """Take the next token. Return whether the text ends with it."""
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

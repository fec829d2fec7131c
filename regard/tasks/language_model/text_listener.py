"""Generation of one text: the text of its tokens, in pieces, and the reason of its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.inference.chat import NO_MORE, ReplyEnd
from regard.inference.spelling import Spelling
from regard.search.rows import TokenListener
from regard.tasks.language_model.config import GenerateConfig

FinishReason = Literal["end", "stop", "length"]


class Generated(NamedTuple):
    """A generated text.

    Attributes:
        prompt: the prompt.
        text: the text without the prompt.
        log_probability: of the generated tokens in nats.
        finished: whether the text ended before the maximum length.
        finish_reason: see ``GeneratedPiece``; None for a partial text.
        tokens: the number of generated tokens, with those of a stop string and the end.
        sample: the number of the text among those of its prompt.
    """

    prompt: str
    text: str
    log_probability: float
    finished: bool
    finish_reason: FinishReason | None = None
    tokens: int = 0
    sample: int = 0


class GeneratedPiece(NamedTuple):
    """The next piece of a text.

    Attributes:
        number: the number of the text.
        text: the piece; empty if its token completes no text.
        finish_reason: of the last piece, otherwise None. ``end``: the model ended the text; ``stop``: the model
            generated a stop string, which is not part of the text; ``length``: the text has the maximum number of
            tokens.
        log_probability: of the text so far in nats, with a stop string and the end.
        tokens: the number of tokens so far, with those of a stop string and the end.
    """

    number: int
    text: str
    finish_reason: FinishReason | None
    log_probability: float
    tokens: int


def generated(prompt: str, piece: GeneratedPiece, sample: int) -> Generated:
    """Return a piece of the continuation number ``sample`` of a prompt."""
    reason = piece.finish_reason
    finished = reason is not None and reason != "length"
    return Generated(prompt, piece.text, piece.log_probability, finished, reason, piece.tokens, sample)


def texts_in_order(prompts: Sequence[str], samples: int, pieces: Iterator[GeneratedPiece]) -> Iterator[Generated]:
    """Yield the texts that consist of these pieces, ``samples`` of each prompt, in the order of their numbers."""
    texts: defaultdict[int, str] = defaultdict(str)
    ended: dict[int, GeneratedPiece] = {}
    following = 0
    for piece in pieces:
        texts[piece.number] += piece.text
        if piece.finish_reason is not None:
            ended[piece.number] = piece
        while (last := ended.pop(following, None)) is not None:
            number, sample = divmod(following, samples)
            yield generated(prompts[number], last, sample)._replace(text=texts.pop(following))
            following += 1


class TokenScore(NamedTuple):
    """The score of a token.

    Attributes:
        token: its number in the vocabulary.
        log_probability: in nats, given the tokens before it.
        alternatives: the most probable tokens and their log-probabilities, best first.
    """

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
        end: ReplyEnd = NO_MORE,
    ) -> None:
        """Create a listener.

        Args:
            number: number of the text in its pieces.
            tokenizer: decodes the tokens.
            settings: stop strings and length.
            on_step: called with each token and the text that it completes.
            alternatives: number of most probable tokens that are reported for each token.
            end: further tokens and texts that end the text.
        """
        self.number, self.alternatives = number, alternatives
        self._limit, self._on_step = settings.length, on_step
        self._ends = end.tokens | {END}
        self._spelling = Spelling(tokenizer, (*settings.stop, *end.texts))
        self._total = 0.0

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]] = ()) -> bool:
        """Add the next token; return True if the text ends with it."""
        self._total += log_probability
        ended = token in self._ends
        text = "" if ended else self._spelling.add(token)
        reason: FinishReason | None = None
        if self._spelling.stopped:
            reason = "stop"
        elif ended or self.count >= self._limit:
            text += self._spelling.rest(halves=ended)
            reason = "stop" if self._spelling.stopped else "end" if ended else "length"
        piece = GeneratedPiece(self.number, text, reason, self._total, self.count)
        self._on_step(TextStep(piece, TokenScore(token, log_probability, alternatives)))
        return reason is not None

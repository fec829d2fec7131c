"""One text in generation: its tokens, its own stream of random numbers, what it may not repeat, and when it ends."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.search.repetition import Ngrams
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.spelling import Spelling

__all__ = ["Continuation", "FinishReason", "GeneratedPiece", "Repeated"]

FinishReason = Literal["end", "stop", "length"]
DRAWN = 256  # random numbers made at a time


class GeneratedPiece(NamedTuple):
    """The next piece of text ``number``; the last of a text has a ``finish_reason``.

    ``end``: the model ended the text; ``stop``: a stop string came, which is not part of the text; ``length``: it has
    as many tokens as it may. ``log_probability`` and ``tokens`` are of the text so far, stop string and end included.
    """

    number: int
    text: str
    finish_reason: FinishReason | None
    log_probability: float  # nats
    tokens: int


class Repeated:
    """The tokens of one text that its settings lower or forbid."""

    def __init__(self, settings: GenerateConfig, prompt: Sequence[int], types: int, device: torch.device) -> None:
        self.seen = self.count = None
        if settings.repetition_penalty is not None:
            self.seen = torch.zeros(types, dtype=torch.bool, device=device)
            self.seen[torch.tensor(sorted(set(prompt)), dtype=torch.int64, device=device)] = True
        if settings.frequency_penalty is not None or settings.presence_penalty is not None:
            self.count = torch.zeros(types, device=device)
        size = settings.no_repeat_ngram
        self._ngrams = None if size is None else Ngrams(size, prompt)

    def append(self, token: int) -> None:
        """Append a generated token."""
        if self.seen is not None:
            self.seen[token] = True
        if self.count is not None:
            self.count[token] += 1
        if self._ngrams is not None:
            self._ngrams.append(token)

    def forbidden(self) -> Collection[int]:
        """The tokens that would repeat an n-gram."""
        return () if self._ngrams is None else self._ngrams.repeating()


class Continuation:
    """A text that grows from a prompt. ``draws`` are a function of ``seed``, ``sample`` and the prompt alone."""

    def __init__(
        self,
        number: int,
        prompt: list[int],
        tokenizer: Tokenizer,
        settings: GenerateConfig,
        *,
        seed: int,
        sample: int,
        device: torch.device,
    ) -> None:
        self.number, self.tokens, self.limit = number, list(prompt), settings.length
        self.repeated = Repeated(settings, prompt[1:], len(tokenizer), device)
        self._spelling = Spelling(tokenizer, settings.stop)
        self._random = np.random.default_rng((seed % 2**64, sample, zlib.crc32(array("I", prompt).tobytes())))
        self._numbers: list[float] = []
        self._total, self._generated = 0.0, 0
        self.over = False

    def draw(self) -> float:
        """The next random number of this text, in [0, 1)."""
        if not self._numbers:
            self._numbers = self._random.random(DRAWN)[::-1].tolist()
        return self._numbers.pop()

    def append(self, token: int, log_probability: float) -> GeneratedPiece:
        """Append a generated token. Returns the text that is certain with it."""
        self.tokens.append(token)
        self.repeated.append(token)
        self._total += log_probability
        self._generated += 1
        text = "" if token == END else self._spelling.add(token)
        reason: FinishReason | None = None
        if self._spelling.stopped:
            reason = "stop"
        elif token == END or self._generated >= self.limit:
            text += self._spelling.rest(halves=token == END)
            reason = "stop" if self._spelling.stopped else "end" if token == END else "length"
        self.over = reason is not None
        return GeneratedPiece(self.number, text, reason, self._total, self._generated)

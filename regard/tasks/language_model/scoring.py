"""The probability that a language model gives to a text: from its beginning, or as it goes on from a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from regard.core.predictor_interface import PredictionInterrupted
from regard.core.task import not_interrupted
from regard.models.language_model import LanguageModel

Window = tuple[int, int, int]  # the first token that is read, the first that is scored, the place after the last


class TextScore(NamedTuple):
    """The probability of a text: ``nll`` in nats over ``tokens``, with ``bytes`` and ``characters`` of the raw text."""

    nll: float
    tokens: int
    bytes: int
    characters: int
    pieces: Sequence[str] = ()
    piece_log_probabilities: Sequence[float] = ()  # of each token, given those before

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll / self.tokens)

    @property
    def bits_per_byte(self) -> float:
        return self.nll / math.log(2) / self.bytes

    @property
    def bits_per_character(self) -> float:
        return self.nll / math.log(2) / self.characters


def continued_windows(prompt: int, length: int, context: int) -> Iterator[Window]:
    """Windows for the tokens after a prompt, read as in generation: beyond the context the last half of it anew."""
    half = max(context // 2, 1)
    at, begin = prompt, 0 if prompt <= context else prompt - half
    while at < length:
        end = min(begin + context + 1, length)
        yield begin, at, end
        at, begin = end, end - half


def window_scores(
    model: LanguageModel,
    tokens: Sequence[int],
    windows: Iterable[Window],
    interrupted: Callable[[], bool] = not_interrupted,
) -> list[float]:
    """Log-probability of each scored token, given the tokens before it in its window.

    Raises PredictionInterrupted where ``interrupted``, asked before each window, says so.
    """
    device, found = model.head.weight.device, list[float]()
    for begin, at, end in windows:
        if interrupted():
            raise PredictionInterrupted
        window = torch.tensor([tokens[begin:end]], device=device)
        log_p, _ = model.step(window[:, :-1], model.start(1))
        found += log_p.gather(-1, window[:, 1:, None])[0, at - begin - 1 :, 0].tolist()
    return found


def carried_scores(
    model: LanguageModel,
    tokens: Sequence[int],
    first: int,
    context: int,
    interrupted: Callable[[], bool] = not_interrupted,
) -> list[float]:
    """Log-probability of each token from number ``first`` on, given all that the model remembers of those before it.

    Read ``context`` tokens at a time. Raises PredictionInterrupted where ``interrupted``, asked before each, says so.
    """
    state, found = model.start(1), list[float]()
    every = torch.tensor([tokens], device=model.head.weight.device)
    for begin in range(0, len(tokens) - 1, context):
        if interrupted():
            raise PredictionInterrupted
        end = min(begin + context, len(tokens) - 1)
        log_p, state = model.step(every[:, begin:end], state)
        found += log_p.gather(-1, every[:, begin + 1 : end + 1, None])[0, :, 0].tolist()
    return found[first - 1 :]

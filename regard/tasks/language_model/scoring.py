"""Probability of a text under a language model, from its beginning or after a prompt; windows for long texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from regard.core.predictor_interface import PredictionInterrupted
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.wording import pluralize
from regard.data.document_stream import DocumentStream
from regard.data.packs import PackExamples, cut_documents
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.windows import WindowExamples
from regard.errors import ConfigError, DataError
from regard.inference.prompt_decoding import DecodedModel, PromptDecoding
from regard.search.rows import most_probable
from regard.tasks.language_model.text_listener import TokenScore

Window = tuple[int, int, int]  # positions of the first input token, the first scored token, and the end


class TextScore(NamedTuple):
    """Probability of a text.

    Attributes:
        nll: −log P(text) in nats.
        tokens: the number of tokens.
        bytes: the number of bytes of the raw text, in UTF-8.
        characters: the number of characters of the raw text.
        pieces: the text of each token.
        piece_log_probabilities: of each token in nats, given the tokens before it.
    """

    nll: float
    tokens: int
    bytes: int
    characters: int
    pieces: Sequence[str] = ()
    piece_log_probabilities: Sequence[float] = ()

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
    """Yield windows for the tokens after a prompt; as in generation, a full context is replaced by its last half."""
    half = max(context // 2, 1)
    scored, begin = prompt, 0 if prompt <= context else prompt - half
    while scored < length:
        end = min(begin + context + 1, length)
        yield begin, scored, end
        scored, begin = end, end - half


def window_scores(
    model: DecodedModel,
    tokens: Sequence[int],
    windows: Iterable[Window],
    device: torch.device,
    interrupted: Callable[[], bool] = not_interrupted,
) -> list[float]:
    """Return the log-probability of each scored token, given the tokens before it in its window.

    Raises:
        PredictionInterrupted: ``interrupted``, called before each window, returned True.
    """
    scores = list[float]()
    for begin, scored, end in windows:
        if interrupted():
            raise PredictionInterrupted
        window = torch.tensor([tokens[begin:end]], device=device)
        log_p, _ = model.step(window[:, :-1], model.start(1))
        scores += log_p.gather(-1, window[:, 1:, None])[0, scored - begin - 1 :, 0].tolist()
    return scores


def carried_scores(
    model: DecodedModel,
    tokens: Sequence[int],
    first: int,
    context: int,
    device: torch.device,
    interrupted: Callable[[], bool] = not_interrupted,
) -> list[float]:
    """Return the log-probability of each token from position ``first``, given the state of the model before it.

    The model reads ``context`` tokens per step.

    Raises:
        PredictionInterrupted: ``interrupted``, called before each step, returned True.
    """
    state, scores = model.start(1), list[float]()
    sequence = torch.tensor([tokens], device=device)
    for begin in range(0, len(tokens) - 1, context):
        if interrupted():
            raise PredictionInterrupted
        end = min(begin + context, len(tokens) - 1)
        log_p, state = model.step(sequence[:, begin:end], state)
        scores += log_p.gather(-1, sequence[:, begin + 1 : end + 1, None])[0, :, 0].tolist()
    return scores[first - 1 :]


def score_windows(targets: int, prompt: int, context: int, stride: int | None) -> list[Window]:
    """Return the scoring windows of a text, divided as in evaluation.

    Windows are counted from the beginning of a text without a prompt. With a prompt they are counted from its end:
    scored tokens then see the maximum of the prompt.

    Args:
        targets: number of tokens after BEGIN.
        prompt: number of the first targets that are not scored.
        context: length of a window.
        stride: offset between windows; the context if None.

    Raises:
        ConfigError: the stride is below 1 or exceeds the context.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        why = f"the stride is between 1 and {context}, the window length"
        raise ConfigError(f"invalid stride {stride}", where="stride", why=why)
    if prompt:
        pieces = cut_documents(np.array([targets]), np.array([prompt]), context=context, stride=stride)
        cut = (tuple(map(int, piece[1:])) for piece in zip(*pieces, strict=True))
        return [(begin, end + 1 - counted, end + 1) for begin, end, counted in cut]
    windows, done = list[Window](), 0
    for begin in range(0, max(targets - context, 0) + stride, stride):
        end = min(begin + context, targets)
        windows.append((begin, done + 1, end + 1))
        done = end
    return windows


def text_sizes(examples: WindowExamples | PackExamples, indices: Indices, names: Sequence[str]) -> MetricSums:
    """Return the sizes of the raw texts, for the metrics per byte and per character in ``names``.

    The size of a text counts with its first window.

    Raises:
        DataError: a text has unknown tokens, whose probability does not determine that of their bytes.
    """
    texts: list[Stream | DocumentStream] = [*examples.texts_started(indices)]
    for text in texts:
        if number := text.unknown():
            raise DataError(
                "bits per byte are undefined for this text", where=text.name,
                why=f"{number:,} of its {pluralize(len(text) - 2, 'token')} are not in the vocabulary",
                help="--metric loss,perplexity evaluates the text with <unk> for these tokens",
            )  # fmt: skip
    sizes = {"bytes": sum(text.bytes for text in texts), "characters": sum(text.characters for text in texts)}
    chosen = {unit: size for unit, size in sizes.items() if f"bits_per_{unit[:-1]}" in names}
    return {unit: torch.tensor(size, dtype=torch.float64) for unit, size in chosen.items()}


def text_score(tokenizer: Tokenizer, text: str, scored: list[int], scores: list[float]) -> TextScore:
    """Return the score of a text from the log-probabilities of its tokens ``scored``."""
    pieces = tokenizer.pieces(scored)
    return TextScore(-math.fsum(scores), len(scored), len(text.encode()), len(text), pieces, scores)


def token_scores(
    decoding: PromptDecoding,
    tokens: Sequence[int],
    alternatives: int,
    device: torch.device,
    interrupted: Callable[[], bool],
) -> list[TokenScore]:
    """Return the score of each token except the first: see ``Generator.token_scores``."""
    scores: list[TokenScore] = []
    for begin, scored, end in continued_windows(1, len(tokens), decoding.context):
        if interrupted():
            raise PredictionInterrupted
        window = torch.tensor([tokens[begin:end]], device=device)
        log_p = decoding.model.step(window[:, :-1], decoding.model.start(1))[0][0]
        for position in range(scored, end):
            row, token = log_p[position - begin - 1], tokens[position]
            scores.append(TokenScore(token, float(row[token]), most_probable(row, alternatives)))
    return scores

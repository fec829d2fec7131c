"""A running batch of texts, each with settings of its own, which join and leave it between any two tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.predictor_interface import PredictionInterrupted
from regard.core.task import never
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.continuation import Continuation, GeneratedPiece
from regard.tasks.language_model.decoding import Reading, WindowDecoding, joined
from regard.tasks.language_model.running_texts import choose_tokens
from regard.tasks.language_model.scoring import continued_windows

__all__ = ["BatchText", "TextBatch", "TextStep", "TokenScore"]


class TokenScore(NamedTuple):
    """A token, its log-probability (nats), and the likeliest tokens in its place with theirs."""

    token: int
    log_probability: float
    alternatives: Sequence[tuple[int, float]] = ()


class TextStep(NamedTuple):
    """One token of a text, and the text that is certain with it."""

    piece: GeneratedPiece
    score: TokenScore


@dataclass(eq=False)
class BatchText:
    """A text that grows. ``alternatives``: how many of the likeliest tokens are told of each step."""

    text: Continuation
    settings: GenerateConfig
    greedy: bool = False
    alternatives: int = 0

    def __post_init__(self) -> None:
        self.choice = self.settings.model_copy(update={"length": 1, "stop": ()}), self.greedy


class TextBatch:
    """Texts that run: ``join``, then ``choose`` and ``advance`` in turn. What a text becomes depends on it alone."""

    def __init__(self, decoding: WindowDecoding) -> None:
        self._decoding = decoding
        self.texts: list[BatchText] = []
        self._reading: Reading | None = None

    @torch.no_grad()
    def join(self, texts: Sequence[BatchText]) -> None:
        """Read the tokens of new texts, which run from now on."""
        read = self._decoding.read([each.text.tokens for each in texts])
        self._reading = read if self._reading is None else joined([self._reading, read])
        self.texts = [*self.texts, *texts]

    @torch.no_grad()
    def choose(self) -> list[tuple[BatchText, TextStep]]:
        """One more token of each text; those that are over leave."""
        if self._reading is None:
            return []
        log_p, tokens = self._reading.log_p, self._chosen(self._reading.log_p)
        own = log_p.gather(1, tokens[:, None]).squeeze(1).tolist()
        steps = []
        for row, (each, token) in enumerate(zip(self.texts, tokens.tolist(), strict=True)):
            score = TokenScore(token, own[row], _likeliest(log_p[row], each.alternatives))
            steps.append((each, TextStep(each.text.append(token, own[row]), score)))
        self.keep(lambda each: not each.text.over)
        return steps

    def keep(self, wanted: Callable[[BatchText], bool]) -> None:
        """Drop the texts that are not wanted."""
        rows = [row for row, each in enumerate(self.texts) if wanted(each)]
        self.texts = [self.texts[row] for row in rows]
        self._reading = self._reading.keep(rows) if self._reading is not None and rows else None

    @torch.no_grad()
    def advance(self) -> None:
        """Read the token that was chosen last, of each text."""
        if self._reading is not None:
            self._reading, order = self._decoding.advance(self._reading, [each.text.tokens for each in self.texts])
            self.texts = [self.texts[row] for row in order]

    def _chosen(self, log_p: Float[Tensor, "rows types"]) -> Int[Tensor, "rows"]:
        """The next token of each text: of all with the same settings at once."""
        groups: defaultdict[tuple[GenerateConfig, bool], list[int]] = defaultdict(list)
        for row, each in enumerate(self.texts):
            groups[each.choice].append(row)
        tokens = torch.zeros(len(log_p), dtype=torch.int64, device=log_p.device)
        for (settings, greedy), rows in groups.items():
            index = torch.tensor(rows, device=log_p.device)
            texts = [self.texts[row].text for row in rows]
            tokens[index] = choose_tokens(log_p[index], texts, settings, greedy=greedy)
        return tokens

    @torch.no_grad()
    def score(
        self, tokens: Sequence[int], alternatives: int = 0, interrupted: Callable[[], bool] = never
    ) -> list[TokenScore]:
        """The score of each token but the first, given those before it, read as in generation.

        Raises PredictionInterrupted where ``interrupted``, asked before each window, says so.
        """
        found: list[TokenScore] = []
        model, context = self._decoding.model, self._decoding.context
        for begin, at, end in continued_windows(1, len(tokens), context):
            if interrupted():
                raise PredictionInterrupted
            window = torch.tensor([tokens[begin:end]], device=self._decoding.device)
            log_p = model.step(window[:, :-1], model.start(1))[0][0]
            for place in range(at, end):
                row = log_p[place - begin - 1]
                token = tokens[place]
                found.append(TokenScore(token, float(row[token]), _likeliest(row, alternatives)))
        return found


def _likeliest(log_p: Float[Tensor, "types"], count: int) -> list[tuple[int, float]]:
    if not count:
        return []
    values, tokens = log_p.topk(min(count, len(log_p)))
    return list(zip(tokens.tolist(), values.tolist(), strict=True))

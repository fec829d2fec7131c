"""Beam search against its textbook form: a list of hypotheses a sentence, every extension of each, one sort."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.search.beam import beam_search
from regard.search.contract import Hypothesis, Symbols

TYPES, POSITIONS, SENTENCES = 8, 5, 4
BEGIN, END, NEVER = 2, 3, (0, 2)
SYMBOLS = Symbols(begin=BEGIN, end=END, suppressed=NEVER)


class At(NamedTuple):
    """The state of a model that knows its sentence, its position and the last token."""

    sentence: Tensor
    position: Tensor


class Model:
    """Random tables of log probabilities, sharp enough to have no ties."""

    def __init__(self, seed: int) -> None:
        draw = torch.randn(SENTENCES, POSITIONS, TYPES, TYPES, generator=torch.Generator().manual_seed(seed))
        self.table = torch.log_softmax(1.5 * draw.double(), -1)

    def start(self) -> At:
        return At(torch.arange(SENTENCES), torch.zeros(SENTENCES, dtype=torch.int64))

    def step(self, tokens: Tensor, state: At) -> tuple[Tensor, At]:
        log_p = self.table[state.sentence, state.position % POSITIONS, tokens[:, -1]]
        return log_p[:, None], state._replace(position=state.position + 1)

    def gain(self, sentence: int, said: list[int], token: int) -> float:
        return float(self.table[sentence, len(said) % POSITIONS, said[-1] if said else BEGIN, token])


class Options(NamedTuple):
    width: int
    nbest: int
    length_penalty: float
    length_offset: float
    no_repeat: int | None = None
    early: bool = False


def textbook(model: Model, sentence: int, longest: int, prefix: list[int], options: Options) -> list[Hypothesis]:
    """``beam_search``'s docstring, word by word."""

    def extended(said: list[int], gains: list[float], token: int) -> tuple[float, list[int], list[float]]:
        grown = [*gains, model.gain(sentence, said, token)]
        return sum(grown), [*said, token], grown

    def hypothesis(said: list[int], gains: list[float], finished: bool) -> Hypothesis:
        total, k = sum(gains), options.length_offset
        score = total / ((k + len(gains)) / (k + 1)) ** options.length_penalty
        return Hypothesis(said, total, score, gains, finished)

    live: list[tuple[list[int], list[float]]] = [([], [])]
    pool: list[Hypothesis] = []
    ended = 0
    for at in range(longest):
        may = [prefix[at]] if at < len(prefix) else [token for token in range(TYPES) if token not in NEVER]
        every = sorted(
            (extended(*each, token) for each in live for token in may
             if at < len(prefix) or not repeats([*each[0], token], options.no_repeat)),
            reverse=True,
        )  # fmt: skip
        new = [hypothesis(said[:-1], gains, True) for _, said, gains in every[: options.width] if said[-1] == END]
        pool, ended = pool + new, ended + len(new)
        pool = sorted(pool, key=lambda each: -each.score)[: options.nbest]
        live = [(said, gains) for _, said, gains in every if said[-1] != END][: options.width]
        if not live:
            return pool
        most = (
            sum(live[0][1])
            / ((options.length_offset + longest) / (options.length_offset + 1)) ** options.length_penalty
        )
        if len(pool) == options.nbest and pool[-1].score >= most:
            return pool
        if options.early and ended >= options.width:
            return pool
    for said, gains in live:
        if len(pool) < options.nbest and all(said != other.tokens for other in pool):
            pool.append(hypothesis(said, gains, False))
    return pool


def repeats(said: list[int], n: int | None) -> bool:
    """Whether the last n tokens stand before, too; the end repeats nothing."""
    if n is None or said[-1] == END:
        return False
    return any(said[at : at + n] == said[-n:] for at in range(len(said) - n))


def same(actual: Hypothesis, expected: Hypothesis) -> None:
    assert (actual.tokens, actual.finished) == (expected.tokens, expected.finished)
    assert actual.score == pytest.approx(expected.score, abs=1e-6)
    assert actual.log_probability == pytest.approx(expected.log_probability, abs=1e-6)
    assert actual.token_log_probabilities == pytest.approx(expected.token_log_probabilities, abs=1e-6)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("penalty", [(0.0, 5.0), (0.6, 5.0), (1.0, 0.0), (2.0, 1.0)], ids=str)
@pytest.mark.parametrize(("forced", "no_repeat"), [(False, None), (True, None), (False, 1), (True, 2)])
@pytest.mark.parametrize("early", [False, True])
def test_it_is_the_textbook_s(
    width: int, penalty: tuple[float, float], forced: bool, no_repeat: int | None, early: bool
) -> None:
    """Of four sentences at a time, each with a limit and perhaps a prefix of its own; eight models each."""
    for seed in range(8):
        draw, model = random.Random(f"{width} {penalty} {seed}"), Model(seed)
        longest = [draw.randint(3, 9) for _ in range(SENTENCES)]
        prefixes = [draw.choices([4, 5, 6, 7], k=draw.randint(0, 3)) if forced else [] for _ in range(SENTENCES)]
        options = Options(width, draw.randint(1, width), *penalty, no_repeat, early)
        found = beam_search(
            model.step,
            model.start(),
            SYMBOLS,
            max_lengths=torch.tensor(longest),
            prefixes=prefixes,
            **options._asdict(),
        )
        for sentence, hypotheses in enumerate(found):
            expected = textbook(model, sentence, longest[sentence], prefixes[sentence], options)
            assert len(hypotheses) == len(expected)
            for one, other in zip(hypotheses, expected, strict=True):
                same(one, other)


def test_a_beam_wider_than_the_vocabulary_is_the_textbook_s() -> None:
    """The first step has fewer extensions than the beam is wide."""
    model, options = Model(9), Options(12, 12, 0.6, 5.0)
    longest = torch.full((SENTENCES,), 4)
    found = beam_search(model.step, model.start(), SYMBOLS, max_lengths=longest, **options._asdict())
    for sentence, hypotheses in enumerate(found):
        expected = textbook(model, sentence, 4, [], options)
        assert len(hypotheses) == len(expected) == 12 and math.isfinite(hypotheses[-1].score)
        for one, other in zip(hypotheses, expected, strict=True):
            same(one, other)


def test_a_search_that_stops_early_stops_sooner_and_finds_nothing_better() -> None:
    def found(early: bool) -> tuple[list[float], int]:
        model, rows = Model(3), 0

        def step(tokens: Tensor, state: At) -> tuple[Tensor, At]:
            nonlocal rows
            rows += len(tokens)
            return model.step(tokens, state)

        longest = torch.full((SENTENCES,), 40)
        options = Options(3, 1, 1.0, 0.0, early=early)
        outputs = beam_search(step, model.start(), SYMBOLS, max_lengths=longest, **options._asdict())
        return [each[0].score for each in outputs], rows

    (exact, all_rows), (early, fewer) = found(False), found(True)
    assert fewer < all_rows
    assert early != exact and all(one <= other for one, other in zip(early, exact, strict=True))

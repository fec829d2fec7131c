"""Outputs that contain what is wanted: the true best of those, and else the laws that every search is under."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.inference.search_model import SearchInput
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.search.batch_search import RunningBatch, in_order, search
from regard.search.beam import beam_search
from regard.search.constrained import start_constrained_beam
from regard.search.constraint_state import ConstraintSet
from regard.search.contract import Hypothesis, Symbols, chunked
from regard.tasks.translation.translator import Translator

BEGIN, END, TYPES = 2, 3, 8
SYMBOLS = Symbols(BEGIN, END, suppressed=(0, BEGIN))
WORDS = (1, 4, 5, 6, 7)


class Said(NamedTuple):
    """The last two tokens of each row, how many there are, and which sentence it is."""

    last: Tensor
    length: Tensor
    sentence: Tensor


def model(seed: int = 0, sharp: float = 2.0):
    """A step whose log probabilities follow from the last two tokens, the place and the sentence, at random."""
    draw = torch.Generator().manual_seed(seed)
    table = sharp * torch.randn(TYPES, TYPES, TYPES, generator=draw, dtype=torch.float64)
    places = sharp * torch.randn(4, 30, TYPES, generator=draw, dtype=torch.float64)

    def step(tokens: Tensor, state: Said) -> tuple[Tensor, Said]:
        last = torch.stack([state.last[:, 1], tokens[:, 0]], 1)
        logits = table[last[:, 0], last[:, 1]] + places[state.sentence, state.length]
        return torch.log_softmax(logits, -1)[:, None], Said(last, state.length + 1, state.sentence)

    return step


def begun(sentences: Sequence[int]) -> Said:
    count = len(sentences)
    return Said(
        torch.zeros(count, 2, dtype=torch.int64), torch.zeros(count, dtype=torch.int64), torch.tensor(sentences)
    )


def found(step, constraints, *, max_lengths: Sequence[int], sentences: Sequence[int] | None = None, **options: Any):
    sentences = range(len(constraints)) if sentences is None else sentences
    live = start_constrained_beam(
        range(len(constraints)), SYMBOLS, max_lengths=torch.tensor(max_lengths), constraints=constraints, **options
    )
    return in_order(search(chunked(step), (live, begun(list(sentences)))), len(constraints))


def contains(tokens: Sequence[int], constraints: Sequence[Sequence[int]]) -> bool:
    def times(wanted: Sequence[int]) -> int:
        size = len(wanted)
        return sum(list(tokens[at : at + size]) == list(wanted) for at in range(len(tokens) - size + 1))

    return all(times(wanted) >= [*map(list, constraints)].count(list(wanted)) for wanted in constraints)


def same(one: Sequence[Hypothesis], other: Sequence[Hypothesis], *, within: float = 1e-9) -> None:
    assert [(each.tokens, each.finished) for each in one] == [(each.tokens, each.finished) for each in other]
    for mine, its in zip(one, other, strict=True):
        assert mine.score == pytest.approx(its.score, abs=within)
        assert mine.token_log_probabilities == pytest.approx(its.token_log_probabilities, abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("width", "nbest"), [(1, 1), (2, 1), (3, 3), (5, 2)])
@pytest.mark.parametrize("prefixes", [None, [[4, 4], [], [1, 5, 6]]])
def test_without_constraints_it_is_beam_search(seed: int, width: int, nbest: int, prefixes: Any) -> None:
    options: dict[str, Any] = {"width": width, "nbest": nbest, "length_penalty": 0.7, "prefixes": prefixes}
    options |= {"early": bool(seed % 2), "no_repeat": (None, 1, 2)[seed % 3]}
    longest = [9, 3, 6]
    plain = beam_search(model(seed), begun([0, 1, 2]), SYMBOLS, max_lengths=torch.tensor(longest), **options)
    for one, other in zip(found(model(seed), [[], [], []], max_lengths=longest, **options), plain, strict=True):
        same(one, other)


SEQUENCES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), max_size=3)


def needlessly_repeats(tokens: Sequence[int], constraints: Sequence[Sequence[int]], n: int | None) -> bool:
    """Whether a token ends an n-gram that stands before it, and brings the output no nearer to its constraints."""
    wanted = ConstraintSet(constraints)
    state, needless = wanted.initial, False
    for at, token in enumerate(tokens, 1):
        after = wanted.advance(state, token)
        again = n is not None and any(tokens[at - n : at] == tokens[end - n : end] for end in range(n, at))
        needless |= again and wanted.tokens_met(after) <= wanted.tokens_met(state)
        state = after
    return needless


@settings(max_examples=30, deadline=None)
@given(
    constraints=SEQUENCES, seed=st.integers(0, 99), penalty=st.sampled_from([0.0, 0.6, 1.5]),
    no_repeat=st.sampled_from([None, 1, 2]),
)  # fmt: skip
def test_a_beam_as_wide_as_the_space_finds_the_true_best(
    constraints: list[list[int]], seed: int, penalty: float, no_repeat: int | None
) -> None:
    longest, step = 4, model(seed)
    options: dict[str, Any] = {"width": 3000, "length_penalty": penalty, "no_repeat": no_repeat}
    ((output,),) = found(step, [constraints], max_lengths=[longest], **options)
    best: tuple[float, tuple[int, ...]] = (-float("inf"), ())
    for length in range(1, longest + 1):
        for tokens in itertools.product(WORDS, repeat=length - 1):
            if contains(tokens, constraints) and not needlessly_repeats(tokens, constraints, no_repeat):
                total, state = 0.0, begun([0])
                for before, token in itertools.pairwise([BEGIN, *tokens, END]):
                    log_p, state = step(torch.tensor([[before]]), state)
                    total += float(log_p[0, 0, token])
                best = max(best, (total / ((5 + length) / 6) ** penalty, tokens))
    assert output.finished == (best[0] > -float("inf"))
    if output.finished:
        assert (output.score, tuple(output.tokens)) == (pytest.approx(best[0], abs=1e-9), best[1])


@settings(max_examples=100, deadline=None)
@given(
    constraints=SEQUENCES, seed=st.integers(0, 99), width=st.integers(1, 6), no_repeat=st.sampled_from([None, 1, 2, 3])
)
def test_what_is_wanted_is_always_there(
    constraints: list[list[int]], seed: int, width: int, no_repeat: int | None
) -> None:
    """Also where it repeats itself and nothing else may."""
    ((output,),) = found(model(seed), [constraints], max_lengths=[25], width=width, no_repeat=no_repeat)
    assert contains(output.tokens, constraints)
    assert not needlessly_repeats(output.tokens, constraints, no_repeat)
    assert output.score == pytest.approx(
        output.log_probability / ((5 + len(output.token_log_probabilities)) / 6) ** 0.6
    )
    assert sum(output.token_log_probabilities) == pytest.approx(output.log_probability)


def test_a_search_that_stops_early_has_let_as_many_end_as_the_beam_is_wide() -> None:
    """Sooner than the bound on what may come, with nothing better, and what is wanted is there all the same."""

    def searched(early: bool) -> tuple[list[float], int]:
        rows, inner = 0, model(3)

        def step(tokens: Tensor, state: Said) -> tuple[Tensor, Said]:
            nonlocal rows
            rows += len(tokens)
            return inner(tokens, state)

        options: dict[str, Any] = {"width": 4, "length_penalty": 3.0, "length_offset": 0.0, "early": early}
        outputs = found(step, WANTED, max_lengths=[25] * 5, sentences=[0, 1, 2, 3, 0], **options)
        assert all(contains(its[0].tokens, each) for its, each in zip(outputs, WANTED, strict=True))
        return [its[0].score for its in outputs], rows

    (exact, all_rows), (early, fewer) = searched(False), searched(True)
    assert fewer < all_rows
    assert early != exact and all(one <= other for one, other in zip(early, exact, strict=True))


def test_what_does_not_fit_before_the_limit_is_not_finished_and_as_near_as_can_be() -> None:
    ((output,),) = found(model(), [[[4, 5, 6, 7], [1, 1]]], max_lengths=[4], width=3)
    assert not output.finished and len(output.tokens) == 4
    assert contains(output.tokens, [[4, 5, 6, 7]]) or contains(output.tokens, [[1, 1]])


def test_what_can_never_be_said_is_refused() -> None:
    for token in (0, BEGIN, END):
        with pytest.raises(ValueError, match="no output can contain"):
            found(model(), [[[4, token]]], max_lengths=[9], width=2)


WANTED = [[[4, 5], [7]], [], [[6, 6, 1]], [[5], [5]], [[1, 4, 1]]]


def test_sentences_that_enter_while_others_run_are_searched_as_alone() -> None:
    order, entered = [0, 1, 2, 3, 1], 0
    step = model(3)

    def waiting(free: int):
        nonlocal entered
        numbers = list(range(entered, min(entered + free, len(order))))
        entered += len(numbers)
        wanted = [WANTED[number] for number in numbers]
        longest = torch.tensor([9 + number for number in numbers], dtype=torch.int64)
        live = start_constrained_beam(numbers, SYMBOLS, max_lengths=longest, width=3, constraints=wanted)
        return (live, begun([order[number] for number in numbers])) if numbers else None

    first = waiting(2)
    assert first is not None
    outputs = dict(search(chunked(step), first, waiting, capacity=2))
    assert sorted(outputs) == list(range(len(order)))
    for number, sentence in enumerate(order):
        alone = found(step, [WANTED[number]], max_lengths=[9 + number], sentences=[sentence], width=3)
        same(outputs[number], alone[0])


@pytest.mark.parametrize("dropped", [[1], [0, 2], [0, 1, 2]])
def test_a_sentence_that_is_dropped_leaves_the_others_as_they_were(dropped: list[int]) -> None:
    step, running, outputs = model(4), RunningBatch(chunked(model(4))), {}
    wanted = [WANTED[0], WANTED[2], WANTED[4], WANTED[2]]
    longest = [12, 13, 14, 13]

    def opened(numbers: list[int]):
        options: dict[str, Any] = {"max_lengths": torch.tensor([longest[number] for number in numbers]), "width": 3}
        live = start_constrained_beam(numbers, SYMBOLS, constraints=[wanted[number] for number in numbers], **options)
        return live, begun([number % 3 for number in numbers])

    running.enter(opened([0, 1, 2]))
    assert running.active_ids == {0, 1, 2}
    running.drop(dropped)
    running.drop([7])  # nobody
    running.enter(opened([3]))
    while running.active_ids:
        running.advance()
        outputs |= dict(running.take_finished())
    assert sorted(outputs) == sorted({0, 1, 2, 3} - set(dropped))
    for number, its in outputs.items():
        same(its, found(step, [wanted[number]], max_lengths=[longest[number]], sentences=[number % 3], width=3)[0])


@pytest.mark.parametrize("engine", ["float32", "reference"])
def test_every_engine_searches_so(engine: Any) -> None:
    words = train_tokenizer(["a b c d e f"], TokenizerConfig(kind="word"))
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8}
    built = build(ModelConfig(**sizes, dropout=0.0), source_types=len(words), target_types=len(words))
    decoding = Translator(built, words, words, SearchConfig(), max_length=20, engine=engine).decoding
    sources = [words.encode(line) for line in ("a b c", "f", "b b e d")]
    options = SearchConfig(beam=3, nbest=2, max_extra=9)

    def outputs(constraints: Any = ((), (), ())) -> list[list[Hypothesis]]:
        inputs = [SearchInput(source, constraints=own) for source, own in zip(sources, constraints, strict=True)]
        return in_order(search(decoding.step, decoding.open(range(3), inputs, options)), 3)

    wanted = [[words.encode("d e"), words.encode("a")], [], [words.encode("f")]]
    repeating = 0
    for its, constraints in zip(outputs(constraints=wanted), wanted, strict=True):
        assert contains(its[0].tokens, constraints)
        repeating += needlessly_repeats(its[0].tokens, constraints, 1)
    assert repeating
    options = options.model_copy(update={"no_repeat_ngram": 1})
    for its, constraints in zip(outputs(constraints=wanted), wanted, strict=True):
        assert contains(its[0].tokens, constraints) and not needlessly_repeats(its[0].tokens, constraints, 1)

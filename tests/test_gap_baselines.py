"""Baselines of hidden tokens: parity with plain dictionaries, sums to one, nothing hidden is read."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.baselines.chords import ChordBaseline, _degree
from regard.baselines.context_product import BUCKETS, SIZES, START
from regard.baselines.context_tables import FEWEST
from regard.baselines.gaps import GapBaseline, HiddenTokens
from regard.baselines.neighbors import OUTSIDE, NeighborBaseline
from regard.baselines.ngrams import discounts
from regard.core.baseline import SavedBaseline
from regard.core.task import find_task
from regard.data.notes import PITCHES
from regard.data.tokenizers.notes import FIRST, FRAME_END
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS
from regard.testing import TaskCase
from regard.training.baseline import added, baseline_groups

TYPES, NOTES = 10, FIRST + PITCHES
SKEWED = (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)  # of the types that are not special
Texts = list[np.ndarray]


def words(seed: int, number: int = 60) -> Texts:
    """Texts in which a word depends on the one before."""
    draw = np.random.default_rng(seed)
    texts = []
    for _ in range(number):
        inner = [int(draw.integers(4, TYPES))]
        while len(inner) < draw.integers(2, 9):
            inner.append(4 + (inner[-1] * 5 + int(draw.integers(0, 2))) % (TYPES - 4))
        texts.append(np.array([BEGIN, *inner, END]))
    return texts


def music(seed: int, number: int = 12) -> Texts:
    """Pieces of major chords in one position, at several heights."""
    draw = np.random.default_rng(seed)
    pieces = []
    for _ in range(number):
        roots = FIRST + draw.integers(40, 60, 6)
        frames = [token for root in roots for token in (root, root + 4, root + 7, FRAME_END)]
        pieces.append(np.array([BEGIN, *frames, END]))
    return pieces


def hide(texts: Texts, seed: int = 5, share: float = 0.3) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    hidden = [(text > END) & (draw.random(len(text)) < share) for text in texts]
    for flags in hidden:
        flags[1] = True
    return hidden


CASES: dict[str, tuple[type[Any], Any, int]] = {
    "neighbors": (NeighborBaseline, words, TYPES),
    "chords": (ChordBaseline, music, NOTES),
}
KINDS = pytest.mark.parametrize("kind", CASES)
_LEARNED: dict[str, GapBaseline] = {}


def learned(kind: str) -> GapBaseline:
    make, texts, types = CASES[kind]
    if kind not in _LEARNED:
        _LEARNED[kind] = make()
        _LEARNED[kind].learn(texts(1), hide(texts(1))[:6], types)
    return _LEARNED[kind]


def hidden_of(kind: str, seed: int = 2) -> HiddenTokens:
    texts = CASES[kind][1](seed)
    return HiddenTokens.of(texts, hide(texts))


@KINDS
def test_probabilities_sum_to_one_and_are_those_of_candidates(kind: str) -> None:
    """Most outcomes are in no table; their sum has a closed form."""
    model, tokens = learned(kind), hidden_of(kind)
    contexts, outcomes, offset = model.gaps(tokens)
    p = model.product.distribution(contexts, len(outcomes))
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
    logs, best = model.predict(tokens)
    np.testing.assert_allclose(np.exp(logs), p[np.arange(len(outcomes)), outcomes], rtol=1e-9)
    np.testing.assert_allclose(p[np.arange(len(outcomes)), best - offset], p.max(1), rtol=1e-9)


@KINDS
def test_the_evidence_is_the_distribution_of_tokens(kind: str) -> None:
    """Also for tokens that are not known, by which neither probabilities nor buckets may change."""
    model, tokens = learned(kind), hidden_of(kind)
    evidence = model.evidence(tokens)
    p = np.exp(evidence.log_probabilities)
    assert p.sum(1).max() < 1 + 1e-5
    assert p.sum(1).min() > (0.95 if kind == "chords" else 1 - 1e-5)  # intervals beyond the last pitch
    targets = tokens.tokens[tokens.chosen]
    logs, best = model.predict(tokens)
    np.testing.assert_allclose(evidence.log_probabilities[np.arange(len(targets)), targets], logs, rtol=1e-5)
    np.testing.assert_allclose(p[np.arange(len(best)), best], p.max(1), rtol=1e-5)
    read = np.where(tokens.chosen, CASES[kind][2], tokens.tokens)
    unknown = model.evidence(HiddenTokens.unknown([read], CASES[kind][2]))
    np.testing.assert_array_equal(unknown.log_probabilities, evidence.log_probabilities)
    np.testing.assert_array_equal(unknown.buckets, evidence.buckets)
    assert evidence.buckets.min() >= 0 and evidence.buckets.max() < BUCKETS
    assert len(np.unique(evidence.buckets, axis=0)) > 1


def test_buckets_are_levels_and_shares() -> None:
    """Of "4 5 6" between begin and end, all contexts are known; beside a hidden token none is."""
    texts = [np.array([BEGIN, 4, 5, 6, END])] * 3
    model = NeighborBaseline()
    model.learn(texts, [], TYPES)
    alone, beside = (
        model.evidence(HiddenTokens.of(texts[:1], [np.isin(np.arange(5), hidden)])).buckets for hidden in ([2], [2, 3])
    )
    assert (alone // SIZES).tolist() == [[0, 4, 4, 2]]
    assert (beside[:1] // SIZES).tolist() == [[0, 4, 0, 0]] and beside[0, 2] == beside[0, 3] == 0


@KINDS
def test_no_hidden_token_is_read(kind: str) -> None:
    model, tokens = learned(kind), hidden_of(kind)
    draw = np.random.default_rng(1)
    other = np.where(tokens.chosen, draw.integers(FIRST, CASES[kind][2], len(tokens.tokens)), tokens.tokens)
    contexts, outcomes, _ = model.gaps(tokens)
    changed, _, _ = model.gaps(HiddenTokens(tokens.read, tokens.chosen, other))
    for chain, same in zip(contexts, changed, strict=True):
        np.testing.assert_array_equal(chain, same)
    assert len(np.unique(model.product.distribution(contexts, len(outcomes)).round(9), axis=0)) > 1


@KINDS
def test_a_text_is_predicted_alone(kind: str) -> None:
    model, texts = learned(kind), CASES[kind][1](3, 5)
    hidden = hide(texts)
    alone = [model.predict(HiddenTokens.of([text], [flags])) for text, flags in zip(texts, hidden, strict=True)]
    logs, best = model.predict(HiddenTokens.of(texts, hidden))
    np.testing.assert_allclose(np.concatenate([part for part, _ in alone]), logs)
    np.testing.assert_array_equal(np.concatenate([part for _, part in alone]), best)
    assert len(model.predict(HiddenTokens.of([], []))[0]) == 0


@KINDS
def test_a_saved_one_is_the_same(kind: str) -> None:
    model, tokens = learned(kind), hidden_of(kind)
    opened = CASES[kind][0]().open(model.save())
    np.testing.assert_array_equal(opened.predict(tokens)[0], model.predict(tokens)[0])
    assert opened.description == model.description


def damaged(saved: SavedBaseline, damage: str) -> SavedBaseline:
    arrays, settings = {name: array.copy() for name, array in saved.arrays.items()}, dict(saved.settings)
    match damage:
        case "order":
            arrays["left.0.contexts"] = arrays["left.0.contexts"][::-1]
        case "length":
            arrays["left.0.backoff"] = arrays["left.0.backoff"][:-1]
        case "start":
            arrays["left.0.starts"][-1] += 1
        case "outcome":
            arrays["left.0.outcomes"][0] = 10**6
        case "special":
            arrays["left.0.outcomes"][0] = 0
        case "share":
            arrays["left.0.shares"][0] = np.nan
        case "exponent":
            arrays["exponents"][0] = -1
        case "popularity":
            arrays["popularity"][-1] = 0
        case "missing":
            del arrays["both.1.contexts"]
        case "levels":
            settings["levels"] = [0, 10**9, 0, 0]
        case "types":
            settings["types"] = 10**9
    return SavedBaseline(arrays, settings)


DAMAGES = "order length start outcome special share exponent popularity missing levels types".split()


@pytest.mark.parametrize("damage", DAMAGES)
@KINDS
def test_damaged_arrays_are_refused(kind: str, damage: str) -> None:
    saved = learned(kind).save()
    with pytest.raises((ValueError, LookupError)):
        CASES[kind][0]().open(damaged(saved, damage))


def slow_chain(contexts: list[list[Any]], outcomes: list[int], shorter: Any) -> Any:
    """P(x | contexts of one gap) by dictionaries; a context that is None is not known."""
    tables: list[Counter[tuple[Any, int]]] = []
    for level, column in enumerate(contexts):
        pairs = list(zip(column, outcomes, strict=True))
        if level + 1 < len(contexts):
            longer: dict[Any, set[Any]] = defaultdict(set)
            for pair, finer in zip(pairs, contexts[level + 1], strict=True):
                longer[pair].add(finer)
            tables.append(Counter({pair: len(found) for pair, found in longer.items()}))
        else:
            tables.append(Counter(pairs))

    def probability(gap: list[Any], x: int) -> float:
        p = float(shorter(x))
        for table, context in zip(tables, gap, strict=True):
            row = {pair: count for pair, count in table.items() if pair[0] == context}
            if sum(row.values()) < FEWEST or context is None:
                continue
            by_count = discounts(np.array([*table.values()]))
            total, count = sum(row.values()), row.get((context, x), 0)
            lost = sum(by_count[min(n, 3)] for n in row.values())
            p = (count - by_count[min(count, 3)] if count else 0.0) / total + lost / total * p
        return p

    return probability


def test_neighbors_are_those_of_plain_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.baselines.neighbors.FEW_TYPES", 0)  # two neighbors on each side
    model, texts = NeighborBaseline(), words(1)
    model.learn(texts, [], TYPES)
    model.product.exponents = np.array([0.7, 0.9, -0.5])
    columns: list[list[Any]] = [[] for _ in range(6)]
    outcomes = []
    for text in texts:
        padded = [OUTSIDE, *text.tolist(), OUTSIDE]
        for place in range(2, len(text)):
            far, near, target, after, farther = padded[place - 2 : place + 3]
            contexts = [near, (near, far), after, (after, farther), (near, after), (near, after, far, farther)]
            outcomes.append(target)
            for column, context in zip(columns, contexts, strict=True):
                column.append(context)
    counts = Counter(outcomes)

    def popularity(x: int) -> float:
        return (counts[x] + 0.5) / (len(outcomes) + 0.5 * (TYPES - len(SPECIALS)))

    left, right = (slow_chain(columns[start : start + 2], outcomes, popularity) for start in (0, 2))
    text = np.array([BEGIN, 5, 9, 7, 8, 6, END])
    for hidden in ([2], [4], [2, 3], [1], [5], [2, 4]):
        tokens = HiddenTokens.of([text], [np.isin(np.arange(len(text)), hidden)])
        gap_contexts, targets, _ = model.gaps(tokens)
        found = model.product.distribution(gap_contexts, len(targets))
        read = [OUTSIDE, *tokens.read.tolist(), OUTSIDE]
        for row, at in zip(found, hidden, strict=True):
            far, near, _, after, farther = (None if token == -1 else token for token in read[at - 1 : at + 4])
            gap = [near, (near, far), after, (after, farther), (near, after), (near, after, far, farther)]
            known = [None if context is None or (isinstance(context, tuple) and None in context) else context
                     for context in gap]  # fmt: skip
            scores = {
                x: left(known[:2], x) ** 0.7 * right(known[2:4], x) ** 0.9 * popularity(x) ** -0.5
                for x in range(len(SPECIALS), TYPES)
            }
            q = {x: score / sum(scores.values()) for x, score in scores.items()}
            both = slow_chain(columns[4:], outcomes, q.__getitem__)
            np.testing.assert_allclose(row[4:], [both(known[4:], x) for x in scores], rtol=1e-4)


def test_both_sides_are_better_than_one() -> None:
    model, tokens = learned("neighbors"), hidden_of("neighbors", 7)
    both = model.predict(tokens)[0].mean()
    for side in (0, 1):
        one = CASES["neighbors"][0]().open(model.save())
        one.product.exponents = np.array([1.0, 0.0, 0.0]) if side == 0 else np.array([0.0, 1.0, 0.0])
        one.product.tables.both[:] = [table._replace(contexts=table.contexts[:0]) for table in one.product.tables.both]
        assert one.predict(tokens)[0].mean() < both
    assert both > math.log(1 / (TYPES - len(SPECIALS))) + 0.3


def test_chords_are_known_at_every_height() -> None:
    """A major third is predicted for a root that occurs nowhere in the training data."""
    model = learned("chords")
    high = np.array([BEGIN, *(FIRST + 90 + np.array([0, 4, 7])), FRAME_END, END])
    logs, best = model.predict(HiddenTokens.of([high], [np.arange(len(high)) == 2]))
    assert best.tolist() == [FIRST + 94] and logs[0] > math.log(0.8)
    tokens = HiddenTokens.of([high], [np.arange(len(high)) == 2])
    assert model.evidence(tokens).log_probabilities.argmax() == FIRST + 94


def test_the_degree_of_a_chord_in_its_key() -> None:
    """C major and, after another text, D major: their dominants are 7 semitones above, at each height."""
    scale = np.array([0, 2, 4, 5, 7, 9, 11])
    texts = [np.array([BEGIN, *(FIRST + tonic + scale), FRAME_END, END]) for tonic in (60, 62)]
    tokens = HiddenTokens.of(texts, [np.arange(10) == 1, np.arange(10) == 2])
    dominant = FIRST + np.array([67, 69])
    assert _degree(tokens, dominant).tolist() == [7, 7] and _degree(tokens, dominant - 12).tolist() == [7, 7]


def test_transposed_pieces_are_counted_once() -> None:
    pieces = music(1, 3)
    higher = [np.where(piece >= FIRST, piece + 3, piece) for piece in pieces]
    assert ChordBaseline().distinct([*pieces, *higher]) == [0, 1, 2]


def test_a_hidden_end_of_a_frame_is_predicted() -> None:
    piece = music(4, 1)[0]
    end = int((piece == FRAME_END).argmax())
    assert learned("chords").predict(HiddenTokens.of([piece], [np.arange(len(piece)) == end]))[1].tolist() == [
        FRAME_END
    ]


def test_it_is_measured_like_the_network(tmp_path: Any) -> None:
    case = TaskCase(find_task("masked"), "masked")
    run: Any = SimpleNamespace(path=tmp_path, config=case.config)
    assert case.task.open_baseline(run, case.data.codecs) is None
    fitted = case.task.fit_baseline(run, case.data)
    assert fitted is not None
    fitted.save(run, {})
    baseline, examples = case.task.open_baseline(run, case.data.codecs), case.data.train
    assert baseline is not None
    sums = added(baseline_groups(baseline, examples, ["pseudo_perplexity"]))
    assert sums["tokens"] == examples.token_counts().sum()
    figures = case.task.compute_metrics(sums)
    assert figures["loss"] < math.log(case.data.spec["types"]) and 1 < figures["pseudo_perplexity"] < 20
    texts: Any = [examples.text(index) for index in range(len(examples))]  # type: ignore[attr-defined]
    model: GapBaseline = baseline.model  # type: ignore[attr-defined]
    alone = [
        float(model.predict(HiddenTokens.of([text], [np.arange(len(text)) == place]))[0][0])
        for text in texts for place in np.flatnonzero(text > END)
    ]  # fmt: skip
    assert float(sums["pseudo_nll"]) == pytest.approx(-sum(alone)) and sums["pseudo_tokens"] == len(alone)


@KINDS
def test_exponents_of_few_gaps_are_near_those_at_the_start(kind: str) -> None:
    """One gap in each of a few texts would fit any exponents."""
    make, draw_texts, types = CASES[kind]
    texts = draw_texts(3, 8)
    model = make()
    model.learn(texts, [(np.arange(len(text)) == 1) & (text > END) for text in texts[:2]], types)
    assert np.abs(model.product.exponents - START).max() <= 3


def test_folds_choose_exponents_by_all_texts() -> None:
    """Independent tokens: what is best is the popularity of the tokens, whatever is beside the gap."""
    draw = np.random.default_rng(4)

    def texts(number: int) -> Texts:
        return [np.array([BEGIN, *draw.choice(np.arange(4, TYPES), 6, p=SKEWED), END]) for _ in range(number)]

    few, fresh = texts(40), texts(400)
    model = NeighborBaseline()
    model.learn(few, hide(few), TYPES)
    logs = model.predict(HiddenTokens.of(fresh, hide(fresh)))[0]
    entropy = -sum(p * math.log(p) for p in SKEWED)
    assert -logs.mean() < entropy + 0.14

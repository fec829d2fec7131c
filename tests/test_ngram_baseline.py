"""The baseline of language models: parity with plain dictionaries, sums to one, and no look ahead."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch

from regard.baselines.ngrams import ContextTokens, NgramBaseline, _count, discounts
from regard.core.baseline import FOLDER, SETTINGS_FILE, SavedBaseline
from regard.core.task import find_task
from regard.tasks.language_model.wide import tokens_of_batch
from regard.testing import TaskCase

Sequences = list[list[int]]


def tokens_of(sequences: Sequences) -> ContextTokens:
    inputs = [np.array(each[:-1]) for each in sequences]
    targets = [np.array(each[1:]) for each in sequences]
    return ContextTokens(
        *(np.concatenate(part) for part in (inputs, [np.arange(len(each)) for each in inputs], targets))
    )


def drawn(seed: int, number: int = 40, types: int = 5) -> Sequences:
    draw = np.random.default_rng(seed)
    return [draw.choice(types, draw.integers(2, 12), p=draw.dirichlet(np.ones(types))).tolist() for _ in range(number)]


def slow(sequences: Sequences, longest: int, types: int) -> Any:
    """P(target | context), by dictionaries; a context of −1 is before the beginning."""
    counts: list[dict[tuple[tuple[int, ...], int], Any]] = [defaultdict(set) for _ in range(longest + 1)]
    for number, sequence in enumerate(sequences):
        padded = [-1] * longest + sequence
        for place in range(longest + 1, len(padded)):
            for order in range(longest + 1):
                context = tuple(padded[place - order : place])
                if order == longest:
                    counts[order][context, padded[place]].add((number, place))
                else:
                    counts[order][context, padded[place]].add(padded[place - order - 1])
    sizes = [{gram: len(found) for gram, found in table.items()} for table in counts]

    def probability(context: tuple[int, ...], target: int, order: int) -> float:
        if order < 0:
            return 1 / types
        own = context[len(context) - order :]
        rows = {gram: size for gram, size in sizes[order].items() if gram[0] == own}
        shorter = probability(context, target, order - 1)
        if not rows:
            return shorter
        discount = discounts(np.array([*sizes[order].values()]))
        total = sum(rows.values())
        backoff = sum(discount[min(size, 3)] for size in rows.values()) / total
        size = rows.get((own, target), 0)
        return (size - discount[min(size, 3)] if size else 0.0) / total + backoff * shorter

    return probability


@pytest.mark.parametrize("longest", [0, 1, 2, 3])
def test_it_is_that_of_plain_dictionaries(longest: int) -> None:
    sequences, unseen = drawn(1), drawn(2, number=6)
    model = NgramBaseline()
    model.types, model.orders = 6, _count(tokens_of(sequences), longest, 6)
    found = model.log_probabilities(tokens_of(unseen))
    reference = slow(sequences, longest, 6)
    expected = []
    for sequence in unseen:
        padded = [-1] * longest + sequence
        expected += [
            reference(tuple(padded[at - longest : at]), padded[at], longest) for at in range(longest + 1, len(padded))
        ]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-5)


def test_the_distribution_of_the_next_token_is_that_of_each_target() -> None:
    model = NgramBaseline()
    model.learn(tokens_of(drawn(1)), 7)
    assert model.longest > 1
    for context in ([0], [1, 2], [3, 3, 3, 4], [6, 6, 6], [2, 0, 1, 4, 1, 0]):
        recent = np.full((1, model.longest), -1)
        own = context[::-1][: model.longest]
        recent[0, : len(own)] = own
        found, bucket = model.next_probabilities(np.repeat(recent, 3, 0))
        each = [model.evidence(tokens_of([[*context, target]])) for target in range(7)]
        expected = [np.exp(one.log_probabilities[-1]) for one in each]
        np.testing.assert_allclose(found, [expected] * 3, rtol=1e-5)
        assert {*bucket.tolist()} == {one.buckets[-1] for one in each}


def test_the_bucket_is_that_of_the_longest_known_context() -> None:
    """After 0 1 there are two tokens; 5 was never read, so only the empty context, of 13 tokens, is known after it."""
    model = NgramBaseline()
    model.types, model.orders = 6, _count(tokens_of([[0, 1, 2], [0, 1, 3], *[[4, 4]] * 9]), 2, 6)
    buckets = model.evidence(tokens_of([[0, 1, 2], [5, 1], [4, 4]])).buckets
    longest, size = buckets // 4, buckets % 4
    assert longest.tolist() == [2, 2, 0, 2] and size.tolist() == [0, 0, 1, 1]


def test_probabilities_sum_to_one() -> None:
    model = NgramBaseline()
    model.learn(tokens_of(drawn(1)), 7)
    for context in ([0], [1, 2], [3, 3, 3, 4], [6, 6, 6], [2, 0, 1, 4, 1, 0]):
        total = sum(np.exp(model.log_probabilities(tokens_of([[*context, target]]))[-1]) for target in range(7))
        assert total == pytest.approx(1, abs=1e-5)


def test_a_target_depends_on_earlier_tokens_of_its_sequence_alone() -> None:
    model = NgramBaseline()
    model.learn(tokens_of(drawn(1)), 5)
    one, other = [1, 2, 3, 4, 0], [1, 2, 3, 1, 1]
    first, second = (model.log_probabilities(tokens_of([each])) for each in (one, other))
    np.testing.assert_array_equal(first[:2], second[:2])
    np.testing.assert_array_equal(model.log_probabilities(tokens_of([one, other])), np.concatenate([first, second]))


def test_a_repeated_text_is_learned() -> None:
    model = NgramBaseline()
    model.learn(tokens_of([[0, 1, 2, 3] * 200]), 4)
    assert model.log_probabilities(tokens_of([[0, 1, 2, 3] * 5]))[3:].mean() > np.log(0.95)


def test_a_saved_one_is_the_same() -> None:
    model = NgramBaseline()
    model.learn(tokens_of(drawn(1)), 5)
    opened, tokens = NgramBaseline().open(model.save()), tokens_of(drawn(3))
    np.testing.assert_array_equal(opened.log_probabilities(tokens), model.log_probabilities(tokens))
    assert opened.description == model.description


@pytest.mark.parametrize("damage", ["order", "length", "share", "missing", "orders"])
def test_damaged_arrays_are_refused(damage: str) -> None:
    model = NgramBaseline()
    model.learn(tokens_of(drawn(1)), 5)
    saved = model.save()
    arrays, settings = dict(saved.arrays), dict(saved.settings)
    if damage == "order":
        arrays["1.grams"] = arrays["1.grams"][::-1].copy()
    elif damage == "length":
        arrays["1.totals"] = arrays["1.totals"][:-1]
    elif damage == "share":
        arrays["1.discounted"] = np.full_like(arrays["1.discounted"], np.nan)
    elif damage == "missing":
        del arrays["0.contexts"]
    else:
        settings["orders"] = 10**9
    with pytest.raises((ValueError, LookupError)):
        NgramBaseline().open(SavedBaseline(arrays, settings))


def test_documents_of_a_row_are_apart() -> None:
    """The tokens of a batch are those of its rows, and a context ends where its document does."""
    case = TaskCase(find_task("language-model"), "language-model")
    examples: Any = case.data.train
    batch = examples.collate(examples.batches(None)[0])
    tokens, counted = tokens_of_batch(batch)
    assert counted.sum() == batch.weight
    rows, length = batch.input.shape
    assert tokens.depth.max() == length - 1 and (tokens.depth == 0).sum() == rows
    position = torch.arange(length).expand(rows, -1) % 3
    cut, _ = tokens_of_batch(batch._replace(position=position))
    assert cut.depth.max() == 2
    np.testing.assert_array_equal(cut.targets, tokens.targets)


def test_a_run_with_the_first_format_has_no_baseline() -> None:
    case = TaskCase(find_task("language-model"), "language-model")
    run = case.run()
    data = case.task.prepare(run, lambda message: None, None)
    baseline = case.task.fit_baseline(run, data)
    assert baseline is not None
    baseline.save(run, {})
    assert case.task.open_baseline(run, data.codecs) is not None
    path = run.path / FOLDER / SETTINGS_FILE
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(saved | {"settings": {"types": 9, "orders": 2}}))
    assert case.task.open_baseline(run, data.codecs) is None

"""What the studies that train share, against the pencil."""

from __future__ import annotations

import math

import pytest
import torch

from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks

PAIRS = toy_tasks.ToyPairs([[4, 5], [6]], [[7], [4, 5]])


def small(seed: int = 0) -> EncoderDecoder:
    torch.manual_seed(seed)
    return toy_tasks.toy_model(5, layers=1, width=16, feed_forward=16, heads=2, norm="pre")


def test_a_batch_by_hand() -> None:
    given = toy_tasks.make_batch(PAIRS)
    assert given.source.tolist() == [[4, 5, END], [6, END, PAD]]
    assert given.target_input.tolist() == [[BEGIN, 7, PAD], [BEGIN, 4, 5]]
    assert given.target_output.tolist() == [[7, END, PAD], [4, 5, END]]
    assert given.target_valid.tolist() == [[True, True, False], [True, True, True]]


def test_words_are_a_function_of_the_number() -> None:
    one, again, other = (
        toy_tasks.random_sentences(number, 50, shortest=2, longest=4, types=6) for number in ((1, 2), (1, 2), (1, 3))
    )
    assert one == again != other
    assert {len(sentence) for sentence in one} == {2, 3, 4}
    assert {word for sentence in one for word in sentence} == set(range(4, 10))
    assert any(len(set(sentence)) < len(sentence) for sentence in one)
    distinct = toy_tasks.random_sentences((1,), 50, shortest=4, longest=4, types=6, distinct=True)
    assert all(len(set(sentence)) == 4 for sentence in distinct)


def test_drawn_pairs_stay_together() -> None:
    sources, targets = toy_tasks.sample_pairs(PAIRS, 20, seed=1)(1)
    assert {(tuple(s), tuple(t)) for s, t in zip(sources, targets, strict=True)} == {((4, 5), (7,)), ((6,), (4, 5))}


def test_the_loss_of_a_model_that_knows_nothing() -> None:
    model = small()
    with torch.no_grad():
        model.head.weight.zero_()
    assert float(toy_tasks.mean_loss(model, toy_tasks.make_batch(PAIRS)).detach()) == pytest.approx(math.log(9))


def test_padding_changes_no_loss() -> None:
    """Of two sentences together, the mean over their tokens: 2 and 3 of them."""
    model = small()
    together = float(toy_tasks.mean_loss(model, toy_tasks.make_batch(PAIRS)).detach())
    first, second = (
        float(toy_tasks.mean_loss(model, toy_tasks.make_batch(toy_tasks.ToyPairs([source], [target]))).detach())
        for source, target in zip(*PAIRS, strict=True)
    )
    assert together == pytest.approx((2 * first + 3 * second) / 5, rel=1e-5)


def test_updates_learn_what_right_and_translate_then_see() -> None:
    model = small()
    assert toy_tasks.translate_greedily(model, PAIRS.sources) != PAIRS.targets
    losses = list(toy_tasks.train_updates(model, lambda step: PAIRS, lambda step: 0.01, last=60))
    assert len(losses) == 60
    assert losses[-1] < 0.1 < losses[0]
    assert toy_tasks.translate_greedily(model, PAIRS.sources) == PAIRS.targets


def test_a_portion_of_a_report() -> None:
    told: list[float] = []
    part = toy_tasks.report_part(told.append, 0.5, 0.75)
    part(0.0)
    part(1.0)
    assert told == [0.5, 0.75]

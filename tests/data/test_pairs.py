"""The order of training: every pair once, never more than N tokens, and nothing but (seed, epoch) decides."""

import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.core.task import ExampleIndices
from regard.data.order import batches_in_order, by_length, epoch_batches, mixed_epoch
from regard.data.pairs import collate, pad_sources, pair_lengths
from regard.data.preparation import prepare
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, TokenizerConfig
from regard.errors import ConfigError, DataError

lengths_of = arrays.arrays(np.int32, st.integers(1, 200), elements=st.integers(1, 60))
tokens_of = st.integers(60, 500)
seeds = st.integers(0, 2**32)
sizes_of = st.lists(st.integers(1, 50), min_size=1, max_size=4)


def alike(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


@given(lengths_of, tokens_of, seeds, seeds)
def test_every_index_comes_exactly_once(lengths, tokens, seed, epoch):
    batches = epoch_batches(lengths, tokens, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))


@given(lengths_of, tokens_of, seeds)
def test_rows_times_longest_is_within_the_tokens(lengths, tokens, seed):
    for batches in (epoch_batches(lengths, tokens, seed=seed, epoch=0), batches_in_order(lengths, tokens)):
        assert all(len(batch) * lengths[batch].max() <= tokens for batch in batches)


@given(lengths_of, tokens_of)
def test_batches_are_as_full_as_the_rule_allows(lengths, tokens):
    batches = batches_in_order(lengths, tokens)
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]] > tokens


@given(lengths_of, tokens_of, seeds, seeds)
def test_same_seed_and_epoch_same_batches(lengths, tokens, seed, epoch):
    before = lengths.copy()
    first = epoch_batches(lengths, tokens, seed=seed, epoch=epoch)
    np.random.default_rng().random(3)
    epoch_batches(lengths, tokens, seed=seed + 1, epoch=epoch)
    assert alike(first, epoch_batches(lengths, tokens, seed=seed, epoch=epoch))
    assert np.array_equal(lengths, before)


def test_other_seed_or_epoch_other_order_and_other_company():
    lengths = np.random.default_rng(0).integers(3, 12, 5000).astype(np.int32)
    orders = [epoch_batches(lengths, 200, seed=seed, epoch=epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0), (0, 1))]
    companies = [{frozenset(batch.tolist()) for batch in order} for order in orders]
    for first in range(4):
        for second in range(first):
            assert len(companies[first] & companies[second]) < len(companies[first]) / 10


def test_batches_do_not_come_by_length():
    lengths = np.repeat(np.arange(1, 41), 20)
    means = [lengths[batch].mean() for batch in epoch_batches(lengths, 100, seed=0, epoch=0)]
    ordered = np.corrcoef(means, np.arange(len(means)))[0, 1]
    assert abs(ordered) < 0.3


def test_a_pair_longer_than_a_batch_is_named():
    lengths = np.array([3, 101, 5, 102])
    with pytest.raises(DataError, match=r"2 sentences do not fit[\s\S]*train\.en:8"):
        epoch_batches(lengths, 100, seed=0, epoch=0, where=lambda index: f"train.en:{index + 7}")
    assert len(epoch_batches(np.array([100, 100]), 100, seed=0, epoch=0)) == 2


def test_in_order_a_long_sentence_is_a_batch_of_its_own():
    batches = batches_in_order(np.array([3, 101, 5, 90, 102]), 100)
    assert [batch.tolist() for batch in batches] == [[0, 2], [3], [1], [4]]


def test_in_order_is_by_rising_length_and_whole():
    lengths = np.array([5, 2, 9, 2, 7])
    assert np.concatenate(batches_in_order(lengths, 10)).tolist() == [1, 3, 0, 4, 2]
    assert batches_in_order(np.array([], np.int32), 10) == []


def test_a_million_sentences_are_planned_in_seconds():
    lengths = np.random.default_rng(0).integers(3, 60, 1_000_000).astype(np.int32)
    start = time.process_time()
    epoch_batches(lengths, 4096, seed=0, epoch=0)
    assert time.process_time() - start < 5


@given(st.integers(1, 60), seeds, st.integers(0, 20))
def test_one_corpus_is_seen_exactly_once_an_epoch(size, seed, epoch):
    assert sorted(mixed_epoch([size], [0.3], seed=seed, epoch=epoch).index) == list(range(size))


@given(sizes_of, st.data(), seeds, st.integers(0, 20))
def test_shares_are_as_the_weights_to_within_one_pair(sizes, data, seed, epoch):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    drawn = mixed_epoch(sizes, weights, seed=seed, epoch=epoch).index
    assert len(drawn) == sum(sizes)
    part = np.searchsorted(np.cumsum(sizes), drawn, side="right")
    counts = np.bincount(part, minlength=len(sizes))
    assert np.all(np.abs(counts - sum(sizes) * np.array(weights) / sum(weights)) < 1)


@given(sizes_of, st.data(), seeds, st.integers(1, 6))
def test_over_a_run_no_pair_is_used_twice_more_than_another(sizes, data, seed, epochs):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    epochs = [mixed_epoch(sizes, weights, seed=seed, epoch=epoch) for epoch in range(epochs)]
    drawn, visits = (np.concatenate(each) for each in zip(*epochs, strict=True))
    used = np.bincount(drawn, minlength=sum(sizes))
    assert len({*zip(drawn.tolist(), visits.tolist(), strict=True)}) == len(drawn), "each use is another visit"
    assert all(sorted(visits[drawn == index]) == list(range(count)) for index, count in enumerate(used))
    for part in np.split(used, np.cumsum(sizes)[:-1]):
        assert part.max() - part.min() <= 1


@given(sizes_of, seeds, st.integers(0, 9))
def test_a_mixture_is_a_pure_function(sizes, seed, epoch):
    weights = [1.0] * len(sizes)
    first = mixed_epoch(sizes, weights, seed=seed, epoch=epoch)
    assert np.array_equal(first, mixed_epoch(sizes, weights, seed=seed, epoch=epoch))


def test_another_epoch_mixes_anew():
    draws = [
        mixed_epoch([100, 10], [1, 1], seed=seed, epoch=epoch).index.tolist()
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert draws[0] != draws[1]
    assert draws[0] != draws[2]


@given(sizes_of, st.integers(0, 5))
def test_batches_of_a_mixture_hold_exactly_the_mixture(sizes, epoch):
    chosen = mixed_epoch(sizes, [1.0] * len(sizes), seed=3, epoch=epoch)
    lengths = np.arange(sum(sizes)) % 13 + 1
    batches = by_length(lengths, chosen, 40, seed=3, epoch=epoch, where=str)
    found = [pair for batch in batches for pair in zip(*(each.tolist() for each in batch), strict=True)]
    assert sorted(found) == sorted(zip(*(each.tolist() for each in chosen), strict=True))
    assert all(len(batch.index) * lengths[batch.index].max() <= 40 for batch in batches)


def test_a_pair_that_fits_no_batch_is_named_by_its_own_number():
    chosen = ExampleIndices(np.array([2, 0, 1]), np.zeros(3, np.int64))
    with pytest.raises(DataError) as caught:
        by_length(np.array([5, 50, 5]), chosen, 40, seed=0, epoch=0, where=lambda index: f"file:{index}")
    assert caught.value.where == "file:1"


@pytest.mark.parametrize(("sizes", "weights"), [([], []), ([1], []), ([0], [1]), ([1, 1], [1, 0])])
def test_a_mixture_of_nothing_is_refused(sizes, weights):
    with pytest.raises(ConfigError):
        mixed_epoch(sizes, weights, seed=0, epoch=0)


def small_corpus(folder):
    tokenizer = train_tokenizer(["a b c d e"], TokenizerConfig(kind="word"))
    pairs = [(1, "a b c", "d"), (2, "e", "a b"), (3, "b b", "c d e a")]
    return prepare(pairs, tokenizer, tokenizer, folder / "corpus", max_length=9)


def test_a_batch_by_hand(tmp_path):
    a, b, c, d, e = range(4, 9)
    corpus = small_corpus(tmp_path)
    batch = collate(corpus, np.array([1, 0]))
    assert batch.source.tolist() == [[e, END, PAD, PAD], [a, b, c, END]]
    assert batch.source_valid.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.target_input.tolist() == [[BEGIN, a, b], [BEGIN, d, PAD]]
    assert batch.target_output.tolist() == [[a, b, END], [d, END, PAD]]
    assert batch.target_valid.tolist() == [[True, True, True], [True, True, False]]
    assert batch[5].tolist() == [1, 0] and batch.weight == 5.0
    assert {tensor.dtype for tensor in batch[:6]} == {torch.int64, torch.bool}


def test_the_plan_counts_what_collate_pads(tmp_path):
    corpus = small_corpus(tmp_path)
    lengths = pair_lengths(corpus)
    assert lengths.tolist() == [4, 3, 5]
    for batch in epoch_batches(lengths, 10, seed=0, epoch=0, where=corpus.where):
        tensors = collate(corpus, batch)
        assert max(tensors.source.numel(), tensors.target_input.numel()) <= 10
        assert max(tensors.source.shape[1], tensors.target_input.shape[1]) == lengths[batch].max()


def test_padded_sources_end_in_end():
    source, valid = pad_sources([[5, 6], [], [7]])
    assert source.tolist() == [[5, 6, END], [END, PAD, PAD], [7, END, PAD]]
    assert valid.tolist() == [[True, True, True], [True, False, False], [True, True, False]]

"""Orders that are computed batch by batch: the laws of the listed ones, and any batch without those before it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.task import ExampleIndices
from regard.data import computed_order, length_index
from regard.data.computed_order import LengthOrder, _cut, even_batches
from regard.data.length_index import LengthIndex
from regard.data.order import batches_in_order
from regard.data.windows import WindowExamples
from regard.errors import DataError

seeds = st.integers(0, 2**40)
lengths_of = st.lists(st.integers(1, 30), min_size=1, max_size=80)
several = st.lists(lengths_of, min_size=1, max_size=3)


class Lengths:
    """Of a corpus what an index by length asks for."""

    def __init__(self, folder: Path, lengths: Sequence[int]) -> None:
        self.folder, self.of = folder, np.array(lengths, np.int64)
        self.longest = int(self.of.max()) - 1

    def __len__(self) -> int:
        return len(self.of)

    def lengths(self, begin: int, end: int) -> Any:
        return self.of[begin:end]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("order")


COUNT = iter(range(10**9))


class Listed:
    """An index in memory."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.of, self.size = np.array(lengths), len(lengths)
        self.counts = np.bincount(self.of)

    def pairs(self, length: int, places: Any) -> Any:
        return np.flatnonzero(self.of == length)[places]


def order_of(corpora: Sequence[Sequence[int]], weights: Sequence[float] | None = None, **options: Any) -> LengthOrder:
    indices: Any = [Listed(lengths) for lengths in corpora]
    given: Any = {"tokens": 60, "seed": 3, "where": str} | options
    return LengthOrder(indices, weights or [1.0] * len(corpora), **given)


def uses(batches: Sequence[ExampleIndices]) -> list[tuple[int, int]]:
    return [pair for batch in batches for pair in zip(*(each.tolist() for each in batch), strict=True)]


@settings(max_examples=10)
@given(lengths_of, st.integers(1, 40))
def test_an_index_has_the_pairs_of_each_length_in_turn(folder: Path, lengths: list[int], chunk: int) -> None:
    place = folder / str(next(COUNT))
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_index, "CHUNK", chunk)
        index = LengthIndex.of(Lengths(place, lengths))  # type: ignore[arg-type]
    for length, count in enumerate(index.counts):
        assert index.pairs(length, np.arange(count)).tolist() == np.flatnonzero(np.array(lengths) == length).tolist()
    assert [path.name for path in place.iterdir()] == ["by-length"]


@given(lengths_of, seeds, st.integers(0, 50))
def test_each_example_comes_once_in_batches_of_like_length(lengths: list[int], seed: int, epoch: int) -> None:
    batches = order_of([lengths], seed=seed).batches(epoch)
    assert sorted(uses(batches)) == [(index, epoch) for index in range(len(lengths))]
    of = np.array(lengths)
    listed = [of[batch].tolist() for batch in batches_in_order(of, 60)]
    assert sorted(of[batch.index].tolist() for batch in batches) == sorted(listed), "batches are cut in other places"


@given(lengths_of, st.integers(30, 90))
def test_runs_of_batches_are_those_of_the_listed_order(lengths: list[int], tokens: int) -> None:
    values, counts = np.unique(lengths, return_counts=True)
    runs, number = _cut(values.tolist(), [0, *np.cumsum(counts).tolist()], tokens)
    ends = [before for before, _, _ in runs[1:]] + [number]
    sizes = [rows for (before, _, rows), end in zip(runs, ends, strict=True) for _ in range(before, end)]
    assert sizes == [len(batch) for batch in batches_in_order(np.array(lengths), tokens)]


@given(several, seeds, st.data())
def test_any_batch_alone_is_that_of_the_sequence(corpora: Any, seed: int, data: st.DataObject) -> None:
    order, epoch = order_of(corpora, seed=seed), data.draw(st.integers(0, 9))
    whole = list(order.batches(epoch))
    place = data.draw(st.integers(0, len(whole) - 1))
    alone = order.batches(epoch)[place]
    assert uses([alone]) == uses([whole[place]])
    assert uses(order.batches(epoch)[place:]) == uses(whole[place:])
    assert uses([order.batches(epoch)[-1]]) == uses(whole[-1:])


@given(several, st.data(), seeds)
def test_a_mixture_goes_through_each_corpus_evenly(corpora: Any, data: st.DataObject, seed: int) -> None:
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(corpora), max_size=len(corpora)))
    order, sizes = order_of(corpora, weights, seed=seed), [len(lengths) for lengths in corpora]
    first, total = np.cumsum([0, *sizes]), np.array([length for lengths in corpora for length in lengths])
    used: list[tuple[int, int]] = []
    for epoch in range(data.draw(st.integers(1, 5))):
        batches = order.batches(epoch)
        assert all(len(batch.index) * total[batch.index].max() <= 60 for batch in batches)
        used += uses(batches)
        kinds = len(set(total.tolist()))
        for part, size in enumerate(sizes):
            share = (epoch + 1) * sum(sizes) * weights[part] / sum(weights)
            counts = np.bincount(
                [i - first[part] for i, _ in used if first[part] <= i < first[part + 1]], minlength=size
            )
            assert abs(counts.sum() - share) <= kinds + epoch + 1
            for length in set(corpora[part]):
                of = counts[np.array(corpora[part]) == length]
                assert of.max() - of.min() <= 1 and abs(of.sum() - share * len(of) / size) <= 2 + epoch
    assert len(set(used)) == len(used), "each use is another visit"
    for index in range(len(total)):
        visits = sorted(visit for pair, visit in used if pair == index)
        assert visits == list(range(len(visits)))


def test_rare_lengths_of_a_rare_corpus_come_in_their_turn() -> None:
    """Not all of them in one epoch, which the rounding of each alone would do."""
    order = order_of([[5] * 1000, list(range(1, 31))], [100.0, 1.0])
    drawn = [sum(index >= 1000 for index, _ in uses(order.batches(epoch))) for epoch in range(6)]
    assert all(5 <= number <= 16 for number in drawn), drawn


def test_other_seeds_and_epochs_are_other_orders_and_other_company() -> None:
    lengths = np.random.default_rng(0).integers(3, 12, 3000).tolist()
    plans = [list(order_of([lengths], seed=seed).batches(epoch)) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    for at, one in enumerate(plans):
        for other in plans[:at]:
            assert sum(uses([a]) == uses([b]) for a, b in zip(one, other, strict=True)) < 5
            company = [{frozenset(batch.index.tolist()) for batch in plan} for plan in (one, other)]
            assert len(company[0] & company[1]) < 5
    means = [np.array(lengths)[batch.index].mean() for batch in plans[0]]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.2, "batches come by length"


def test_an_example_that_fits_no_batch_is_named() -> None:
    with pytest.raises(DataError, match="3 sentences do not fit") as caught:
        order_of([[5, 6], [3, 70, 61, 90]], where=lambda index: f"file:{index}")
    assert caught.value.where == "file:3" and "70 tokens" in str(caught.value.why)


def test_a_damaged_index_is_made_anew_or_told(folder: Path) -> None:
    place = folder / "damaged"
    place.mkdir()
    corpus: Any = Lengths(place, [3, 4, 4, 2])
    LengthIndex.of(corpus)
    (place / "by-length" / "pairs").write_bytes(b"12")
    assert LengthIndex.of(corpus).pairs(4, np.arange(2)).tolist() == [1, 2]
    (place / "by-length" / "pairs").write_bytes(np.full(4, 9, "<u4").tobytes())
    with pytest.raises(DataError, match="it names pair 9 of 4"):
        LengthIndex.of(corpus).pairs(4, np.arange(2))


@given(st.integers(1, 200), st.integers(5, 70), seeds, st.integers(0, 9))
def test_even_batches_have_each_number_once(size: int, rows: int, seed: int, epoch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computed_order, "LISTED", 16)
        batches = even_batches(size, rows, seed=seed, epoch=epoch)
        assert sorted(uses(batches)) == [(index, epoch + 1) for index in range(size)]
        assert {len(batch.index) for batch in batches[:-1]} <= {rows}
        assert uses(batches[len(batches) // 2 :][:1]) == uses([batches[len(batches) // 2]])


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 20))
def test_windows_in_computed_order_are_those_of_the_listed(sizes: list[int], context: int, epoch: int) -> None:
    streams: Any = [_Stream(np.arange(size)) for size in sizes]
    options: Any = {"context": context, "tokens": 3 * context, "seed": 5}
    listed, computed = (WindowExamples(streams, **options, computed=each) for each in (False, True))
    assert sorted(uses(computed.batches(epoch))) == sorted(uses(listed.batches(epoch)))
    assert uses(computed.batches(None)) == uses(listed.batches(None))


class _Stream:
    def __init__(self, tokens: Any) -> None:
        self.tokens, self.name = tokens, "stream"

    def __len__(self) -> int:
        return len(self.tokens)

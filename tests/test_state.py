"""The four things one may do to a state, leaf by leaf, and by a node's own way."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.attention.contract import RowMap, SourceKeys, compact
from regard.attention.key_value import KeyValue
from regard.attention.span import Span
from regard.core.state import join, leaves, repeat, select, truncate


class Pair(NamedTuple):
    one: Tensor
    other: tuple


def pair(start: int, rows: int) -> Pair:
    return Pair(torch.arange(start, start + rows), (torch.arange(rows * 2.0).view(rows, 2), ()))


def test_select_picks_rows_of_every_leaf_and_keeps_the_types():
    picked = select(pair(10, 3), torch.tensor([2, 0, 2]))
    assert isinstance(picked, Pair)
    assert picked.one.tolist() == [12, 10, 12]
    assert picked.other[0].tolist() == [[4, 5], [0, 1], [4, 5]]
    assert picked.other[1] == ()


def test_repeat_keeps_copies_together():
    assert repeat(pair(10, 2), 2).one.tolist() == [10, 10, 11, 11]


def test_join_is_row_after_row():
    together = join([pair(10, 1), pair(20, 2)])
    assert isinstance(together, Pair)
    assert together.one.tolist() == [10, 20, 21]
    assert len(leaves(together)) == 2


def test_join_of_select_restores_the_whole():
    whole = pair(0, 4)
    parts = [select(whole, torch.tensor([0])), select(whole, torch.tensor([1, 2, 3]))]
    for actual, expected in zip(leaves(join(parts)), leaves(whole), strict=True):
        assert torch.equal(actual, expected)


def test_the_memoryless_state_survives_everything():
    assert select((), torch.tensor([0])) == repeat((), 2) == join([(), ()]) == truncate((), torch.tensor([1])) == ()


def test_what_cannot_forget_refuses_truncation():
    with pytest.raises(TypeError, match="keep the earlier state"):
        truncate(pair(0, 2), torch.tensor([1, 1]))


def test_a_node_of_its_own_is_asked_deep_in_the_tree():
    cache = KeyValue(torch.zeros(2, 1, 3, 1), torch.zeros(2, 1, 3, 1), of_length(3, 2))
    nested = ((cache, ()), ())
    assert truncate(nested, torch.tensor([1, 5]))[0][0].length.tolist() == [1, 2]


def of_length(*lengths: int) -> Span:
    """Span of rows that start at 0, as wide as the longest."""
    return Span.of(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def column(*numbers: float) -> Tensor:
    """One new key column, a number a row."""
    return torch.tensor(numbers).view(-1, 1, 1, 1)


def test_a_cache_writes_at_each_rows_own_length():
    cache = KeyValue(torch.empty(2, 1, 0, 1), torch.empty(2, 1, 0, 1), of_length(0, 0))
    first = torch.tensor([[1.0, 2.0], [5.0, 9.0]]).view(2, 1, 2, 1)
    cache = cache.append(first, first, of_length(2, 1))
    assert cache.length.tolist() == [2, 1]
    cache = cache.append(column(3.0, 6.0), column(3.0, 6.0), of_length(1, 1))
    seen = [cache.key[row, 0, cache.span.valid[row], 0].tolist() for row in range(2)]
    assert seen == [[1, 2, 3], [5, 6]], "the padded 9 is overwritten"


def test_caches_of_other_length_join():
    short = KeyValue(column(1.0), column(1.0), of_length(1))
    long = KeyValue(torch.ones(1, 1, 4, 1), torch.ones(1, 1, 4, 1), of_length(4))
    joined = join([short, long])
    assert joined.span.valid.tolist() == [[True, False, False, False], [True] * 4]


def test_a_row_that_joins_without_keys_starts_with_its_first_piece():
    new = KeyValue(torch.empty(1, 1, 0, 1), torch.empty(1, 1, 0, 1), of_length(0))
    joined = join([KeyValue(column(1.0), column(1.0), of_length(1)), new])
    grown = joined.append(column(2.0, 3.0), column(2.0, 3.0), of_length(1, 1)._replace(start=torch.tensor([1, 7])))
    assert grown.span.position[:, :2].tolist() == [[0, 1], [7, 8]]
    assert grown.length.tolist() == [2, 1]


def test_a_cache_of_no_rows_takes_nothing():
    """What is left of a batch once every row has finished."""
    cache = KeyValue(torch.zeros(0, 1, 2, 1), torch.zeros(0, 1, 2, 1), Span.of(torch.zeros(0, 2).bool()))
    grown = cache.append(torch.zeros(0, 1, 1, 1), torch.zeros(0, 1, 1, 1), Span.of(torch.zeros(0, 1).bool()))
    assert len(grown.key) == len(grown.length) == 0


def test_rows_lay_out_readers_of_one_sentence_side_by_side():
    rows = RowMap.of(torch.tensor([2, 0, 2, 2]), 3)
    assert (rows.sentences, rows.width) == (3, 3)
    x = torch.tensor([10.0, 20.0, 30.0, 40.0])
    assert rows.scatter(x).tolist() == [[20, 0, 0], [0, 0, 0], [10, 30, 40]]
    assert torch.equal(rows.gather(rows.scatter(x)), x)


def test_rows_in_their_own_order_need_no_layout():
    rows = RowMap.of(torch.arange(3), 3)
    assert rows.slot is None and rows.width == 1
    x = torch.arange(6.0).view(3, 2)
    assert torch.equal(rows.gather(rows.scatter(x)), x)


def test_no_rows_at_all():
    rows = RowMap.of(torch.empty(0, dtype=torch.int64), 2)
    assert rows.gather(rows.scatter(torch.empty(0, 4))).shape == (0, 4)


def test_compact_forgets_unread_sentences_and_renumbers():
    class State(NamedTuple):
        rows: Tensor

    memory, state = compact(torch.tensor([0, 10, 20, 30]), State(torch.tensor([3, 1, 3])))
    assert memory.tolist() == [10, 30]
    assert state.rows.tolist() == [1, 0, 1]


def test_source_keys_join_padded():
    def keys(length: int) -> SourceKeys:
        return SourceKeys(torch.ones(1, 1, length, 1), torch.ones(1, 1, length, 1), of_length(length))

    joined = join([keys(1), keys(3)])
    assert joined.span.valid.tolist() == [[True, False, False], [True] * 3]
    assert joined.key.shape == (2, 1, 3, 1)


def test_the_cache_of_a_window_keeps_the_last_keys_and_their_positions():
    cache = KeyValue(
        torch.arange(10.0).view(2, 1, 5, 1), torch.zeros(2, 1, 5, 1), of_length(5, 2), torch.zeros(2).long()
    )
    kept = cache.recent(3)
    assert kept.key[:, 0, :, 0].tolist()[0] == [2, 3, 4] and kept.key[1, 0, :2, 0].tolist() == [5, 6]
    assert kept.span.position.tolist() == [[2, 3, 4], [0, 1, 2]]
    assert (kept.length.tolist(), kept.forgotten.tolist()) == ([3, 2], [2, 0])
    assert truncate(kept, torch.tensor([5, 1])).length.tolist() == [3, 1]
    with pytest.raises(TypeError, match="cannot be truncated: its window"):
        truncate(kept, torch.tensor([4, 2]))
    joined = join([kept, KeyValue(column(1.0), column(1.0), of_length(1), torch.zeros(1).long())])
    assert joined.forgotten.tolist() == [2, 0, 0] and joined.recent(1).span.start.tolist() == [4, 1, 0]


def test_a_cache_whose_positions_are_given_forgets_nothing():
    placed = of_length(3)._replace(given_position=torch.tensor([[0, 1, 0]]))
    cache = KeyValue(torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1), placed, torch.zeros(1).long())
    assert cache.recent(1) is cache

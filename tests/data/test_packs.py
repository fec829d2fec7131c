"""Packs and overlapping windows: every token a target exactly once, rows filled, stated context before each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.task import ExampleIndices
from regard.data.packs import PackExamples, best_fit, cut_documents
from regard.data.windows import WindowExamples


class Numbers:
    """Documents of so many targets, of tokens that name document and place, as a ``DocumentStream``."""

    name = "numbers"

    def __init__(self, sizes: list[int], prompts: list[int] | None = None) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(np.array(sizes) + 1)])
        self.prompts, self.sizes = np.array(prompts or [0] * len(sizes)), np.array(sizes)
        self.documents = len(sizes)
        self.tokens = np.concatenate([1000 * (1 + n) + np.arange(size + 1) for n, size in enumerate(sizes)])

    def __len__(self) -> int:
        return len(self.tokens)


def packs(streams: list[Numbers], context: int, **more: Any) -> PackExamples:
    return PackExamples(streams, context=context, tokens=3 * context, seed=4, **more)  # type: ignore[arg-type]


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@settings(max_examples=60)
@given(SIZES, st.integers(1, 16), st.integers(0, 3))
def test_every_token_but_begin_is_a_target_once_an_epoch(sizes: list[int], context: int, epoch: int) -> None:
    examples = packs([Numbers(sizes), Numbers(sizes[:2])], context)
    for each in (None, epoch):
        plan = examples.batches(each)
        assert sorted(np.concatenate([part.index for part in plan]).tolist()) == list(range(len(examples)))
        targets: list[int] = []
        for picks in plan:
            batch = examples.collate(picks)
            assert batch.weight == float(batch.loss_mask.sum()) and batch.input.shape[1] <= context
            assert torch.equal(batch.loss_mask, batch.valid)
            assert torch.equal(batch.target[batch.valid], batch.input[batch.valid] + 1)
            targets += batch.target[batch.valid].tolist()
        wanted = [1000 * (1 + n) + at for part in (sizes, sizes[:2]) for n, size in enumerate(part)
                  for at in range(1, size + 1)]  # fmt: skip
        assert sorted(targets) == sorted(wanted)


def test_a_row_tells_its_documents_apart_and_each_begins_at_0() -> None:
    examples = packs([Numbers([3, 4, 2])], 8)
    batch = examples.collate(ExampleIndices(np.array([0, 1]), np.zeros(2, np.int64)))
    assert batch.input.tolist() == [[2000, 2001, 2002, 2003, 1000, 1001, 1002], [3000, 3001, 0, 0, 0, 0, 0]]
    assert batch.segment.tolist() == [[0, 0, 0, 0, 1, 1, 1], [0] * 7]
    assert batch.position.tolist() == [[0, 1, 2, 3, 0, 1, 2], list(range(7))]
    assert examples.description == "packed 3 documents into 2 rows of 8 tokens, 43.8% padding"


@given(st.lists(st.integers(1, 20), max_size=60), st.integers(20, 32))
def test_best_fit_packs_each_piece_once_and_wastes_little(lengths: list[int], room: int) -> None:
    numbers = np.array(lengths, np.int64)
    rows = best_fit(numbers, room)
    assert sorted(piece for row in rows for piece in row) == list(range(len(lengths)))
    used = [int(numbers[row].sum()) for row in rows]
    assert all(total <= room for total in used) and best_fit(numbers, room) == rows
    assert len(rows) <= 11 / 9 * max(1, -(-sum(lengths) // room) * 1.5) + 1
    assert sum(2 * total <= room for total in used) <= 1, "two half empty rows would be one"


def test_an_epoch_is_an_order_of_its_own_without_replacement() -> None:
    examples = packs([Numbers([5, 9, 3, 7, 8, 2, 6, 4] * 5)], 16)
    orders = [np.concatenate([part.index for part in examples.batches(epoch)]).tolist() for epoch in range(6)]
    assert len({tuple(order) for order in orders}) == 6
    assert all(sorted(order) == list(range(len(examples))) for order in orders)
    again = packs([Numbers([5, 9, 3, 7, 8, 2, 6, 4] * 5)], 16)
    assert np.concatenate([part.index for part in again.batches(3)]).tolist() == orders[3]


@pytest.mark.parametrize("stride", [1, 3, 5, 8])
@pytest.mark.parametrize("prompts", [[0, 0, 0], [4, 0, 19]])
def test_a_target_counts_once_with_enough_before_it(stride: int, prompts: list[int]) -> None:
    sizes, context = np.array([20, 7, 21]), 8
    pieces = cut_documents(sizes, np.array(prompts), context=context, stride=stride)
    counted: list[tuple[int, int]] = []
    for document, begin, end, number in zip(*pieces, strict=True):
        assert 0 <= begin < end <= sizes[document] and end - begin <= context and number > 0
        for target in range(end - number + 1, end + 1):
            counted.append((int(document), target))
            assert target - begin >= min(context - stride + 1, target), "tokens before it, its own document's BEGIN too"
    wanted = [(n, at) for n, size in enumerate(sizes.tolist()) for at in range(prompts[n] + 1, size + 1)]
    assert sorted(counted) == wanted


def test_a_completion_sees_as_much_of_its_prompt_as_a_row_holds() -> None:
    pieces = cut_documents(np.array([30]), np.array([27]), context=8, stride=8)
    assert [each.tolist() for each in pieces] == [[0], [22], [30], [3]]


@pytest.mark.parametrize("length", [1, 5, 8, 9, 23, 40])
@pytest.mark.parametrize("stride", [1, 3, 8])
def test_overlapping_windows_count_each_token_once(length: int, stride: int) -> None:
    streams: Any = [Numbers([length]), Numbers([length + 2])]
    examples = WindowExamples(streams, context=8, tokens=24, seed=1, stride=stride)
    found: list[int] = []
    for picks in examples.batches(None):
        batch = examples.collate(picks)
        counted = batch.loss_mask if isinstance(batch.loss_mask, torch.Tensor) else batch.valid
        assert batch.weight == float(counted.sum()) == float(examples.token_counts()[picks.index].sum())
        for row in range(len(batch.index)):
            for column in counted[row].nonzero()[:, 0].tolist():
                target = int(batch.target[row, column]) % 1000
                assert column + 1 >= min(8 - stride + 1, target), "tokens before it"
        found += batch.target[counted].tolist()
    assert sorted(found) == sorted([*range(1001, 1001 + length), *range(1001, 1003 + length)])
    assert examples.texts_started(np.concatenate([part.index for part in examples.batches(None)])) == streams
    trained = [int(i) for picks in examples.batches(0) for i in examples.collate(picks).target.flatten() if i]
    assert len(trained) == 2 * length + 2, "training overlaps nothing"


def test_where_names_file_and_document(tmp_path: Path) -> None:
    examples = packs([Numbers([3, 4, 2])], 8, stride=2)
    assert examples.where(0) == "numbers: document 2" and examples.where(len(examples) - 1) == "numbers: document 3"

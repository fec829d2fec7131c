"""An evaluation counts each target of its texts once, for drawn texts, contexts and strides, however they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.document_stream import DocumentStream
from regard.data.lanes import LaneExamples
from regard.data.packs import PackExamples
from regard.data.windows import WindowExamples
from regard.tasks.language_model.scoring import score_windows


class Text:
    """One stream of a first token and ``targets`` more, each another number."""

    name = "text"

    def __init__(self, number: int, targets: int) -> None:
        self.tokens = 1000 * (number + 1) + np.arange(targets + 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def counted(self) -> list[int]:
        return [int(token) for token in self.tokens[1:]]


class Documents(DocumentStream):
    """Documents of so many targets, the first of which are prompts."""

    def __init__(self, number: int, sizes: list[int], prompts: list[int]) -> None:
        self.name = "documents"
        self.prompts = np.array(prompts, np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64) + 1)])
        self.tokens = 10_000 * (number + 1) + np.arange(self.offsets[-1])

    def counted(self) -> list[int]:
        parts = zip(self.offsets[:-1], self.offsets[1:], self.prompts, strict=True)
        return [int(token) for begin, end, prompt in parts for token in self.tokens[begin + 1 + prompt : end]]


@st.composite
def texts(draw: st.DrawFn) -> list[Text]:
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    return [Text(number, size) for number, size in enumerate(sizes)]


@st.composite
def documents(draw: st.DrawFn) -> list[Documents]:
    """At least three documents, the lengths of which are drawn, as are their prompts, which leave a target."""
    found = []
    for number in range(draw(st.integers(1, 2))):
        sizes = draw(st.lists(st.integers(1, 30), min_size=3, max_size=8))
        prompts = [draw(st.just(0) | st.integers(0, size - 1)) for size in sizes]
        found.append(Documents(number, sizes, prompts))
    return found


Made = tuple[Any, list[Any]]  # examples, and the streams that they are of


def made(kind: Any, streams: list[Any], context: int, stride: int | None, rows: int, computed: bool) -> Any:
    return kind(streams, context=context, tokens=rows * context, seed=3, stride=stride, computed=computed)


@st.composite
def examples(draw: st.DrawFn) -> Made:
    kind, drawn = draw(
        st.sampled_from([(WindowExamples, texts()), (PackExamples, documents()), (LaneExamples, documents()),
                         (LaneExamples, texts())])
    )  # fmt: skip
    streams, context = draw(drawn), draw(st.integers(1, 16))
    stride = draw(st.none() | st.integers(1, context))
    computed = draw(st.booleans()) and kind is not LaneExamples
    return made(kind, streams, context, stride, draw(st.integers(1, 3)), computed), streams


def counted(found: Any, epoch: int | None) -> list[int]:
    tokens: list[int] = []
    for picks in found.batches(epoch):
        batch = found.collate(picks)
        mask = batch.loss_mask if isinstance(batch.loss_mask, torch.Tensor) else batch.valid
        assert batch.weight == float(mask.sum()) and not bool((mask & ~batch.valid).any())
        assert torch.equal(batch.target[batch.valid], batch.input[batch.valid] + 1)
        tokens += batch.target[mask].tolist()
    return tokens


@settings(max_examples=200, deadline=None)
@given(examples())
def test_an_evaluation_counts_each_target_of_the_text_once(drawn: Made) -> None:
    found, streams = drawn
    expected = Counter(token for stream in streams for token in stream.counted())
    assert Counter(counted(found, None)) == expected
    index = np.concatenate([picks.index for picks in found.batches(None)])
    assert int(found.token_counts()[index].sum()) == expected.total()
    assert found.texts_started(index) == streams


@settings(max_examples=100, deadline=None)
@given(examples(), st.integers(0, 3))
def test_so_does_an_epoch_of_training(drawn: Made, epoch: int) -> None:
    found, streams = drawn
    assert Counter(counted(found, epoch)) == Counter(token for stream in streams for token in stream.counted())


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.data())
def test_a_score_counts_each_target_of_the_text_once(targets: int, data: st.DataObject) -> None:
    context = data.draw(st.integers(1, 20))
    stride, prompt = data.draw(st.none() | st.integers(1, context)), data.draw(st.integers(0, targets))
    places: list[int] = []
    for begin, first, end in score_windows(targets, prompt, context, stride):
        assert begin < first < end <= targets + 1 and end - 1 - begin <= context
        enough = min(context - (stride or context) + 1, first)
        assert first - begin >= enough, "tokens before the first that counts, BEGIN among them"
        places += range(first, end)
    assert places == list(range(prompt + 1, targets + 1))


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("kind", [WindowExamples, LaneExamples])
def test_texts_of_about_a_context(kind: Callable[..., Any], off: int) -> None:
    for targets in (8 + off, 16 + off):
        for stride in (None, 3, 8):
            found = made(kind, [Text(0, targets)], 8, stride, 2, False)
            assert sorted(counted(found, None)) == list(range(1001, 1001 + targets))

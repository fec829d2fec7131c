"""Spans: what is done to states is done to them, and rows that read one sentence are laid side by side."""

from __future__ import annotations

import pytest
import torch

from regard.attention.contract import RowMap
from regard.core.state import join, repeat, select, truncate

from .test_mask import GRAPH, full, span


def test_a_folded_span_lays_rows_side_by_side():
    """Rows 0 and 2 read sentence 1, row 1 reads sentence 0."""
    each = span([2, 2, 1], 2, start=4)._replace(visible_until=torch.tensor([[1, 2], [3, 4], [5, 6]]))
    folded = RowMap.of(torch.tensor([1, 0, 1]), 2).fold(each)
    assert folded.visible_until.tolist() == [[3, 4, 0, 0], [1, 2, 5, 6]]
    assert folded.position.tolist() == [[4, 5, 0, 0], [4, 5, 4, 5]]
    assert folded.valid.tolist() == [[True, True, False, False], [True, True, True, False]]


def test_a_span_is_a_state():
    both = full([4, 2], 4, start=3, placed=True)._replace(edges=())
    assert select(both, torch.tensor([1])).length.tolist() == [2]
    assert repeat(both, 2).length.tolist() == [4, 4, 2, 2]
    assert truncate(both, torch.tensor([1, 3])).length.tolist() == [1, 2]
    joined = join([both, full([1], 1)._replace(edges=())])
    assert joined.length.tolist() == [4, 2, 1]
    assert joined.position.tolist() == [[3, 4, 3, 4], [3, 4, 3, 4], [0, 0, 0, 0]]
    assert joined.segment.tolist()[2] == [0, 0, 0, 0]


def test_rows_that_say_a_field_do_not_join_rows_that_do_not():
    with pytest.raises(ValueError, match=r"Span\.segment"):
        join([span([1], 1, segment=True), span([1], 1)])
    assert join([span([1], 1, segment=True), span([0], 0)]).segment.shape == (2, 1), "there are no columns yet"


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: select(graph, torch.tensor([0])),
        lambda graph: repeat(graph, 2),
        lambda graph: truncate(graph, torch.tensor([1, 1])),
        lambda graph: join([graph, graph]),
        lambda graph: join([span([1], 1), graph]),
        lambda graph: RowMap.of(torch.tensor([0, 0]), 1).fold(graph),
    ],
)
def test_a_graph_is_not_taken_apart(change):
    with pytest.raises(TypeError, match="one graph"):
        change(span([4, 4], 4)._replace(edges=GRAPH))

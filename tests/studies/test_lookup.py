"""The study of static and dynamic graph attention: it holds, and with the scores exchanged it does not."""

from __future__ import annotations

import pytest
import torch

from regard.studies import lookup
from regard.studies.study import ignore_report


def failed(**options: str) -> list[str]:
    torch.manual_seed(1)
    found = lookup.run(seed=1, minimal=True, report=ignore_report, **options)
    return [criterion.what for criterion in found.criteria if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_it_fails_where_the_dynamic_score_is_static() -> None:
    assert failed(dynamic="gat") == [
        "dynamic: accuracy on new pairings", "dynamic: share of queries with the most frequent best key",
    ]  # fmt: skip


def test_it_fails_where_the_static_score_is_dynamic() -> None:
    assert failed(static="gatv2") == [
        "static: accuracy on new pairings", "static: share of queries with the most frequent best key",
    ]  # fmt: skip


@pytest.mark.parametrize("score", ["gat", "gatv2"])
def test_a_net_by_hand_is_read_right(score: str) -> None:
    """Whatever it has learned: weights are of queries over keys, and sum to 1."""
    logits, weights = lookup.DictionaryLookup(score, 4, 8)(torch.tensor([[2, 0, 3, 1]]))
    assert logits.shape == weights.shape == (1, 4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4))

"""The study of warm-up: chance is what it says, and who has learned nothing fails."""

from __future__ import annotations

import math

import pytest
import torch

from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks, warmup
from regard.studies.study import ignore_report


def test_chance_is_the_loss_of_who_knows_the_length_alone() -> None:
    """16 times one word of 32, and END for certain."""
    p = [1 / 32] * 16 + [1.0]
    assert -sum(map(math.log, p)) / 17 == pytest.approx(warmup.CHANCE)


def test_it_fails_where_nobody_learned() -> None:
    """After a handful of updates nobody is better than chance: the first criterion alone holds."""
    torch.manual_seed(1)
    found = warmup.run(seed=1, minimal=True, report=ignore_report)
    assert [criterion.holds for criterion in found.criteria[:3]] == [True, False, False]


def test_it_fails_where_post_norm_learns_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {"post": 2.0, "pre": 1.0}
    monkeypatch.setattr(toy_tasks, "train_updates", lambda model, *rest, **more: [losses[_norm(model)]] * 6)
    found = warmup.run(seed=1, minimal=True, report=ignore_report)
    assert [criterion.holds for criterion in found.criteria] == [False, True, True, True]
    assert found.rows[0][-1] == pytest.approx(warmup.CHANCE - 2.0)


def _norm(model: EncoderDecoder) -> str:
    return "post" if isinstance(model.encoder.norm, torch.nn.Identity) else "pre"

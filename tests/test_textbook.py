"""The plain forms that training's fast path is checked by: the same numbers, taken by another way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.attention import kernel
from regard.core.randomness import seeded_generator
from regard.core.reference_mode import in_reference_mode, reference_mode
from regard.models.dropout import Dropout
from tests.test_shards import by, model


def forbidden(*arguments: Any, **options: Any) -> Any:
    raise AssertionError("the fast form was taken")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_update_is_the_same_and_takes_no_fast_form(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net = model(dropout=0.0)

    def found() -> Any:
        return by(net, 2, workers, seed=1)

    fast = found()
    monkeypatch.setattr("regard.models.cross_entropy.projected_cross_entropy", forbidden)
    monkeypatch.setattr(kernel, "attend_short", forbidden)
    monkeypatch.setattr(kernel, "scaled_dot_product_attention", forbidden)
    with pytest.raises(AssertionError, match="fast form"):
        found()
    with reference_mode():
        plain = found()
    assert not in_reference_mode()
    assert plain.minimized == pytest.approx(fast.minimized)
    assert float(plain.sums["nll"]) == pytest.approx(float(fast.sums["nll"]))
    for one, other in zip(plain.values, fast.values, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_dropout_keeps_the_mean_and_its_own_probability() -> None:
    """0.001 is no multiple of 1/256: the fast form keeps everything, the plain one all but a thousandth."""
    x, layer = torch.ones(100_000), Dropout(0.001)
    assert torch.equal(layer(x), x)
    with reference_mode(), seeded_generator(3, x.device):
        dropped = layer(x)
    share = float((dropped == 0).float().mean())
    assert 0.0005 < share < 0.0015  # five standard deviations
    torch.testing.assert_close(dropped[dropped > 0], torch.full_like(dropped[dropped > 0], 1 / 0.999))
    with reference_mode(), seeded_generator(3, x.device):
        assert torch.equal(layer(x), dropped), "the same draws again"
        assert torch.equal(layer.eval()(x), x)

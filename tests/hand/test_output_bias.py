"""A bias of the output enters wherever logits are made: in a pass, in each step, fast or not, and in the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core.reference_mode import reference_mode
from regard.data.pairs import PairBatch
from regard.inference.decoding import fast_form
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.native.library import find, library

TYPES, BEGIN = 11, 2
SHAPES: list[dict[str, Any]] = [
    {"width": 8, "heads": 2, "feed_forward": 12, "layers": 1},
    {"preset": "rnnsearch-small", "width": 8, "feed_forward": 8},
]


@pytest.fixture(params=SHAPES, ids=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    config = ModelConfig.model_validate(request.param | {"output_bias": True, "dropout": 0.0, "share": "none"})
    model = build(config, source_types=TYPES, target_types=TYPES).eval()
    assert model.head.bias is not None and not model.head.bias.any()
    with torch.no_grad():
        model.head.bias.normal_(std=2.0)
    return model


@pytest.fixture
def batch() -> PairBatch:
    numbers, valid = torch.randint(4, TYPES, (3, 5)), torch.tensor([[1] * 5, [1] * 3 + [0] * 2, [1] * 4 + [0]]).bool()
    begins = torch.cat([torch.full((3, 1), BEGIN), numbers[:, :-1]], 1)
    return PairBatch(numbers, valid, begins, numbers, valid, torch.arange(3), float(valid.sum()))


def by_hand(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    features = model(batch.source, Span.of(batch.source_valid), batch.target_input, Span.of(batch.target_valid))
    assert model.head.bias is not None
    return torch.log_softmax(features @ model.head.weight.T + model.head.bias, -1)


@torch.no_grad()
def test_each_step_has_it(model: EncoderDecoder, batch: PairBatch) -> None:
    found, _ = model.step(batch.target_input, model.session(batch.source, Span.of(batch.source_valid)))
    torch.testing.assert_close(found[batch.target_valid], by_hand(model, batch)[batch.target_valid])


@torch.no_grad()
@pytest.mark.parametrize(("engine", "error"), [("float32", 1e-5), ("int8", 0.3)])
def test_the_fast_form_has_it(batch: PairBatch, engine: Any, error: float) -> None:
    if engine == "int8" and library() is None:
        pytest.skip(f"needs the kernels: {find().reason}")
    config = ModelConfig.model_validate(SHAPES[0] | {"output_bias": True})
    model = build(config, source_types=TYPES, target_types=TYPES).eval()
    assert model.head.bias is not None
    model.head.bias.normal_(std=5.0)
    quick = fast_form(model, engine)
    found, _ = quick.step(batch.target_input, quick.session(batch.source, Span.of(batch.source_valid)))
    valid = batch.target_valid
    torch.testing.assert_close(found[valid], by_hand(model, batch)[valid], atol=error, rtol=error)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_have_it(model: EncoderDecoder, batch: PairBatch, smoothing: float) -> None:
    valid, target = batch.target_valid, batch.target_output
    log_p = by_hand(model, batch)[valid]
    nll = -log_p.gather(1, target[valid][:, None]).sum()
    wanted = (1 - smoothing) * nll - smoothing * log_p.mean(1).sum()
    parameters = [model.head.weight, model.head.bias]
    slopes = torch.autograd.grad(wanted, parameters)
    for textbook in (True, False):
        with reference_mode(textbook):
            features = model(batch.source, Span.of(batch.source_valid), batch.target_input, Span.of(batch.target_valid))
            found = model.head.loss(features[valid], target[valid], smoothing=smoothing)
        torch.testing.assert_close(found.smoothed, wanted)
        torch.testing.assert_close(found.nll, nll)
        for one, other in zip(torch.autograd.grad(found.smoothed, parameters), slopes, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    assert np.isfinite(float(found.smoothed.detach()))

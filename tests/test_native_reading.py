"""Reading by the kernels: labels and tags are the network's own, whatever stands beside a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.attention.span import Span
from regard.engine.native_reading import NativeEncoder, reading_obstacle
from regard.errors import ConfigError
from regard.inference.reading import reading_form
from regard.models.classifier import SequenceClassifier, build_classifier, token_input
from regard.models.classifier_config import ClassifierModelConfig
from regard.native.library import library
from tests.laws.test_engine import SHAPES

TYPES, LENGTHS = 23, [5, 2, 9, 1, 5, 3, 4]
needs_kernels = pytest.mark.skipif(library() is None, reason="the kernels were not built")


def network(shape: dict[str, Any]) -> SequenceClassifier:
    torch.manual_seed(3)
    sizes = {"layers": 2, "width": 16, "heads": 4, "feed_forward": 24, "dropout": 0.1, "pooling": "attention"}
    config = ClassifierModelConfig.model_validate(sizes | shape)
    net = build_classifier(config, token_input(config, TYPES), classes=3).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.7)  # so that a wrong part is seen
    return net


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    valid = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(4, TYPES, valid.shape).masked_fill(~valid, 0), valid


@needs_kernels
@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if "copying" not in shape])
def test_the_numbers_are_those_of_the_network(name: str) -> None:
    net, (tokens, valid) = network(SHAPES[name]), texts()
    assert reading_obstacle(net.encoder) is None
    fast = reading_form(net, None)
    assert isinstance(fast.encoder, NativeEncoder) and not isinstance(net.encoder, NativeEncoder)
    with torch.no_grad():
        wanted, found = net(tokens, Span.of(valid)), fast(tokens, Span.of(valid))
    torch.testing.assert_close(found.logits, wanted.logits, atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(found.weights, wanted.weights, atol=1e-4, rtol=1e-4)


@needs_kernels
@pytest.mark.parametrize("format", ["float32", "int8"])
def test_a_text_has_the_same_bits_alone_and_beside_others(format: Any) -> None:
    (tokens, valid), encoder = texts(), NativeEncoder(network({"attention_bias": True}).encoder, format=format)
    together = encoder(tokens, Span.of(valid)).states
    for row, length in enumerate(LENGTHS):
        alone = encoder(tokens[row : row + 1, :length], Span.of(valid[row : row + 1, :length])).states[0]
        assert torch.equal(alone, together[row, :length])
        assert not together[row, length:].any()


@needs_kernels
def test_groups_of_rows_and_longer_texts_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network({"position": "rotary"})
    (tokens, valid), encoder = texts(), NativeEncoder(net.encoder)
    wanted = encoder(tokens, Span.of(valid)).states
    long = torch.full((1, 300), 5)
    with torch.no_grad():
        own = net.encoder(long, Span.without_padding(long)).states
    torch.testing.assert_close(encoder(long, Span.without_padding(long)).states, own, atol=2e-4, rtol=2e-4)
    monkeypatch.setattr("regard.engine.native_reading.ROWS_PER_THREAD", 6)
    assert torch.equal(encoder(tokens, Span.of(valid)).states, wanted)


@needs_kernels
def test_eight_bits_are_near_and_not_the_same() -> None:
    net, (tokens, valid) = network({}), texts()
    with torch.no_grad():
        wanted, found = (reading_form(net, engine)(tokens, Span.of(valid)).logits for engine in ("float32", "int8"))
    assert 0 < float((wanted - found).abs().max()) < 0.3 * float(wanted.abs().max())


@pytest.mark.parametrize(
    "shape", [{"encoder": {"kind": "recurrent"}, "width": 16}, {"affixes": 9}, {"mixer": "additive"}]
)
def test_what_the_kernels_do_not_know_is_computed_by_torch(shape: dict[str, Any]) -> None:
    sizes = {"layers": 1, "width": 16, "dropout": 0.1}
    config = ClassifierModelConfig.model_validate(sizes | shape)
    net = build_classifier(config, token_input(config, TYPES), classes=3).eval()
    assert reading_form(net, None) is net and reading_form(net, "reference") is net
    with pytest.raises(ConfigError, match="cannot read in int8"):
        reading_form(net, "int8")
    with pytest.raises(ConfigError, match="engine"):
        reading_form(net, "bfloat16")
    double = network({}).double()
    assert reading_form(double, None) is double


def test_labels_and_tags_are_told_by_an_engine(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a fine film\tgood\na dull film\tbad\n" * 4)
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a", "film"], "tags": ["D", "N"]}\n' * 4)
    files = {"classification": "a.tsv", "tagging": "a.jsonl"}
    small = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16}
    for task, file in files.items():
        tables = {
            "task": task, "data": {"train": [{"source": str(tmp_path / file)}]}, "model": small,
            "train": {"steps": 1, "threads": 1, "precision": "float32", "warmup": 1},
        }  # fmt: skip
        run = regard.train(tables, tmp_path / task)
        lines = ["a fine film", "dull", ""]
        plain, fast = (regard.load(run, engine=engine)(lines) for engine in ("reference", None))
        for one, other in zip(plain, fast, strict=True):
            assert other.probabilities == pytest.approx(one.probabilities, abs=1e-5)

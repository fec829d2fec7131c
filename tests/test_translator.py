"""A Translator at its limits: a learned table of positions, weights that are no numbers, too little memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.data.text import TokenizerConfig, train_tokenizer
from regard.decoding import Engine
from regard.engine.packed import counts_exactly
from regard.errors import ConfigError, ModelError, TrainingError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.settings import SearchConfig
from regard.translate import Translator

LONGEST, PIECES = 9, 8
WORDS = train_tokenizer(["a b c d e f"], TokenizerConfig(kind="word"))
SEARCHES = [{"beam": 1}, {"beam": 3}, {"temperature": 1.0}]


@pytest.fixture(params=["float32", "reference"])
def translator(request: pytest.FixtureRequest) -> Translator:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "width": 8, "heads": 2, "feed_forward": 8}
    config = ModelConfig(**sizes, dropout=0.0, position="learned", longest=LONGEST)
    model = build(config, source_types=len(WORDS), target_types=len(WORDS))
    return Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine=request.param)


def never_ending(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end symbol becomes impossible."""
    decoding, end = translator.decoding, torch.tensor([3])
    compute = decoding._read

    def endless(tokens: torch.Tensor, session: Any, read: Any) -> Any:
        return compute(tokens, session, lambda log_p, rows: read(log_p.index_fill(-1, end, -math.inf), rows))

    monkeypatch.setattr(decoding, "_read", endless)


@pytest.mark.parametrize("search", SEARCHES)
def test_no_output_goes_beyond_a_learned_table(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, search: dict[str, Any]
) -> None:
    never_ending(translator, monkeypatch)
    found = translator("a b c", **search, max_extra=50).candidates[0]
    assert len(found.pieces) == LONGEST and not found.finished
    assert len(translator("a b c", **search, max_extra=50, max_length=4).candidates[0].pieces) == 4


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("where", ["projection", "decoder.layers.0.feed_forward.enter.weight"])
def test_weights_that_are_no_numbers_are_told(translator: Translator, where: str, search: dict[str, Any]) -> None:
    with torch.no_grad():
        dict(translator.model.named_parameters())[where][5] = math.nan
    with pytest.raises(ModelError, match="computes no probabilities"):
        translator("a b", **search)


def test_too_little_memory_says_what_to_lower(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.decoding._model, "session", lambda *sources: torch.empty(1 << 50, dtype=torch.uint8))
    with pytest.raises(TrainingError, match="out of memory while translating") as caught:
        translator("a b")
    assert "search.batch_sentences, 64 now" in str(caught.value.help)


def test_an_engine_that_the_model_has_not_is_told() -> None:
    config = ModelConfig.model_validate({"preset": "rnnsearch-small", "width": 8, "share": "none"})
    model = build(config, source_types=len(WORDS), target_types=len(WORDS))
    assert Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES)("a b").text is not None
    with pytest.raises(ConfigError, match="cannot decode in int8") as caught:
        Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="int8")
    assert "not the Transformer's" in str(caught.value.why)


def test_a_processor_that_miscounts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without AVX-512 sums of 8-bit products overflow, and no operator says so."""
    monkeypatch.setattr("regard.decoding.counts_exactly", lambda: False)
    model = build(ModelConfig(width=8, heads=2, feed_forward=8), source_types=len(WORDS), target_types=len(WORDS))
    with pytest.raises(ConfigError, match="processor cannot decode in int8"):
        Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="int8")


@pytest.mark.parametrize("engine", ["bfloat16", "int8"])
def test_every_engine_translates(engine: Engine) -> None:
    if engine == "int8" and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("sums of 8-bit products overflow on this processor")
    assert engine != "int8" or counts_exactly()
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 16}
    model = build(ModelConfig(**sizes), source_types=len(WORDS), target_types=len(WORDS))
    plain = Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES)("a b c")
    found = Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine=engine)("a b c")
    assert found.score == pytest.approx(plain.score, abs=0.3)

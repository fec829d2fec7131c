"""A Translator at its limits: a learned table of positions, weights that are no numbers, too little memory."""

from __future__ import annotations

import math
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.engine.transformer import FastEncoderDecoder
from regard.errors import ConfigError, DataError, ModelError, TrainingError
from regard.inference.causal_decoding import causal_decoder
from regard.inference.decoding import Engine, fast_form, native_obstacle
from regard.inference.results import Translation
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.language_model import LanguageModel
from regard.native.library import LoadResult, library
from regard.runs.config import load_config
from regard.tasks.language_model.task import TASK
from regard.tasks.translation.translator import Translator

LONGEST, PIECES = 9, 8
WORDS = train_tokenizer(["a b c d e f"], TokenizerConfig(kind="word"))
SEARCHES = [{"beam": 1}, {"beam": 3}, {"temperature": 1.0}]


@pytest.fixture(params=["float32", "reference"])
def translator(request: pytest.FixtureRequest) -> Translator:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8}
    config = ModelConfig(**sizes, dropout=0.0, position="learned", longest=LONGEST)
    model = build(config, source_types=len(WORDS), target_types=len(WORDS))
    return Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine=request.param)


def never_ending(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end symbol becomes impossible."""
    decoding, end = translator.decoding, torch.tensor([3])
    compute = decoding._chunked_step

    def endless(tokens: torch.Tensor, session: Any, read: Any) -> Any:
        return compute(tokens, session, lambda log_p, rows: read(log_p.index_fill(-1, end, -math.inf), rows))

    monkeypatch.setattr(decoding, "_chunked_step", endless)


@pytest.mark.parametrize("search", SEARCHES)
def test_no_output_goes_beyond_a_learned_table(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, search: dict[str, Any]
) -> None:
    never_ending(translator, monkeypatch)
    found = translator("a b c", **search, max_extra=50).candidates[0]
    assert len(found.pieces) == LONGEST and not found.finished
    assert len(translator("a b c", **search, max_extra=50, max_length=4).candidates[0].pieces) == 4


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("where", ["head.weight", "decoder.layers.0.feed_forward.up.weight"])
def test_weights_that_are_no_numbers_are_told(translator: Translator, where: str, search: dict[str, Any]) -> None:
    with torch.no_grad():
        dict(translator.model.named_parameters())[where][5] = math.nan
    with pytest.raises(ModelError, match="computes no probabilities"):
        translator("a b", **search)


def test_too_little_memory_says_what_to_lower(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.decoding._model, "session", lambda *sources: torch.empty(1 << 50, dtype=torch.uint8))
    with pytest.raises(TrainingError, match="out of memory while translating") as caught:
        translator("a b")
    assert "search.batch_sentences (now 64)" in str(caught.value.help)


def test_an_engine_that_the_model_has_not_is_told() -> None:
    config = ModelConfig.model_validate({"preset": "rnnsearch-small", "width": 8, "share": "none"})
    model = build(config, source_types=len(WORDS), target_types=len(WORDS))
    assert Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES)("a b").text is not None
    with pytest.raises(ConfigError, match="cannot decode in int8") as caught:
        Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="int8")
    assert "not the Transformer's" in str(caught.value.why)


def test_8_bits_without_the_kernels_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, and what to do; float32 is then computed by torch."""
    monkeypatch.setattr("regard.inference.decoding.find", lambda: LoadResult(None, "not built"))
    model = build(ModelConfig(width=8, heads=2, feed_forward=8), source_types=len(WORDS), target_types=len(WORDS))
    with pytest.raises(ConfigError, match="cannot decode in int8") as caught:
        Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="int8")
    assert caught.value.why == "8-bit products need the C kernels: not built"
    assert "omit it" in str(caught.value.help) and "regard doctor" in str(caught.value.help)
    plain = Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="float32")
    assert isinstance(plain.decoding._model, FastEncoderDecoder)


def test_nothing_else_is_computed_under_the_name_of_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("native", "native_language_model"):
        monkeypatch.setattr(f"regard.engine.{module}.library", lambda: None)
    model = build(ModelConfig(width=8, heads=2, feed_forward=8), source_types=len(WORDS), target_types=len(WORDS))
    with pytest.raises(ValueError, match="they are missing"):
        fast_form(model, "int8")
    config: Any = load_config({"task": "language-model", "data": {"train": []}, "model": {"width": 8, "heads": 2}})
    with pytest.raises(ValueError, match="they are missing"):
        causal_decoder(cast(LanguageModel, TASK.build(config, {"types": 9})), "int8")


def test_8_bits_that_the_kernels_do_not_have_for_a_model_are_told() -> None:
    """As for one on an accelerator, and in another number format."""
    model = build(ModelConfig(width=8, heads=2, feed_forward=8), source_types=len(WORDS), target_types=len(WORDS))
    assert "the model is float32 on meta" in str(native_obstacle(model.to("meta")))
    with pytest.raises(ConfigError, match="cannot decode in int8") as caught:
        Translator(model.double(), WORDS, WORDS, SearchConfig(), max_length=PIECES, engine="int8")
    assert "the model is float64" in str(caught.value.why)


@pytest.mark.parametrize("engine", ["bfloat16", "int8"])
def test_every_engine_translates(engine: Engine) -> None:
    if engine == "int8" and library() is None:
        pytest.skip("needs the kernels")
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16}
    model = build(ModelConfig(**sizes), source_types=len(WORDS), target_types=len(WORDS))
    plain = Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES)("a b c")
    found = Translator(model, WORDS, WORDS, SearchConfig(), max_length=PIECES, engine=engine)("a b c")
    assert found.score == pytest.approx(plain.score, abs=0.3)


def test_a_text_gives_one_translation_and_a_list_a_list(translator: Translator) -> None:
    one = translator("a b")
    many = translator(["a b", "", "c"], beam=2, nbest=2)
    assert isinstance(one, Translation) and isinstance(many, list)
    assert [each.source for each in many] == ["a b", "", "c"]
    assert many[0].text == translator("a b", beam=2).text and len(many[2].candidates) == 2
    assert translator([]) == [] and translator(("a b",))[0].text == one.text


@pytest.mark.parametrize("wrong", [3, None, b"a", {"a": "b"}])
def test_an_argument_that_is_no_text_is_refused(translator: Translator, wrong: Any) -> None:
    with pytest.raises(DataError, match="expected an input of the model or an iterable of inputs"):
        translator(wrong)


def test_a_wrong_text_of_a_list_is_named(translator: Translator) -> None:
    with pytest.raises(DataError, match="expected a text, found int") as caught:
        translator(["a", 3])
    assert caught.value.where == "input 2"


def test_texts_come_from_any_iterable(translator: Translator) -> None:
    texts = [output.text for output in translator(["a b", "c"])]
    for iterable in (iter(["a b", "c"]), np.array(["a b", "c"]), {"a b": 1, "c": 2}.keys()):
        assert [output.text for output in translator(iterable)] == texts


def test_representations_are_short(translator: Translator) -> None:
    found = translator("a b c", nbest=3)
    long = found.with_text("word " * 1_000)
    for shown in (repr(translator), repr(found), repr(long), repr(found.candidates), repr([found] * 2)):
        assert "tensor" not in shown and "\n" not in shown and len(shown) < 400
    assert "3 candidates" in repr(found) and "…" in repr(long)
    assert f"{sum(each.numel() for each in translator.model.parameters()):,} parameters" in repr(translator)


def test_a_notebook_shows_every_candidate_and_takes_no_text_as_markup(translator: Translator) -> None:
    found = translator("a <b>&amp;", nbest=2).with_text('<script>alert(1)</script>\n"x"')
    shown = found._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "a &lt;b&gt;&amp;amp;" in shown
    assert shown.count("<tr>") == 3 and all(f"{each.score:.3f}" in shown for each in found.candidates)
    assert ElementTree.fromstring(shown).tag == "table"


@pytest.mark.parametrize("kind", ["word", "bpe", "character", "byte"])
def test_a_line_end_in_a_text_is_a_space_and_no_unknown_piece(kind: Any) -> None:
    pieces = train_tokenizer(["a b c d e f"], TokenizerConfig(kind=kind))
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8}
    model = build(ModelConfig(**sizes, dropout=0.0), source_types=len(pieces), target_types=len(pieces))
    reader = Translator(model, pieces, pieces, SearchConfig(beam=1, max_extra=2), max_length=20)
    wanted = reader.parts("a b c")
    for text in ("a\nb c", "a b\rc", "a\u2028b c", "a\tb\u00a0c"):
        if kind != "byte" or (text.isascii() and "\t" not in text):  # which knows them
            assert reader.parts(text) == wanted and reader.unknown(text) == []
    assert reader.score(["a\nb c"], ["a"]) == reader.score(["a b c"], ["a"])
    assert reader("a\nb c").text == reader("a b c").text
    seen = reader("a é b é").unknown
    assert seen == ([] if kind == "byte" else ["é", "é"])


def test_a_prefix_that_cannot_be_written_is_told(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="cannot begin an output with 'a zebra'") as caught:
        translator.translate(["a b"], prefixes=["a zebra"])
    assert "'zebra'" in str(caught.value.why)
    assert translator.translate(["a b"], prefixes=["c"])[0].candidates[0].pieces[0] == "c"

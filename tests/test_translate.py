"""A trained model as a function: what it takes and what it gives, by the smallest model there can be."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.inference.search_model import SearchInput
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.search.contract import Finished, Hypothesis
from regard.tasks.translation import translator as translator_module
from regard.tasks.translation.translator import Translator

LETTERS = "abcdefgh"


def translator(kind: str = "word", *, max_length: int = 20, **search: object) -> Translator:
    """Untrained, but whole; a piece is a word or a character."""
    torch.manual_seed(1)
    tokenizer = train_tokenizer([" ".join(LETTERS)], TokenizerConfig.model_validate({"kind": kind}))
    config = ModelConfig(width=8, heads=2, feed_forward=8, layers=1)
    model = build(config, source_types=len(tokenizer), target_types=len(tokenizer))
    settings = SearchConfig.model_validate({"beam": 1, "max_extra": 4} | search)
    return Translator(model, tokenizer, tokenizer, settings, max_length=max_length)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bem": 3}, "did you mean beam"),
        ({"beam": 0}, "beam cannot be 0"),
        ({"nbest": 3}, "nbest = 3 must be at most beam = 1"),
    ],
)
def test_an_option_that_cannot_be_is_a_config_error(options: dict[str, int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        translator()("a b", **options)


def test_blank_lines_stay_empty() -> None:
    """A space is a piece of a vocabulary of characters, which would otherwise be translated."""
    found = translator("character").translate(["a b", "", "   ", "\t", "\u3000"], prefixes=["a"] * 5)
    assert [one.text == "" for one in found] == [False, True, True, True, True]
    assert all(one.candidates[0].pieces == [] for one in found[1:])


def answer(model: Translator, line: str) -> tuple[object, dict[str, torch.Tensor]]:
    """What one call gives, its attention included."""
    found = model(line, beam=2, nbest=2)
    return found.candidates, dict(found.attention)


def test_several_threads_get_what_one_gets() -> None:
    model = translator()
    lines = [" ".join(LETTERS[start : start + 1 + length]) for start in range(4) for length in range(4)]
    expected = [answer(model, line) for line in lines]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda line: answer(model, line), lines))
    for (candidates, attention), (wanted, weights) in zip(found, expected, strict=True):
        assert candidates == wanted
        assert attention.keys() == weights.keys() and len(attention) == 3
        assert all(torch.equal(attention[name], weights[name]) for name in weights)


@pytest.fixture
def echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search stands aside: every part is handed back as it is, so that the output must be the line."""

    def echo(
        model: object, inputs: Iterable[tuple[int, SearchInput]], *rest: object, **options: object
    ) -> Iterator[list[Finished]]:
        for index, input in inputs:
            assert 0 < len(input.tokens) <= 256
            yield [(index, [Hypothesis(list(input.tokens), 0.0, 0.0, [0.0] * len(input.tokens), True)])]

    monkeypatch.setattr(translator_module, "run_search", echo)


@pytest.mark.usefixtures("echoed")
def test_a_line_of_100_000_words_is_cut_and_nothing_is_lost() -> None:
    words = random.Random(1).choices(LETTERS, k=100_000)
    found = translator(max_length=256).translate(["a b", " ".join(words), "c"])
    assert [one.text for one in found] == ["a b", " ".join(words), "c"]
    assert len(found[1].candidates[0].pieces) == 100_000
    with pytest.raises(ConfigError, match="256"):
        _ = found[1].attention


@pytest.mark.usefixtures("echoed")
def test_a_word_longer_than_the_limit_is_cut_inside() -> None:
    line = "ab " + "abcdefgh" * 4 + " gh"
    assert translator("character", max_length=10)(line).text.replace(" ", "") == line.replace(" ", "")


@pytest.mark.parametrize("options", [{}, {"beam": 3, "nbest": 2}, {"temperature": 1.0, "top_k": 1, "nbest": 2}])
def test_how_many_are_decoded_together_changes_nothing(options: dict[str, object]) -> None:
    lines = [" ".join(random.Random(seed).choices(LETTERS, k=1 + seed % 7)) for seed in range(23)]
    prefixes = [line[: 2 * (len(line) // 5)].strip() for line in lines]
    told: list[int] = []
    together = translator(**options)
    expected = together.translate(lines, prefixes=prefixes, done=told.append)
    assert sum(told) == len(lines)
    few = together.search.model_copy(update={"batch_sentences": 3})
    for one, other in zip(together.translate(lines, search=few, prefixes=prefixes), expected, strict=True):
        assert [each.text for each in one.candidates] == [each.text for each in other.candidates]
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert len(one.candidates) == options.get("nbest", 1)
    for one, prefix in zip(expected, prefixes, strict=True):
        assert all(each.text.startswith(prefix) for each in one.candidates)

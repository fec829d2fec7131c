"""A trained model as a function: what it takes and what it gives, by the smallest model there can be."""

from __future__ import annotations

import pytest
import torch

from regard.data.text import TokenizerConfig, train_tokenizer
from regard.errors import ConfigError
from regard.models.configuration import ModelConfig
from regard.models.model import build
from regard.settings import SearchConfig
from regard.translate import Translator

LETTERS = "abcdefgh"


def translator(kind: str = "word", *, max_length: int = 20, **search: object) -> Translator:
    """Untrained, but whole; a piece is a word or a character."""
    torch.manual_seed(1)
    tokenizer = train_tokenizer([" ".join(LETTERS)], TokenizerConfig.model_validate({"kind": kind}))
    config = ModelConfig(width=8, heads=2, feed_forward=8, encoder_layers=1, decoder_layers=1)
    model = build(config, source_types=len(tokenizer), target_types=len(tokenizer))
    settings = SearchConfig.model_validate({"beam": 1, "max_extra": 4} | search)
    return Translator(model, tokenizer, tokenizer, settings, max_length=max_length)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bem": 3}, "did you mean beam"),
        ({"beam": 0}, "beam cannot be 0"),
        ({"nbest": 3}, "a beam of 1 cannot hold the 3 best"),
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

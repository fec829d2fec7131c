"""Models nobody trained, with weights large enough that they look somewhere."""

from __future__ import annotations

from typing import Any

import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.tasks.translation.translator import Translator

WORDS = train_tokenizer(["a b c d e f g h"], TokenizerConfig(kind="word"))
SIZES: dict[str, Any] = {
    "layers": 2, "width": 16, "heads": 4, "feed_forward": 16, "dropout": 0.0,
}  # fmt: skip


def translator(*, seed: int = 1, search: dict[str, Any] | None = None, **model: Any) -> Translator:
    """In float64, so that two ways of computing agree to many digits."""
    torch.manual_seed(seed)
    built = build(ModelConfig(**(SIZES | model)), source_types=len(WORDS), target_types=len(WORDS)).double()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    settings = SearchConfig.model_validate({"beam": 3, "max_extra": 4} | (search or {}))
    return Translator(built, WORDS, WORDS, settings, max_length=20, engine="reference")

"""A language model that nobody trained, with weights large enough that it looks somewhere."""

from __future__ import annotations

from typing import Any

import torch

from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.config import load_config
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.task import TASK

SIZES: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 16}


def generator(kind: str = "character", *, context: int = 12, **model: Any) -> Generator:
    """Of the letters a to g and the newline, in float64, so that two ways of computing agree to many digits."""
    tokenizer = train_tokenizer(["abcdefg\n"], TokenizerConfig(kind=kind))  # type: ignore[arg-type]
    torch.manual_seed(2)
    tables = {"task": "language-model", "data": {"train": [], "context": context}, "model": SIZES | model}
    net: Any = TASK.build(load_config(tables), {"types": len(tokenizer)}).double()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    return Generator(net, tokenizer, GenerateConfig(length=30), context=context)

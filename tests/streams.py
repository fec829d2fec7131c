"""Streaming translators that nobody trained, and sources that arrive in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.inference.policies import Policy, make_policy
from regard.inference.text_stream import StreamOutput
from regard.inspection.aligner import Aligner
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.tasks.translation.streaming import StreamingTranslator
from regard.tasks.translation.translator import Translator

TEXT = ["ab abc b bca cab", "acb cabb ba ab abba", "c bab acab a cc", "cab bac abc"] * 5
TRANSFORMER: dict[str, Any] = {"layers": 2, "width": 16, "heads": 4, "feed_forward": 16, "dropout": 0.0}
RECURRENT: dict[str, Any] = {"kind": "recurrent", "layers": 1, "width": 16, "dropout": 0.0}
MODELS: dict[str, tuple[str, dict[str, Any], Any]] = {  # kind of pieces, model, engine
    "transformer": ("bpe", TRANSFORMER, None),
    "causal encoder": ("bpe", TRANSFORMER | {"encoder": {"causal": True}}, None),
    "reference": ("bpe", TRANSFORMER, "reference"),
    "recurrent": ("bpe", RECURRENT, None),
    "words": ("word", TRANSFORMER, None),
    "characters": ("character", TRANSFORMER, None),
    "bytes": ("byte-bpe", TRANSFORMER, None),
}
POLICIES = [
    ("wait-k", 1),
    ("wait-k", 3),
    ("local-agreement", 1),
    ("local-agreement", 3),
    ("local-agreement of 3", 1),
    ("local-agreement of 4", 2),
    ("alignatt", 0),
    ("alignatt", 2),
]


@cache
def translator(
    name: str = "transformer", *, seed: int = 1, max_length: int = 40, unfinished: bool = True
) -> Translator:
    """Return a model with random weights, large enough that its outputs change with each word of the source."""
    kind, sizes, engine = MODELS[name]
    torch.manual_seed(seed)
    size = {"size": 16} if kind == "bpe" else {}
    pieces = train_tokenizer(TEXT, TokenizerConfig.model_validate({"kind": kind, **size}))
    built = build(ModelConfig(**sizes), source_types=len(pieces), target_types=len(pieces))
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    search = SearchConfig(beam=1, max_extra=4)
    return Translator(
        built, pieces, pieces, search, max_length=max_length, engine=engine, reads_unfinished=unfinished
    )  # fmt: skip


def policy_settings(title: str, lag: int) -> dict[str, Any]:
    """Return the settings of a policy, whose title may have a number of hypotheses that agree."""
    name, _, agree = title.partition(" of ")
    return {"policy": name, "lag": lag} | ({"agree": int(agree)} if agree else {})


def titled_policy(title: str, lag: int) -> Policy:
    own = policy_settings(title, lag)
    return make_policy(own["policy"], lag, agree=own.get("agree"))


def streaming(model: Translator, name: Any, lag: int, **options: Any) -> StreamingTranslator:
    attention = next(known for known in model.attention([4], [4]) if known.endswith("source"))
    return StreamingTranslator(model, titled_policy(name, lag), alignment=Aligner(attention, 0, 1, None, 0), **options)


def stream(model: StreamingTranslator, text: str, ends: Sequence[int]) -> list[StreamOutput]:
    """Return the output for each beginning of the text, of these numbers of characters, and for the whole text."""
    output, outputs = StreamOutput(""), []
    for end in [*ends, len(text)]:
        (output,) = model.advance([output.request(text[:end], final=end == len(text))])
        outputs.append(output)
    return outputs

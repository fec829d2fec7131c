"""Streaming recognizers that nobody trained, and sounds that arrive in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.build import build_recognizer
from regard.runs.config import load_config
from regard.tasks.recognition.attention_head import SpeechHead
from regard.tasks.recognition.codecs import SpeechCodecs
from regard.tasks.recognition.features import Features, FrameScale
from regard.tasks.recognition.recognizer import Recognizer
from regard.tasks.recognition.streaming import SegmentOptions, SpeechOutput, StreamingRecognizer

from .speech import RATE, spoken
from .streams import titled_policy

Sound = npt.NDArray[np.float32]

CHANNELS = 40
TEXTS = ["ab abc b bca cab", "acb cabb ba ab abba", "c bac acab a cc"] * 5
SMALL: dict[str, Any] = {
    "layers": 1, "width": 16, "heads": 2, "feed_forward": 16, "dropout": 0.0, "encoder": {"input": {"subsample": 4}},
}  # fmt: skip
CTC = {"decoder": "none"}
BPE = {"kind": "bpe", "size": 12}
MODELS: dict[str, tuple[int, dict[str, Any], dict[str, Any], dict[str, Any]]] = {  # seed, pieces, model, search
    "joint": (4, {"kind": "character"}, {}, {}),
    "joint beam": (1, BPE, {}, {"beam": 2}),
    "joint bytes": (2, {"kind": "byte-bpe"}, {}, {}),
    "ctc": (1, {"kind": "character"}, CTC, {}),
    "ctc trimmed": (1, {"kind": "character"}, CTC, {}),
    "ctc words": (1, {"kind": "word"}, CTC, {}),
    "ctc beam": (1, BPE, CTC, {"beam": 2}),
    "attention": (8, {"kind": "character"}, {"ctc": 0}, {}),
    "recurrent": (1, BPE, {"decoder": {"kind": "recurrent", "layers": 1}}, {}),
}
POLICIES = [("local-agreement", 1), ("local-agreement", 2), ("local-agreement of 3", 1), ("alignatt", 20)]
CASES = [
    (name, policy, lag)
    for name, (_, _, model, _) in MODELS.items()
    for policy, lag in POLICIES
    if (policy != "alignatt" or (model != CTC and model.get("ctc") != 0)) and (name != "recurrent" or lag == 1)
]


@cache
def recognizer(name: str = "joint") -> Recognizer:
    """Return a model with random weights, large enough that its outputs change with the sound."""
    seed, pieces, model, search = MODELS[name]
    config: Any = load_config(
        {
            "task": {"kind": "recognition"},
            "data": {
                "train": [{"source": "none.jsonl"}],
                "sound": {"rate": RATE, "channels": CHANNELS, "trim": 30 if "trimmed" in name else None},
            },
            "model": {**SMALL, **model},
            "search": {"beam": 1, **search},
        }
    )
    features = Features(config.data)
    features.scale, features.pieces_per_second = FrameScale(np.full(CHANNELS, -8.0), np.full(CHANNELS, 4.0)), 5.0
    tokenizer = train_tokenizer(TEXTS, TokenizerConfig.model_validate(pieces))
    torch.manual_seed(seed)
    net = build_recognizer(config.model, channels=CHANNELS, target_types=len(tokenizer))
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    return Recognizer(net, SpeechCodecs(features, tokenizer), config)


def streaming(
    model: Recognizer, policy: Any = "local-agreement", lag: int = 1, **options: float
) -> StreamingRecognizer:  # fmt: skip
    needs = policy == "alignatt"
    head = SpeechHead("decoder.0.source", 0, 1, 0.0, 1)
    return StreamingRecognizer(
        model, titled_policy(policy, lag), SegmentOptions(**options), alignment=head if needs else None
    )


def sound(parts: Sequence[str | float], seed: int = 4) -> Sound:
    """Return spoken texts, and seconds of quiet noise between them."""
    random = np.random.default_rng(seed)
    samples = [
        spoken(part, random).astype(np.float32) / 32768
        if isinstance(part, str)
        else (0.002 * random.standard_normal(round(RATE * part))).astype(np.float32)
        for part in parts
    ]
    return np.concatenate([np.zeros(0, np.float32), *samples])


def listen(model: StreamingRecognizer, samples: Sound, ends: Sequence[int] = ()) -> list[SpeechOutput]:
    """Return the outputs for a sound that arrives in pieces, which end at these samples."""
    stream, outputs, places = model.open(), list[SpeechOutput](), [0, *ends, len(samples)]
    for first, end in pairwise(places):
        more, stream = model.advance(stream, samples[first:end])
        outputs += more
    more, stream = model.advance(stream, samples[:0], final=True)
    assert not len(stream.waiting) and not len(stream.segment.sound)
    return outputs + more

"""Observation of a recognizer: its frames and its text, the attention over seconds, and the seconds of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention.observe import attention_maps, observe_calls, shared_copy
from regard.attention.span import Span
from regard.core.observation import (
    Alternative,
    AttentionMap,
    Axis,
    Observation,
    Prediction,
    Site,
    Surface,
    SurfaceNumbers,
)
from regard.data.log_mel import UNIT
from regard.data.tokenizers.tokenizer import BEGIN, END, Tokenizer
from regard.errors import ConfigError
from regard.tasks.net_outputs import encoded_labels
from regard.tasks.recognition.examples import padded_frames
from regard.tasks.recognition.features import Features
from regard.tasks.recognition.heard import Heard
from regard.tasks.recognition.searching import Recognized
from regard.tasks.recognition.transcript import Transcript

LONGEST = 512  # encoder states; each head of an encoder has LONGEST² weights
ALTERNATIVES = 10
BLANK = "∅"  # label of the blank of CTC

Frames = npt.NDArray[np.float32]


@torch.no_grad()
def observe_speech(
    net: Any, features: Features, tokenizer: Tokenizer, heard: Heard, recognized: Recognized, transcript: Transcript
) -> Observation:  # fmt: skip
    """Return the observation of one pass over a recording and its recognized pieces.

    Args:
        net: the network, with a decoder or with CTC alone.
        features: of the run.
        tokenizer: of the run.
        heard: the input.
        recognized: the recognized pieces, and their states if known.
        transcript: the text and the seconds of its words.

    Raises:
        ConfigError: the recording has more states than an observation shows.
    """
    net = shared_copy(net)  # hooks on the network itself would affect other threads
    seconds = [f"{heard.start + number / features.frame_rate:.2f}" for number in range(len(heard.frames))]
    states = encoded_labels(net.encoder, seconds)
    if len(states) > LONGEST:
        why = f"an observation shows up to {LONGEST} encoder states, and the recording has {len(states)}"
        raise ConfigError("the recording is too long to inspect", why=why, help="inspect a part of it")
    source, valid = padded_frames([features.standardized(heard.frames)])
    device = next(net.parameters()).device
    source, valid = source.to(device), valid.to(device)
    pieces = tokenizer.pieces(recognized.tokens)
    key = Axis("second", tuple(states))
    with observe_calls(net) as calls:
        encoded = net.encoder(source, Span.of(valid))
        if hasattr(net, "decoder"):
            tokens = torch.tensor([[BEGIN, *recognized.tokens]], device=device)
            log_p, _ = net.step(tokens, net.start(encoded, source))
            predictions = _predictions(tokenizer, log_p[0].cpu(), [*recognized.tokens, END])
        else:
            log_p = net.ctc.log_probabilities(encoded)[0].cpu()
            predictions = _aligned_predictions(tokenizer, log_p, recognized)
    query = Axis("token just read", (*tokenizer.pieces([BEGIN]), *pieces))
    surfaces = (
        _frames_surface(features, heard, seconds),
        Surface("tokens", tuple(pieces), ids=tuple(recognized.tokens)),
    )
    facts = {name: value for name, value in transcript.as_dict().items() if name in ("text", "words", "seconds")}
    if not hasattr(net, "decoder"):
        facts["states"] = _most_probable(log_p, recognized)
    return Observation(surfaces, predictions, _maps(calls, query, key), facts=facts)


def _frames_surface(features: Features, heard: Heard, seconds: Sequence[str]) -> Surface:
    audio = features.data.input == "audio"
    channels = tuple(f"{center:.0f} Hz" for center in features.recipe.centers) if audio else ()
    numbers = SurfaceNumbers(heard.frames, channels, UNIT if audio else "", features.frame_rate)
    return Surface("frames", tuple(seconds), numbers=numbers)


def _maps(calls: Any, query: Axis, key: Axis) -> tuple[AttentionMap, ...]:
    """Return the attention of the encoder over seconds, of the decoder over its tokens, and between both."""
    axes = {
        "encoder": (Axis("second", key.labels), Axis("second attended to", key.labels)),
        "source": (query, key),
        "self": (query, Axis("token attended to", query.labels)),
    }
    maps = list[AttentionMap]()
    for name, call in calls.items():
        kind = "encoder" if name.startswith("encoder") else "source" if name.endswith("source") else "self"
        maps += attention_maps({name: call}, *axes[kind])
    return tuple(maps)


def _predictions(tokenizer: Tokenizer, log_p: Tensor, targets: Sequence[int]) -> tuple[Prediction, ...]:
    """Return the prediction of each piece and of the end, after the pieces before it."""
    return tuple(
        Prediction(
            Site("after", (place - 1,), 1), "token", tokenizer.pieces([target])[0], float(row[target]),
            _alternatives(tokenizer, row),
        )
        for place, (row, target) in enumerate(zip(log_p, targets, strict=True))
    )  # fmt: skip


def _aligned_predictions(tokenizer: Tokenizer, log_p: Tensor, recognized: Recognized) -> tuple[Prediction, ...]:
    """Return the prediction of each piece at its most probable state."""
    predictions = []
    for place, (token, state) in enumerate(zip(recognized.tokens, _most_probable(log_p, recognized), strict=True)):
        row = log_p[state]
        label = tokenizer.pieces([token])[0]
        alternatives = _alternatives(tokenizer, row)
        predictions.append(Prediction(Site("piece", (place,), 1), "token", label, float(row[token]), alternatives))
    return tuple(predictions)


def _most_probable(log_p: Tensor, recognized: Recognized) -> list[int]:
    """Return the state of each piece at which it is most probable."""
    return [
        first + int(log_p[first : last + 1, token].argmax())
        for token, (first, last) in zip(recognized.tokens, recognized.states, strict=True)
    ]


def _alternatives(tokenizer: Tokenizer, log_p: Tensor) -> tuple[Alternative, ...]:
    values, index = log_p.double().topk(min(ALTERNATIVES, len(log_p)))
    return tuple(
        Alternative(BLANK if number == len(tokenizer) else tokenizer.pieces([number])[0], value, number)
        for value, number in zip(values.tolist(), index.tolist(), strict=True)
        if value > -torch.inf
    )

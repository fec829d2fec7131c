"""Influence of ranges of frames on the pieces of a text, teacher-forced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core.observation import Influence, Observation
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.tasks.recognition.examples import padded_frames

WIDTH = 8  # frames that are hidden together
TOGETHER = 32  # passes of one batch
HIDDEN = f"{WIDTH} frames at a time are replaced by the mean of training"

Frames = npt.NDArray[np.float32]


@torch.no_grad()
def piece_log_probabilities(net: Any, rows: Sequence[Frames], observation: Observation) -> list[list[float]]:
    """Return the log-probability of the label of each prediction of an observation, for each recording.

    With a decoder: of the pieces and of the end, teacher-forced. With CTC alone: of each piece at its most probable
    state between those of its neighbors, as its observation shows it.
    """
    pieces, device = list(observation.surfaces[1].ids), next(net.parameters()).device
    if not observation.predictions:
        return [[] for _ in rows]
    source, valid = (part.to(device) for part in padded_frames(rows))
    encoded = net.encoder(source, Span.of(valid))
    if not hasattr(net, "decoder"):
        log_p = net.ctc.log_probabilities(encoded)
        return [_at_states(row, observation) for row in log_p]
    tokens = torch.tensor([[BEGIN, *pieces]] * len(rows), device=device)
    log_p, _ = net.step(tokens, net.start(encoded, source))
    target = torch.tensor([*pieces, END], device=device)
    values: list[list[float]] = log_p[:, torch.arange(len(target)), target].double().tolist()
    return values


def _at_states(log_p: Tensor, observation: Observation) -> list[float]:
    states = observation.facts["states"]
    pieces = observation.surfaces[1].ids
    return [float(log_p[state, piece]) for state, piece in zip(states, pieces, strict=True)]


def frame_influences(net: Any, frames: Frames, observation: Observation) -> tuple[Influence, ...]:
    """Return the influence of each frame on each prediction; frames of one range have equal values."""
    if not observation.predictions:
        return ()
    ranges = [(start, min(start + WIDTH, len(frames))) for start in range(0, len(frames), WIDTH)]
    hidden = []
    for start, end in ranges:
        changed = frames.copy()
        changed[start:end] = 0
        hidden.append(changed)
    (whole,) = piece_log_probabilities(net, [frames], observation)
    changed_values = [
        values for first in range(0, len(hidden), TOGETHER)
        for values in piece_log_probabilities(net, hidden[first : first + TOGETHER], observation)
    ]  # fmt: skip
    return tuple(
        Influence(
            number, 0,
            tuple(
                log_p - values[number] for (start, end), values in zip(ranges, changed_values, strict=True)
                for _ in range(start, end)
            ),
            HIDDEN,
        )
        for number, log_p in enumerate(whole)
    )  # fmt: skip

"""Connectionist temporal classification: the probability of a sequence, summed over its alignments with frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

from regard.attention.contract import Encoded


class Ctc(nn.Module):
    """P(y | x) = Σ over paths a that collapse to y of Π_t p_t(a_t) (Graves et al. 2006, Eq. 2 and 3).

    p_t = softmax(W s_t + b) over the types of the output and a blank, for the encoder's state s_t. A path collapses by
    merging equal neighbors and removing blanks. The blank has the index ``types``, so it is no type of the output; an
    output has no END. A sequence y needs at least |y| + (equal neighbors in y) states. Shapes: s (sentences, states,
    width), W (types + 1, width). Cost: width · (types + 1) multiply-adds per state, and states · |y| for the loss.

    Args:
        width: features of an encoder's state.
        types: entries of the output vocabulary.
    """

    def __init__(self, width: int, types: int) -> None:
        super().__init__()
        self.blank = types
        self.linear = nn.Linear(width, types + 1)

    def log_probabilities(self, encoded: Encoded) -> Float[Tensor, "sentences length symbols"]:
        """Return log p_t of each type and, last, of the blank, in float32 or wider; padded states are blank."""
        logits: Tensor = self.linear(encoded.states)
        log_p = torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1)
        silent = torch.full_like(log_p[0, 0], -torch.inf)
        silent[self.blank] = 0
        return torch.where(encoded.span.valid[..., None], log_p, silent)

    def loss(
        self, encoded: Encoded, target: Int[Tensor, "sentences target"], lengths: Int[Tensor, "sentences"]
    ) -> Float[Tensor, ""]:
        """Return −log P(y | x) in nats, summed over the sentences.

        Args:
            encoded: the states.
            target: tokens y; those at and after ``lengths`` are ignored.
            lengths: number of tokens of y, without END.
        """
        logits: Tensor = self.linear(encoded.states)
        log_p = torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1)
        states = encoded.span.length
        return ctc_loss(log_p.transpose(0, 1), target, states, lengths, self.blank, reduction="sum")


class Path(NamedTuple):
    """The tokens of the most probable path, and the first and last state of each."""

    tokens: list[int]
    states: list[tuple[int, int]]


def required_states(target: Sequence[int] | npt.NDArray[np.integer]) -> int:
    """Return the minimum number of states of a sequence: equal neighbors need a blank between them."""
    return len(target) + sum(int(first == second) for first, second in pairwise(target))


def best_path(log_p: Float[Tensor, "length symbols"]) -> Path:
    """Return the collapsed path of the most probable symbol of each state; the last symbol is the blank."""
    blank = log_p.shape[1] - 1
    path = [*log_p.argmax(-1).tolist(), blank]
    tokens, states, start = [], [], 0
    for state, (symbol, following) in enumerate(pairwise(path)):
        if symbol == following and state + 2 < len(path):
            continue
        if symbol != blank:
            tokens.append(symbol)
            states.append((start, state))
        start = state + 1
    return Path(tokens, states)


def forced_path(log_p: Float[Tensor, "length symbols"], target: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last state of each token in the most probable path of ``target`` (Viterbi).

    Returns [] if the target does not fit into the states.
    """
    if not target or required_states(target) > len(log_p):
        return []
    blank = log_p.shape[1] - 1
    symbols = [blank, *(symbol for token in target for symbol in (token, blank))]
    scores = log_p.double().cpu().numpy()[:, symbols]
    skips = np.array([i > 1 and i % 2 == 1 and symbols[i] != symbols[i - 2] for i in range(len(symbols))])
    best, back = np.full(len(symbols), -np.inf), np.zeros(scores.shape, np.int64)
    best[:2] = scores[0, :2]
    for t in range(1, len(scores)):
        shifted = np.concatenate([[-np.inf], best[:-1]])
        skipped = np.where(skips, np.concatenate([[-np.inf] * 2, best[:-2]]), -np.inf)
        options = np.stack([best, shifted, skipped])
        back[t] = options.argmax(0)
        best = options.max(0) + scores[t]
    place = len(symbols) - 1 if best[-1] >= best[-2] else len(symbols) - 2
    spans: list[tuple[int, int]] = [(len(scores), -1)] * len(target)
    for t in range(len(scores) - 1, -1, -1):
        if place % 2:
            first, last = spans[place // 2]
            spans[place // 2] = (min(first, t), max(last, t))
        place -= int(back[t, place])
    return spans

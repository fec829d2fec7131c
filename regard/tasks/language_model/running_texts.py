"""Texts generated side by side: those that end leave the batch, others join, and none depends on its company."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.tokenizers.tokenizer import BEGIN, PAD, UNKNOWN
from regard.search.repetition import forbid, penalise_count, penalise_seen
from regard.search.sampling import bounded, draw_limited
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.continuation import Continuation, GeneratedPiece
from regard.tasks.language_model.decoding import Reading, WindowDecoding, joined

__all__ = ["choose_tokens", "running_texts"]


@torch.no_grad()
def running_texts(
    decoding: WindowDecoding,
    texts: Iterator[Continuation],
    settings: GenerateConfig,
    *,
    greedy: bool,
    rows: int,
) -> Iterator[GeneratedPiece]:
    """Pieces of all texts, one a token and text, at most ``rows`` texts at a time."""
    running: list[Continuation] = []
    reading: Reading | None = None
    while True:
        free = rows - len(running)
        if free >= max(rows // 8, 1) and (new := list(itertools.islice(texts, free))):
            read = decoding.read([text.tokens for text in new])
            reading, running = read if reading is None else joined([reading, read]), running + new
        if reading is None or not running:
            return
        tokens = choose_tokens(reading.log_p, running, settings, greedy=greedy)
        log_p = reading.log_p.gather(1, tokens[:, None]).squeeze(1).tolist()
        for text, token, value in zip(running, tokens.tolist(), log_p, strict=True):
            yield text.append(token, value)
        kept = [row for row, text in enumerate(running) if not text.over]
        running = [running[row] for row in kept]
        if running:
            reading, order = decoding.advance(reading.keep(kept), [text.tokens for text in running])
            running = [running[row] for row in order]
        else:
            reading = None


def choose_tokens(
    log_p: Float[Tensor, "rows types"], texts: list[Continuation], settings: GenerateConfig, *, greedy: bool
) -> Int[Tensor, "rows"]:
    """The next token of each text."""
    scores = _penalised(log_p, texts, settings)
    scores = scores.index_fill(1, torch.tensor([PAD, BEGIN, UNKNOWN], device=scores.device), -torch.inf)
    if greedy or settings.temperature == 0:
        return scores.argmax(-1)
    scores = scores / bounded(1.0 if settings.temperature is None else settings.temperature)
    uniform = torch.tensor([text.draw() for text in texts], dtype=torch.float64, device=scores.device)
    return draw_limited(scores, uniform, settings.top_k, settings.top_p, settings.min_p)


def _penalised(
    log_p: Float[Tensor, "rows types"], texts: list[Continuation], settings: GenerateConfig
) -> Float[Tensor, "rows types"]:
    repeated = [text.repeated for text in texts]
    if settings.repetition_penalty is not None:
        seen = torch.stack([each.seen for each in repeated if each.seen is not None])
        log_p = penalise_seen(log_p, seen, settings.repetition_penalty)
    if settings.frequency_penalty is not None or settings.presence_penalty is not None:
        count = torch.stack([each.count for each in repeated if each.count is not None])
        log_p = penalise_count(log_p, count, settings.frequency_penalty or 0.0, settings.presence_penalty or 0.0)
    return forbid(log_p, [each.forbidden() for each in repeated])

"""Observation of a text by a language model: causal heads over its tokens, and the probability of each of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.observe import attention_maps, observe_calls, shared_copy
from regard.core.observation import Alternative, Axis, Observation, Prediction, Site, Surface
from regard.data.tokenizers.tokenizer import BEGIN, PAD, UNKNOWN, Tokenizer
from regard.errors import ConfigError
from regard.models.language_model import LanguageModel

LONGEST = 256  # tokens; the weights of each head are their number squared
ALTERNATIVES = 10


@torch.no_grad()
def observe_tokens(
    model: LanguageModel, tokenizer: Tokenizer, text: str, tokens: Sequence[int], *, context: int
) -> Observation:
    """One pass over ``tokens`` of ``text``: all attention, log probabilities, alternatives, and what may follow.

    The query of a row has just read the token of its name, and predicts the next. ConfigError for no token, or for
    more than a prediction sees (``context``, with the begin symbol) or than can be shown.
    """
    longest = min(LONGEST, context - 1)
    if not tokens:
        raise ConfigError("there is no text to look at")
    if len(tokens) > longest:
        why = f"the model sees {context} tokens, and {LONGEST} can be shown"
        help = f"at most {longest} tokens"
        raise ConfigError(f"a text of {len(tokens)} tokens is too long to look at", why=why, help=help)
    read = [BEGIN, *tokens]
    shared = shared_copy(model)  # hooks on the model itself would be seen by whoever generates meanwhile
    with observe_calls(shared) as calls:
        log_p, _ = shared.step(torch.tensor([read], device=next(model.parameters()).device), shared.start(1))
    labels = token_labels(tokenizer, read)
    query, key = Axis("token just read", labels), Axis("token attended to", labels)
    predictions = tuple(
        _prediction(tokenizer, row, place, labels[place + 2] if token is not None else None, token)
        for place, (row, token) in enumerate(zip(log_p[0].cpu(), [*tokens, None], strict=True), start=-1)
    )
    surface = Surface("tokens", labels[1:], ids=tuple(tokens))
    return Observation((surface,), predictions, attention_maps(calls, query, key, side="decoder"))


def _prediction(tokenizer: Tokenizer, log_p: Tensor, place: int, label: str | None, token: int | None) -> Prediction:
    """Return the prediction after a piece: of the token that follows, or of the likeliest after the last."""
    alternatives = _alternatives(tokenizer, log_p)
    if label is None or token is None:
        return Prediction.best(Site("after", (place,)), "token", alternatives)
    return Prediction(Site("after", (place,)), "token", label, float(log_p[token]), alternatives)


def token_labels(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, ...]:
    """The text of each token, or its spelling where it has none: a special one, or a part of a character."""
    texts = [tokenizer.decode([token]) for token in tokens]
    spelled = tokenizer.pieces(tokens)
    return tuple(text if text and "\ufffd" not in text else piece for text, piece in zip(texts, spelled, strict=True))


def _alternatives(tokenizer: Tokenizer, log_p: Tensor) -> tuple[Alternative, ...]:
    """The likeliest tokens that a text may have next; the end of the text is one."""
    allowed = log_p.clone()
    allowed[[PAD, BEGIN, UNKNOWN]] = -torch.inf
    value, token = allowed.topk(min(ALTERNATIVES, len(allowed) - 3))
    return tuple(map(Alternative, token_labels(tokenizer, token.tolist()), value.tolist()))

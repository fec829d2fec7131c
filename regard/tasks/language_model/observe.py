"""Observation of a language model: attention over the tokens of a text, and the probability of each token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.attention.observe import attention_maps, observe_calls, shared_copy
from regard.core.observation import Alternative, Axis, Observation, Prediction, Site, Surface
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import BEGIN, PAD, UNKNOWN, Tokenizer
from regard.errors import ConfigError
from regard.inference.prompt_decoding import DecodedModel
from regard.models.language_model import LanguageModel
from regard.tasks.piano_roll import piano_roll

LONGEST = 256  # tokens; each head has LONGEST² weights
ALTERNATIVES = 10


@torch.no_grad()
def observe_tokens(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    tokens: Sequence[int],
    *,
    context: int,
    mixed: Callable[[DecodedModel], DecodedModel],
) -> Observation:
    """Return all attention, log-probabilities and alternatives of one pass over ``tokens``, the tokens of ``text``.

    The label of a query is the token that it reads; the query predicts the next token. ``mixed`` adds n-grams to a
    model.

    Raises:
        ConfigError: there is no token, more than ``context`` with BEGIN, or more than an observation supports.
    """
    longest = min(LONGEST, context - 1)
    if not tokens:
        raise ConfigError("there is no text to inspect")
    if len(tokens) > longest:
        why = f"the context of the model is {context} tokens, and an observation shows up to {LONGEST}"
        help = f"shorten the text to {pluralize(longest, 'token')}"
        raise ConfigError(f"the text is too long to inspect: {pluralize(len(tokens), 'token')}", why=why, help=help)
    sequence = [BEGIN, *tokens]
    shared = shared_copy(model)  # hooks on the model itself would affect concurrent generation
    whole = mixed(shared)
    with observe_calls(shared) as calls:
        log_p, _ = whole.step(torch.tensor([sequence], device=next(model.parameters()).device), whole.start(1))
    labels = token_labels(tokenizer, sequence)
    query, key = Axis("token just read", labels), Axis("token attended to", labels)
    predictions = tuple(
        _prediction(tokenizer, row, place, labels[place + 2] if token is not None else None, token)
        for place, (row, token) in enumerate(zip(log_p[0].cpu(), [*tokens, None], strict=True), start=-1)
    )
    surface, facts = Surface("tokens", labels[1:], ids=tuple(tokens)), piano_roll(tokenizer, text)
    return Observation((surface,), predictions, attention_maps(calls, query, key, side="decoder"), facts=facts)


@torch.no_grad()
def token_log_probabilities(model: DecodedModel, observation: Observation, device: torch.device) -> list[float]:
    """Return the log-probability of each token of an observed text, and of the best continuation of the text."""
    tokens = observation.surfaces[0].ids
    log_p, _ = model.step(torch.tensor([[BEGIN, *tokens]], device=device), model.start(1))
    labels = [*tokens, observation.predictions[-1].alternatives[0].id]
    return [float(row[label]) for row, label in zip(log_p[0].double().cpu(), labels, strict=True)]


def _prediction(tokenizer: Tokenizer, log_p: Tensor, place: int, label: str | None, token: int | None) -> Prediction:
    """Return the prediction after a token: of the next token, or of the most probable one at the end of the text."""
    alternatives = _alternatives(tokenizer, log_p)
    if label is None or token is None:
        return Prediction.best(Site("after", (place,)), "token", alternatives)
    return Prediction(Site("after", (place,)), "token", label, float(log_p[token]), alternatives)


def token_labels(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, ...]:
    """Return the text of each token; the name of its piece for special tokens and parts of characters."""
    texts = [tokenizer.decode([token]) for token in tokens]
    pieces = tokenizer.pieces(tokens)
    return tuple(text if text and "\ufffd" not in text else piece for text, piece in zip(texts, pieces, strict=True))


def _alternatives(tokenizer: Tokenizer, log_p: Tensor) -> tuple[Alternative, ...]:
    """Return the most probable next tokens, which include the end of the text."""
    value, token = best_next(log_p, ALTERNATIVES)
    return tuple(map(Alternative, token_labels(tokenizer, token.tolist()), value.tolist(), token.tolist()))


def best_next(log_p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the most probable next tokens, best first, and the tokens."""
    allowed = log_p.clone()
    allowed[[PAD, BEGIN, UNKNOWN]] = -torch.inf
    best = allowed.topk(min(count, len(allowed) - 3))
    return best.values, best.indices

"""The next token of a prompt, as sampling chooses it: after temperature, penalties and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.core.observation import Alternative
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.inference.prompt_decoding import SYMBOLS
from regard.inference.search_model import choice_of
from regard.search.choice import choice_probabilities
from regard.tasks.language_model.observe import token_labels

NUMBER = 20  # maximum number of tokens


@torch.no_grad()
def next_tokens(decoding: Any, tokenizer: Tokenizer, tokens: Sequence[int], settings: Any) -> tuple[Alternative, ...]:
    """Return the most probable next tokens with their log-probabilities, best first, without impossible tokens.

    Args:
        decoding: the model of generation.
        tokenizer: the tokenizer of the model.
        tokens: the prompt, from BEGIN.
        settings: the settings of generation; the beam size is ignored.
    """
    window = torch.tensor([[*tokens[-decoding.context :]]], device=decoding.device)
    log_p = decoding.model.step(window, decoding.model.start(1))[0][:, -1]
    values = choice_probabilities(
        log_p, choice_of(settings.model_copy(update={"beam": 1})), tokens, SYMBOLS.suppressed
    )[0]
    best, index = values.topk(min(NUMBER, len(values)))
    labels = token_labels(tokenizer, index.tolist())
    return tuple(
        Alternative(label, value, token)
        for label, value, token in zip(labels, best.tolist(), index.tolist(), strict=True)
        if value > -torch.inf
    )

"""Influence of each token of a text on the predictions of a language model."""

from __future__ import annotations

import torch

from regard.core.observation import Influence, Observation
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN
from regard.inference.prompt_decoding import READ_AT_ONCE, DecodedModel
from regard.tasks.influence import BATCH_ROWS, HiddenPieces, influences
from regard.tasks.language_model.observe import best_next


@torch.no_grad()
def token_influences(
    model: DecodedModel, observation: Observation, types: int, device: torch.device
) -> tuple[Influence, ...]:
    """Return the influence of each token on the next one, and on the best continuation of the text.

    Cost: a pass over the text for each token, in batches of up to ``BATCH_ROWS`` texts and ``READ_AT_ONCE``
    log-probabilities.

    Args:
        model: with its n-grams, if it has any.
        observation: of the text, by ``observe_tokens``.
        types: the size of the vocabulary.
        device: the device of the model.
    """
    (surface,) = observation.surfaces
    tokens = torch.tensor([BEGIN, *surface.ids])

    def scores(variants: list[int]) -> list[list[float]]:
        rows = tokens.repeat(1 + len(variants), 1)
        rows[range(1, len(rows)), variants] = UNKNOWN
        labels: torch.Tensor | None = None
        table = list[list[float]]()
        for part in rows.split(max(min(READ_AT_ONCE // (types * len(tokens)), BATCH_ROWS), 1)):
            log_p, _ = model.step(part.to(device), model.start(len(part)))
            if labels is None:
                labels = torch.cat([tokens[1:], best_next(log_p[0, -1].cpu(), 1)[1]]).to(device)
            table += log_p[:, range(len(tokens)), labels].double().tolist()
        return table

    pieces = HiddenPieces(0, "replaced by the unknown piece", range(1, len(tokens)))
    return influences(observation.predictions, [pieces], scores)

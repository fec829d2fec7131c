"""Parts of the inspection of a translation: pieces and words, predictions, alignment, terms of attention weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.weight_terms import AttentionCall
from regard.core.observation import Alternative, Prediction, Site, Surface
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.inference.decoding import SYMBOLS
from regard.inspection.aligner import Aligner
from regard.inspection.observation_document import encode_floats
from regard.search.best_types import best_types
from regard.search.contract import Hypothesis

CANDIDATES = 10  # alternatives recorded at each step


def surface(tokenizer: Tokenizer, ids: list[int]) -> Surface:
    """Return the pieces and words of one side."""
    words, spelled = words_of(tokenizer, ids)
    return Surface("tokens", tuple(tokenizer.pieces(ids)), tuple(words), tuple(spelled), tuple(ids))


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return the word index of each piece, and the words' spellings; special pieces are separate words.

    A piece belongs to the last word of the text that ends with this piece, for every tokenizer.
    """
    numbers: list[int] = []
    spelled: list[str] = []
    count = 0  # words of the text so far
    for position, piece in enumerate(ids):
        if piece < len(SPECIALS):
            spelled.append(SPECIALS[piece])
        else:
            words = tokenizer.decode(ids[: position + 1]).split()
            if len(words) > count or not spelled or spelled[-1] in SPECIALS:
                spelled.append("")
            count = len(words)
            spelled[-1] = words[-1] if words else ""
        numbers.append(len(spelled) - 1)
    return numbers, spelled


def candidate(tokenizer: Tokenizer, hypothesis: Hypothesis) -> dict[str, Any]:
    """Return text, score and log-probability of one output of the n-best list."""
    text = tokenizer.decode(hypothesis.tokens)
    return {"text": text, "score": hypothesis.score, "log_probability": hypothesis.log_probability}


def predictions(tokenizer: Tokenizer, log_p: Tensor, outputs: Sequence[int]) -> tuple[Prediction, ...]:
    """Return the prediction of each output piece, located after the previous piece of the second surface."""
    steps = []
    for place, (row, chosen) in enumerate(zip(log_p, outputs, strict=False), start=-1):
        value, token = (x[0] for x in best_types(row[None], CANDIDATES, SYMBOLS.suppressed))
        token, value = token[value > -math.inf], value[value > -math.inf]  # a vocabulary may have fewer types
        best = zip(tokenizer.pieces(token.tolist()), value.tolist(), token.tolist(), strict=True)
        steps.append(
            Prediction(
                Site("after", (place,), surface=1), "token", tokenizer.pieces([chosen])[0], float(row[chosen]),
                tuple(Alternative(*fields) for fields in best), entropy=float(torch.special.entr(row.exp()).sum()),
                rank=int((row > row[chosen]).sum()),
            )
        )  # fmt: skip
    return tuple(steps)


def alignment(aligner: Aligner, looks: Mapping[str, AttentionCall], rows: int) -> dict[str, Any]:
    """Return links of the first ``rows`` target pieces to source pieces, with the weights of the aligner's head.

    If the aligner reads one step late and the output did not end, the last piece uses the query after it.
    """
    weights = aligner.weights({name: look.weights[0].cpu() for name, look in looks.items()})[:rows]
    value, source = weights[:, : max(weights.shape[1] - 1, 1)].max(-1)  # without the source's end symbol
    links = [
        [target, position, round(weight, 6)]
        for target, (position, weight) in enumerate(zip(source.tolist(), value.tolist(), strict=True))
        if weight > 0
    ]
    return {
        "attention": aligner.attention, "head": aligner.head, "shift": aligner.shift, "why": aligner.why,
        "weights": encode_floats(weights), "links": links,
    }  # fmt: skip

"""Parts of the inspection of a translation: pieces and words, predictions, alignment, terms of attention weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.catalog import MECHANISMS
from regard.attention.contract import Mechanism
from regard.attention.kernel import share_heads
from regard.attention.observe import AttentionCall
from regard.attention.score import Score
from regard.core.observation import Alternative, Prediction, Site, Surface
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.inference.decoding import SYMBOLS
from regard.inspection.aligner import Aligner
from regard.inspection.measures import rollout
from regard.inspection.observation_document import encode_floats
from regard.search.best_types import best_types
from regard.search.contract import Hypothesis

CANDIDATES = 10  # alternatives recorded at each step
NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}  # config name of each mechanism class


class WeightTerms(NamedTuple):
    """energy(t, s) = scale · Σ_i term_i + bias; weights α = its softmax over the allowed keys; context = Σ α v.

    ``product``: term_i = query_i · key_i. ``additive``: term_i = vector_i · tanh(query_i + key_i). ``none``: the energy
    depends on more than one query and one key, or the weights are no softmax. Query, key and value are (heads,
    positions, width).
    """

    kind: Literal["product", "additive", "none"]
    formula: str
    scale: float
    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor  # (query, key): 1 where the mask lets the query look
    vector: Tensor | None = None  # (heads, width)
    bias: Tensor | None = None  # (heads, query, key)


def weight_terms(mechanism: Mechanism, look: AttentionCall) -> WeightTerms:
    """The terms of the first sentence of the batch."""
    heads = look.query.shape[1]
    rows, columns = look.weights.shape[2:]
    allowed = look.bound.dense()[0, :rows, :columns].expand(rows, columns).to(look.weights.dtype)
    query, key, value = (share_heads(x, heads)[0].detach() for x in (look.query, look.key, look.value))
    terms = mechanism.terms(query, key, look.bound) if isinstance(mechanism, Score) else None
    if terms is None:
        return WeightTerms("none", type(mechanism).__name__, 1.0, query, key, value, allowed)
    return WeightTerms(
        terms.kind, terms.formula, terms.scale, terms.query, terms.key, value, allowed, terms.vector, terms.bias
    )


def surface(tokenizer: Tokenizer, ids: list[int]) -> Surface:
    """Return the pieces and words of one side."""
    words, spelled = words_of(tokenizer, ids)
    return Surface("tokens", tuple(tokenizer.pieces(ids)), tuple(words), tuple(spelled), tuple(ids))


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return the word index of each piece, and the words' spellings; special pieces are separate words.

    A piece belongs to the last word of the text up to it, for every tokenizer.
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

    If the aligner reads one step late and the output did not end, the last piece is read from the query after it.
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


def rollouts(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Return the attention rollout of an encoder, and the decoder's mean cross-attention multiplied by it."""
    encoder = [heads for name, heads in weights.items() if name.startswith("encoder")]
    source = [heads.mean(0) for name, heads in weights.items() if name.endswith("source")]
    if not encoder:
        return {}
    rolled = rollout(encoder)
    encoded = {"encoder": encode_floats(rolled)}
    return encoded | {"source": encode_floats(torch.stack(source).mean(0) @ rolled)} if source else encoded


def vectors(terms: WeightTerms) -> dict[str, Any]:
    """Return the terms of an attention's energies, with encoded tensors."""
    plain = {"kind": terms.kind, "formula": terms.formula, "scale": terms.scale}
    tensors = {name: getattr(terms, name) for name in ("query", "key", "value", "allowed", "vector", "bias")}
    return plain | {name: None if tensor is None else encode_floats(tensor) for name, tensor in tensors.items()}

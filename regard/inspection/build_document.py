"""One text through a model: decoded fast, passed once through the reference path, and noted whole."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention.catalogue import MECHANISMS
from regard.attention.contract import Mechanism
from regard.attention.observe import AttentionCall, mechanisms, observe_calls
from regard.config.settings import SearchConfig
from regard.data.sentence_split import segments
from regard.data.tokenizers.catalogue import BEGIN, END, SPECIALS, Tokenizer
from regard.errors import ConfigError
from regard.inference.decoding import SYMBOLS
from regard.inspection.ablation import ablation
from regard.inspection.aligner import Aligner
from regard.inspection.beam_tree import BeamTree
from regard.inspection.document import Inspection
from regard.inspection.measures import Kind, measures, rollout
from regard.inspection.score_terms import Worked, worked
from regard.search.batch_search import Hypothesis, best_types, search
from regard.tasks.translation.translator import Translator

__all__ = ["Part", "inspect_text"]

Part = Literal["ablation", "beam", "vectors"]
LONGEST = 128  # pieces of a side: a head's weights are their product
CANDIDATES = 10
NAMES = {each: name for name, each in MECHANISMS.items()}  # of a class


def inspect_text(
    translator: Translator,
    text: str,
    *,
    settings: SearchConfig | None = None,
    force: Sequence[int] = (),
    candidate: int = 0,
    include: Collection[Part] = (),
    aligner: Aligner | None = None,
    model: Mapping[str, str | None] | None = None,
    sentence: int = 0,
) -> Inspection:
    """Translate one sentence of a text, then pass the pair through the reference path once and note everything.

    ``sentence``: which of the text's, 0 the first, which are told apart as a server does (``data/sentence_split``).
    ``force``: numbers of the pieces that the output begins with. ``candidate``: which of the n best outputs is looked
    at, the best one unless given. ``include`` what costs more: ``ablation`` (a pass an
    attention), ``beam`` (the branches of the search), ``vectors`` (queries, keys and values, which are large). Refused
    with a ConfigError: a sentence that is blank or of more than 128 pieces, since a head's weights are their product; a
    candidate beyond the outputs that were found.
    """
    settings = _searching(settings or translator.search)
    sentences = _sentences(text, (model or {}).get("source_language"))
    if not 0 <= sentence < len(sentences):
        why = f"the text has {len(sentences)}, counted from 0"
        raise ConfigError(f"there is no sentence {sentence} to look at", why=why)
    text = sentences[sentence]
    source = _source(translator, text)
    _require_pieces(translator, force)
    branches = BeamTree(settings)
    found = _decoded(translator, source, settings, force, branches)
    _require_candidate(candidate, len(found))
    best = found[candidate]
    whole, log_p = _looked(translator, source, best)
    looks = {name: _cut(look, name, len(_outputs(best))) for name, look in whole.items()}
    weights = {name: look.weights[0].cpu() for name, look in looks.items()}
    parts = mechanisms(translator.model)
    document = {
        "format": "regard-inspection",
        "version": 1,
        "model": dict(model or {}),
        "search": settings.model_dump(include={"beam", "length_penalty", "nbest"}),
        "forced": len(force),
        "candidate": candidate,
        "sentences": sentences,
        "sentence": sentence,
        "unknown": list(dict.fromkeys(translator.unknown(text))),
        "source": _side(translator.source, [*source, END]) | {"text": text},
        "target": _target(translator.target, best),
        "score": best.score,
        "log_probability": best.log_probability,
        "finished": best.finished,
        "candidates": [_candidate(translator.target, hypothesis) for hypothesis in found],
        "steps": _steps(translator.target, log_p, _outputs(best)),
        "attention": {name: _attention(parts[name], name, each) for name, each in weights.items()},
        "alignment": _alignment(aligner, whole, len(_outputs(best))) if aligner else None,
        "rollout": _rollouts(weights),
    }
    if "ablation" in include:
        heads = {name: len(each) for name, each in weights.items()}
        lost = ablation(translator, source, best.tokens, heads=heads, ended=best.finished)
        document["ablation"] = {name: [round(value, 6) for value in each.tolist()] for name, each in lost.items()}
    if "beam" in include:
        branches.mark(best)
        document["beam"] = [
            asdict(node) | {"piece": translator.target.pieces([node.token])[0]} for node in branches.nodes
        ]
    if "vectors" in include:
        document["vectors"] = {name: _worked(worked(parts[name], look)) for name, look in looks.items()}
    return Inspection(document, weights)


def _searching(settings: SearchConfig) -> SearchConfig:
    """By beam, even where a run samples: what is asked twice is the same twice."""
    drawn = {"temperature": None, "top_k": None, "top_p": None, "nbest": min(settings.nbest, settings.beam)}
    return settings.model_copy(update=drawn)


def _sentences(text: str, language: str | None) -> list[str]:
    """As they are translated one by one; of a text without any, itself."""
    found = segments(text, language).sentences or ([text.strip()] if text.strip() else [])
    if not found:
        raise ConfigError("there is no text to look at")
    return found


def _source(translator: Translator, text: str) -> list[int]:
    parts = translator.parts(text)
    if not parts:
        raise ConfigError("there is no text to look at")
    longest = min(LONGEST, translator.max_length)
    if len(parts) > 1 or len(parts[0]) > longest:
        count = sum(map(len, parts))
        raise ConfigError(f"a text of {count} pieces is too long to look at", help=f"at most {longest}: a sentence")
    return parts[0]


def _require_pieces(translator: Translator, force: Sequence[int]) -> None:
    if len(force) > LONGEST or any(
        piece in SYMBOLS.never or not 0 <= piece < len(translator.target) for piece in force
    ):
        raise ConfigError("the output cannot begin so", why="a forced piece is none that this model can say")


def _require_candidate(candidate: int, found: int) -> None:
    if not 0 <= candidate < found:
        raise ConfigError(
            f"there is no candidate {candidate}", why=f"the search found {found}, counted from 0", help="a wider beam"
        )


def _decoded(
    translator: Translator, source: list[int], settings: SearchConfig, force: Sequence[int], branches: BeamTree
) -> list[Hypothesis]:
    decoding = translator.decoding
    opened = decoding.open([0], [source], settings, prefixes=[list(force)] if force else None, watch=branches)
    with torch.no_grad():
        ((_, found),) = search(decoding.step, opened)
    return translator.ranked(source, found, settings)


def _looked(translator: Translator, source: list[int], best: Hypothesis) -> tuple[dict[str, AttentionCall], Tensor]:
    """Every look, and log p of every type at every place, one more than the output has where it did not end."""
    with translator.observed() as model, observe_calls(model) as seen:
        log_p = translator.log_probabilities([source], [best.tokens], model=model)[0].cpu()
    return dict(seen), log_p


def _cut(look: AttentionCall, name: str, rows: int) -> AttentionCall:
    """Without the end that was not reached."""
    if name.startswith("encoder"):
        return look
    if name.endswith("source"):
        return look._replace(query=look.query[:, :, :rows], weights=look.weights[:, :, :rows])
    cut = {part: getattr(look, part)[:, :, :rows] for part in ("query", "key", "value")}
    return look._replace(weights=look.weights[:, :, :rows, :rows], **cut)


def _outputs(best: Hypothesis) -> list[int]:
    return [*best.tokens, *([END] if best.finished else [])]


def _side(tokenizer: Tokenizer, ids: list[int]) -> dict[str, Any]:
    words, spelled = _words(tokenizer, ids)
    return {"ids": ids, "pieces": tokenizer.pieces(ids), "words": words, "spelled": spelled}


def _target(tokenizer: Tokenizer, best: Hypothesis) -> dict[str, Any]:
    outputs = _outputs(best)
    side = _side(tokenizer, outputs)
    inputs = [SPECIALS[BEGIN], *side["pieces"][: len(outputs) - 1]]
    return {"text": tokenizer.decode(best.tokens), **side, "inputs": inputs}


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[list[int], list[str]]:
    """Which word each piece belongs to, and how the words are spelled; special pieces are words of their own.

    A piece belongs to the last word of the text up to it, whatever the tokenizer marks words by.
    """
    numbers: list[int] = []
    spelled: list[str] = []
    said = 0  # words of the text so far
    for at, piece in enumerate(ids):
        if piece < len(SPECIALS):
            spelled.append(SPECIALS[piece])
        else:
            words = tokenizer.decode(ids[: at + 1]).split()
            if len(words) > said or not spelled or spelled[-1] in SPECIALS:
                spelled.append("")
            said = len(words)
            spelled[-1] = words[-1] if words else ""
        numbers.append(len(spelled) - 1)
    return numbers, spelled


def _candidate(tokenizer: Tokenizer, hypothesis: Hypothesis) -> dict[str, Any]:
    text = tokenizer.decode(hypothesis.tokens)
    return {"text": text, "score": hypothesis.score, "log_probability": hypothesis.log_probability}


def _steps(tokenizer: Tokenizer, log_p: Tensor, outputs: Sequence[int]) -> list[dict[str, Any]]:
    steps = []
    for row, chosen in zip(log_p, outputs, strict=False):
        value, token = (x[0] for x in best_types(row[None], CANDIDATES, SYMBOLS.never))
        token, value = token[value > -math.inf], value[value > -math.inf]  # of a vocabulary smaller than these
        best = zip(token.tolist(), tokenizer.pieces(token.tolist()), value.tolist(), strict=True)
        steps.append(
            {
                "entropy": float(torch.special.entr(row.exp()).sum()),
                "rank": int((row > row[chosen]).sum()),
                "log_probability": float(row[chosen]),
                "candidates": [{"id": id, "piece": piece, "log_probability": log} for id, piece, log in best],
            }
        )
    return steps


def _kind(name: str) -> Kind:
    return "source" if name.endswith("source") else "encoder" if name.startswith("encoder") else "decoder"


def _attention(mechanism: Mechanism, name: str, weights: Tensor) -> dict[str, Any]:
    layer = next((int(part) for part in name.split(".") if part.isdigit()), 0)
    kind = _kind(name)
    return {
        "kind": kind, "layer": layer, "mechanism": NAMES.get(type(mechanism), "other"), "weights": _floats(weights),
        "measures": measures(weights.float(), kind),
    }  # fmt: skip


def _alignment(aligner: Aligner, looks: Mapping[str, AttentionCall], rows: int) -> dict[str, Any]:
    """Of the first ``rows``: a late row of an output that did not end is the one that has been fed its last piece."""
    weights = aligner.weights({name: look.weights[0].cpu() for name, look in looks.items()})[:rows]
    value, source = weights[:, : max(weights.shape[1] - 1, 1)].max(-1)  # the source's end is no piece of it
    links = [
        [target, at, round(weight, 6)]
        for target, (at, weight) in enumerate(zip(source.tolist(), value.tolist(), strict=True))
        if weight > 0
    ]
    return {
        "attention": aligner.attention, "head": aligner.head, "shift": aligner.shift, "why": aligner.why,
        "weights": _floats(weights), "links": links,
    }  # fmt: skip


def _rollouts(attention: dict[str, Tensor]) -> dict[str, Any]:
    """Of an encoder of attention layers; and where the decoder looks on average, through it, into the source."""
    encoder = [weights for name, weights in attention.items() if name.startswith("encoder")]
    source = [weights.mean(0) for name, weights in attention.items() if name.endswith("source")]
    if not encoder:
        return {}
    rolled = rollout(encoder)
    found = {"encoder": _floats(rolled)}
    return found | {"source": _floats(torch.stack(source).mean(0) @ rolled)} if source else found


def _worked(found: Worked) -> dict[str, Any]:
    plain = {"kind": found.kind, "formula": found.formula, "scale": found.scale}
    tensors = {name: getattr(found, name) for name in ("query", "key", "value", "allowed", "vector", "bias")}
    return plain | {name: None if each is None else _floats(each) for name, each in tensors.items()}


def _floats(tensor: Tensor) -> dict[str, Any]:
    """float32, little-endian, row by row."""
    array = np.ascontiguousarray(tensor.detach().float().cpu().numpy().astype("<f4"))
    return {"shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}

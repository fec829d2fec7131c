"""The inspection document of one sentence: decoded fast, then passed once through the reference path and recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from torch import Tensor

from regard.attention.observe import mechanisms
from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalogue import END
from regard.inspection import document_parts as parts
from regard.inspection.ablation import ablation
from regard.inspection.aligner import Aligner
from regard.inspection.beam_tree import BeamTree
from regard.inspection.document import Inspection
from regard.inspection.observed_sentence import ObservedSentence, beam_settings, observe_sentence, sentences_of
from regard.inspection.weight_terms import weight_terms
from regard.tasks.translation.translator import Translator

__all__ = ["Part", "inspect_text"]

Part = Literal["ablation", "beam", "vectors"]


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
    """Translate one sentence of a text, pass the pair through the reference path once, and record everything.

    Refused with a ConfigError: a sentence that is blank or longer than 128 pieces (a head's weights are source length ×
    target length), and a sentence or candidate that does not exist.

    Args:
        translator: the model.
        text: one or more sentences, split as a server splits them (``data/sentence_split``).
        settings: the search; the translator's unless given. Sampling is replaced by beam search.
        force: ids of the pieces that the output must begin with.
        candidate: index of the n-best output to inspect, 0 the best.
        include: costly parts: ``ablation`` (one pass per attention), ``beam`` (the tree of the search), ``vectors``
            (queries, keys and values, which are large).
        aligner: the attention that aligns source and target pieces.
        model: name, checkpoint and languages, copied into the document.
        sentence: index of the sentence to inspect, 0 the first.
    """
    settings = beam_settings(settings or translator.search)
    sentences = sentences_of(text, (model or {}).get("source_language"), whole=translator.crops)
    tree = BeamTree(settings)
    seen = observe_sentence(
        translator, sentences, sentence, settings=settings, force=force, candidate=candidate, watch=tree
    )
    weights = {name: look.weights[0].cpu() for name, look in seen.looks.items()}
    document = {
        "format": "regard-inspection",
        "version": 1,
        "model": dict(model or {}),
        "search": settings.model_dump(include={"beam", "length_penalty", "nbest"}),
        "forced": len(force),
        "candidate": candidate,
        "sentences": sentences,
        "sentence": sentence,
    }
    document |= _output(translator, seen, sentences[sentence])
    document |= _attention(translator, seen, weights, aligner)
    document |= _optional(translator, seen, weights, tree, include)
    return Inspection(document, weights)


def _output(translator: Translator, seen: ObservedSentence, text: str) -> dict[str, Any]:
    """Source, output, n-best list and the alternatives at each step."""
    best = seen.best
    return {
        "unknown": list(dict.fromkeys(translator.unknown(text))),
        "source": parts.pieces_of(translator.source, [*seen.source, END]) | {"text": text},
        "target": parts.target(translator.target, best),
        "score": best.score,
        "log_probability": best.log_probability,
        "finished": best.finished,
        "candidates": [parts.candidate(translator.target, hypothesis) for hypothesis in seen.hypotheses],
        "steps": parts.steps(translator.target, seen.log_p, seen.outputs),
    }


def _attention(
    translator: Translator, seen: ObservedSentence, weights: dict[str, Tensor], aligner: Aligner | None
) -> dict[str, Any]:
    """Weights and measures of every head, the alignment, and the attention rollout."""
    modules = mechanisms(translator.model)
    return {
        "attention": {name: parts.attention(modules[name], name, each) for name, each in weights.items()},
        "alignment": parts.alignment(aligner, seen.whole_looks, len(seen.outputs)) if aligner else None,
        "rollout": parts.rollouts(weights),
    }


def _optional(
    translator: Translator,
    seen: ObservedSentence,
    weights: dict[str, Tensor],
    tree: BeamTree,
    include: Collection[Part],
) -> dict[str, Any]:
    """The parts of ``include``."""
    found: dict[str, Any] = {}
    if "ablation" in include:
        heads = {name: len(each) for name, each in weights.items()}
        change = ablation(translator, seen.source, seen.best.tokens, heads=heads, ended=seen.best.finished)
        found["ablation"] = {name: [round(value, 6) for value in each.tolist()] for name, each in change.items()}
    if "beam" in include:
        tree.mark(seen.best)
        found["beam"] = [asdict(node) | {"piece": translator.target.pieces([node.token])[0]} for node in tree.nodes]
    if "vectors" in include:
        modules = mechanisms(translator.model)
        found["vectors"] = {name: parts.vectors(weight_terms(modules[name], look)) for name, look in seen.looks.items()}
    return found

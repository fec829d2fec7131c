"""Inspection of one sentence of a translation: decode it, then pass it once through the reference path.

Ablation and the logit lens run more passes, without one head or without the last layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.weight_terms import AttentionSource
from regard.config.settings import SearchConfig
from regard.core.observation import AttentionMap, Axis, Influence, Observation, Prediction
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN
from regard.inspection import document_parts as parts
from regard.inspection.aligner import Aligner
from regard.inspection.attention_parts import rollouts, vectors
from regard.inspection.beam_tree import BeamTree
from regard.inspection.changed_network import head_changes, logit_lens
from regard.inspection.document import Inspection
from regard.inspection.network_blocks import network_blocks, recorded_shapes
from regard.inspection.observation_document import kind_of
from regard.inspection.observed_sentence import ObservedSentence, beam_settings, observe_sentence, sentences_of
from regard.tasks.influence import HiddenPieces, influences
from regard.tasks.translation.translator import Translator

Part = Literal["ablation", "beam", "influence", "lens", "vectors"]
ALL_PARTS: tuple[Part, ...] = ("ablation", "beam", "lens", "vectors")
HEADS_AT_ONCE = 16  # rows of a batch, each without one head


class SearchOptions(NamedTuple):
    """Options of the inspection of an input whose output a search finds.

    Attributes:
        settings: the search, by default that of the model. Sampling is replaced by beam search.
        force: ids of the pieces that the output must begin with.
        candidate: index of the n-best output to inspect, 0 the best.
        include: expensive parts: those of ``inspect_input.inspect_input``, and ``beam``, the tree of the search.
        sentence: index of the sentence to inspect, 0 the first.
    """

    settings: SearchConfig | None = None
    force: tuple[int, ...] = ()
    candidate: int = 0
    include: Collection[Part] = ()
    sentence: int = 0


DEFAULT = SearchOptions()


def inspect_text(
    translator: Translator,
    text: str,
    options: SearchOptions = DEFAULT,
    *,
    aligner: Aligner | None = None,
    model: Mapping[str, str | None] | None = None,
) -> Inspection:
    """Translate one sentence of a text, and record one pass of source and target through the reference path.

    Args:
        translator: the model.
        text: one or more sentences, split as a server splits them (``data/sentence_split``).
        options: the search, the sentence and the parts.
        aligner: the attention that aligns source and target pieces.
        model: name, task, checkpoint and languages, copied into the document.

    Raises:
        ConfigError: for a sentence that is blank or longer than 128 pieces, and for a sentence or candidate that does
            not exist. The limit exists because a head's weights are source length × target length.
    """
    settings = beam_settings(options.settings or translator.search)
    sentences = sentences_of(text, (model or {}).get("source_language"), whole=translator.crops)
    tree = BeamTree(settings)
    seen = observe_sentence(
        translator, sentences, options.sentence, settings=settings, force=options.force, candidate=options.candidate,
        watch=tree,
    )  # fmt: skip
    sentence = sentences[options.sentence]
    observation = _observation(translator, seen, sentence)
    if "influence" in options.include:
        observation = observation._replace(influences=_influences(translator, seen, observation.predictions))
    inspection = Inspection.of(observation, model or {}, sentence)
    inspection.document.update(sentences=sentences, sentence=options.sentence)
    inspection.document["search"] = _search(translator, seen, settings, options)
    inspection.document["alignment"] = (
        parts.alignment(aligner, seen.whole_looks, len(seen.outputs)) if aligner else None
    )
    inspection.document["rollout"] = rollouts(observation.attention)
    inspection.document.update(_optional(translator, seen, observation, tree, options.include))
    return inspection


def _search(
    translator: Translator, seen: ObservedSentence, settings: SearchConfig, options: SearchOptions
) -> dict[str, Any]:
    """Return the settings of the search, its outputs, and the inspected output."""
    return {
        "settings": settings.model_dump(include={"beam", "length_penalty", "nbest"}),
        "forced": len(options.force),
        "candidate": options.candidate,
        "candidates": [parts.candidate(translator.target, hypothesis) for hypothesis in seen.hypotheses],
        "output": translator.target.decode(seen.best.tokens),
        "score": seen.best.score,
        "log_probability": seen.best.log_probability,
        "finished": seen.best.finished,
    }


def _observation(translator: Translator, seen: ObservedSentence, text: str) -> Observation:
    """Return both sides, the prediction of each target piece, and the weights of every head."""
    source = parts.surface(translator.source, [*seen.source, END])
    target = parts.surface(translator.target, seen.outputs)
    inputs = (SPECIALS[BEGIN], *target.pieces[: len(seen.outputs) - 1])
    read, written = Axis("source piece", source.pieces), Axis("target piece", target.pieces)
    axes = {
        "encoder": (read, Axis("source piece attended to", source.pieces)),
        "source": (written, read),
        "decoder": (written, Axis("piece fed to the decoder", inputs)),
    }
    attention = tuple(
        AttentionMap.at(
            name, look.weights[0].cpu(), *axes[kind_of(name) or "decoder"], look.allowed().cpu(),
            AttentionSource(name, look),
        )
        for name, look in seen.looks.items()
    )  # fmt: skip
    unknown = list(dict.fromkeys(translator.unknown(text)))
    predictions = parts.predictions(translator.target, seen.log_p, seen.outputs)
    return Observation((source, target), predictions, attention, facts={"unknown": unknown})


def _influences(
    translator: Translator, seen: ObservedSentence, predictions: Sequence[Prediction]
) -> tuple[Influence, ...]:
    """Return the influence of each source piece on each target piece, given the previous target pieces."""
    source, steps = seen.source, range(len(seen.outputs))
    hidden = [[*source[:place], UNKNOWN, *source[place + 1 :]] for place in range(len(source))]

    def scores(variants: list[list[int]]) -> list[list[float]]:
        log_p = translator.log_probabilities(variants, [seen.best.tokens] * len(variants)) if variants else ()
        return [[float(rows[step, seen.outputs[step]]) for step in steps] for rows in (seen.log_p, *log_p)]

    pieces = HiddenPieces(0, "replaced by the unknown piece", [*hidden, None])  # the end is never hidden
    return influences(predictions, [pieces], scores)


def _optional(
    translator: Translator, seen: ObservedSentence, observation: Observation, tree: BeamTree, include: Collection[Part]
) -> dict[str, Any]:
    """Return the blocks of the network, and the parts of ``include``."""
    optional: dict[str, Any] = {}
    source, target, ended = [seen.source], [seen.best.tokens], seen.best.finished
    with translator.observed() as model:
        with recorded_shapes(model) as shapes:
            _log_probability(translator, model, source, target, ended)
        optional["network"] = network_blocks(model, shapes, observation.attention)
        if "ablation" in include:

            def scores(rows: int) -> Tensor:
                return _log_probability(translator, model, source * rows, target * rows, ended)

            optional["ablation"] = head_changes(model, observation.attention, scores, at_once=HEADS_AT_ONCE)
        if "lens" in include:

            def predict() -> Sequence[Prediction]:
                log_p = translator.log_probabilities(source, target, model=model)[0].cpu()
                return parts.predictions(translator.target, log_p, seen.outputs)

            optional["lens"] = logit_lens(model, predict)
    if "beam" in include:
        tree.mark(seen.best)
        optional["beam"] = [asdict(node) | {"piece": translator.target.pieces([node.token])[0]} for node in tree.nodes]
    if "vectors" in include:
        optional["vectors"] = vectors(observation.attention)
    return {name: part for name, part in optional.items() if part is not None}


def _log_probability(
    translator: Translator, model: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], ended: bool
) -> Tensor:
    log_p = translator.log_probabilities(sources, targets, model=model)
    output = torch.tensor([*targets[0], END], device=log_p.device)
    pieces = log_p.gather(-1, output.expand(len(sources), -1)[..., None]).squeeze(-1)
    return (pieces if ended else pieces[:, :-1]).sum(1).cpu()

"""Inspection of one sentence that is translated: decoded fast, then passed once through the reference path.

Ablation passes it once more for each attention: a head is switched off, and the log-probability of the output changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism
from regard.attention.observe import mechanisms
from regard.config.settings import SearchConfig
from regard.core.observation import AttentionMap, Axis, Influence, Observation, Prediction
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN
from regard.inspection import document_parts as parts
from regard.inspection.aligner import Aligner
from regard.inspection.beam_tree import BeamTree
from regard.inspection.document import Inspection
from regard.inspection.observation_document import kind_of
from regard.inspection.observed_sentence import ObservedSentence, beam_settings, observe_sentence, sentences_of
from regard.tasks.influence import HiddenPieces, influences
from regard.tasks.translation.translator import Translator

Part = Literal["ablation", "beam", "influence", "vectors"]
ALL_PARTS: tuple[Part, ...] = ("ablation", "beam", "vectors")


class SearchOptions(NamedTuple):
    """Options of the inspection of an input whose output a search finds.

    Attributes:
        settings: the search; the model's unless given. Sampling is replaced by beam search.
        force: ids of the pieces that the output must begin with.
        candidate: index of the n-best output to inspect, 0 the best.
        include: costly parts: ``ablation`` (one pass per attention), ``beam`` (the tree of the search), ``vectors``
            (queries, keys and values, which are large), ``influence`` (one pass per source piece).
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
    """Translate one sentence of a text, pass the pair through the reference path once, and record everything.

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
    weights = inspection.attention
    inspection.document.update(sentences=sentences, sentence=options.sentence)
    inspection.document["search"] = _search(translator, seen, settings, options)
    _add_mechanisms(translator, inspection.document["attention"])
    inspection.document["alignment"] = (
        parts.alignment(aligner, seen.whole_looks, len(seen.outputs)) if aligner else None
    )
    inspection.document["rollout"] = parts.rollouts(weights)
    inspection.document.update(_optional(translator, seen, weights, tree, options.include))
    return inspection


def _search(
    translator: Translator, seen: ObservedSentence, settings: SearchConfig, options: SearchOptions
) -> dict[str, Any]:
    """Return the settings of the search, its outputs, and the one that is inspected."""
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
        AttentionMap.at(name, look.weights[0].cpu(), *axes[kind_of(name) or "decoder"], look.allowed().cpu())
        for name, look in seen.looks.items()
    )
    unknown = list(dict.fromkeys(translator.unknown(text)))
    predictions = parts.predictions(translator.target, seen.log_p, seen.outputs)
    return Observation((source, target), predictions, attention, facts={"unknown": unknown})


def _influences(
    translator: Translator, seen: ObservedSentence, predictions: Sequence[Prediction]
) -> tuple[Influence, ...]:
    """Return the influence of each source piece on each target piece, given those before it."""
    source, steps = seen.source, range(len(seen.outputs))
    hidden = [[*source[:place], UNKNOWN, *source[place + 1 :]] for place in range(len(source))]

    def scores(variants: list[list[int]]) -> list[list[float]]:
        log_p = translator.log_probabilities(variants, [seen.best.tokens] * len(variants)) if variants else ()
        return [[float(rows[step, seen.outputs[step]]) for step in steps] for rows in (seen.log_p, *log_p)]

    pieces = HiddenPieces(0, "replaced by the unknown piece", [*hidden, None])  # the end is never hidden
    return influences(predictions, [pieces], scores)


def _add_mechanisms(translator: Translator, attention: dict[str, Any]) -> None:
    modules = mechanisms(translator.model)
    for place, entry in attention.items():
        entry["mechanism"] = parts.NAMES.get(type(modules[place]), "other")


def _optional(
    translator: Translator,
    seen: ObservedSentence,
    weights: dict[str, Tensor],
    tree: BeamTree,
    include: Collection[Part],
) -> dict[str, Any]:
    """Return the parts of ``include``."""
    optional: dict[str, Any] = {}
    if "ablation" in include:
        heads = {name: len(table) for name, table in weights.items()}
        change = ablation(translator, seen.source, seen.best.tokens, heads=heads, ended=seen.best.finished)
        optional["ablation"] = {name: [round(value, 6) for value in row.tolist()] for name, row in change.items()}
    if "beam" in include:
        tree.mark(seen.best)
        optional["beam"] = [asdict(node) | {"piece": translator.target.pieces([node.token])[0]} for node in tree.nodes]
    if "vectors" in include:
        modules = mechanisms(translator.model)
        optional["vectors"] = {
            name: parts.vectors(parts.weight_terms(modules[name], look)) for name, look in seen.looks.items()
        }
    return optional


def ablation(
    translator: Translator, source: Sequence[int], target: Sequence[int], *, heads: Mapping[str, int], ended: bool
) -> dict[str, Tensor]:
    """Return the change of log P(output | source) if the context of a head is 0, by attention and for each head.

    In nats; negative if the head helped this output. One pass for each attention, with one row for each head (Michel et
    al. 2019, "Are sixteen heads really better than one?", §2.3, for one sentence).

    Args:
        translator: the model.
        source: piece ids of the sentence.
        target: piece ids of the output.
        heads: number of heads of each attention by name.
        ended: whether the output includes the end symbol.
    """
    with translator.observed() as model:
        whole = _log_probability(translator, model, [source], [target], ended)
        changes = {}
        modules = mechanisms(model)
        for name, rows in heads.items():  # by ``heads``, because a score inside a mechanism is not an attention
            with _without(modules[name], rows):
                changes[name] = _log_probability(translator, model, [source] * rows, [target] * rows, ended) - whole
    return changes


@contextmanager
def _without(mechanism: Mechanism, heads: int) -> Iterator[None]:
    """Set the context of head h to 0 in row h of each batch inside the block."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> Attended:
        factor = 1 - torch.eye(heads, dtype=attended.context.dtype, device=attended.context.device)
        return attended._replace(context=attended.context * factor[:, :, None, None])

    handle = mechanism.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _log_probability(
    translator: Translator, model: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], ended: bool
) -> Tensor:
    log_p = translator.log_probabilities(sources, targets, model=model)
    output = torch.tensor([*targets[0], END], device=log_p.device)
    pieces = log_p.gather(-1, output.expand(len(sources), -1)[..., None]).squeeze(-1)
    return (pieces if ended else pieces[:, :-1]).sum(1).cpu()

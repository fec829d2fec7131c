"""Sentences translated so that what is demanded is in their outputs: searched for, or put in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from regard.config.settings import SearchConfig
from regard.data.protected_spans import Demand, kept, missing
from regard.errors import DataError
from regard.inference.results import Translation
from regard.server.api_error import ApiError
from regard.server.batching.models import ServedModel
from regard.server.text.glossary import Glossary
from regard.server.text.term_insertion import inserted
from regard.server.text.word_alignment import even_links
from regard.server.text.word_spans import words

__all__ = ["demands_of", "translated"]


def demands_of(sentence: str, glossary: Glossary | None, *, keep: bool) -> list[Demand]:
    """Terms of the glossary, and what is kept and in none of them, in their order."""
    terms = glossary.demands(sentence) if glossary else []
    things = kept(sentence) if keep else []
    apart = [each for each in things if all(each.end <= term.start or term.end <= each.start for term in terms)]
    return sorted([*terms, *apart])


async def translated(
    model: ServedModel,
    sentences: Sequence[str],
    settings: SearchConfig,
    *,
    client: str,
    seconds: float,
    glossary: Glossary | None = None,
    keep: bool = True,
) -> list[Translation]:
    """One translation a sentence. What is lost costs more: a search that is held to it, and the judgement of the model
    between what that found and the first output with what it lost put in.
    """
    until = time.monotonic() + seconds
    asked = await asyncio.to_thread(lambda: [demands_of(sentence, glossary, keep=keep) for sentence in sentences])
    found = await model.translate(sentences, settings, client=client, seconds=seconds)
    lost = [number for number, each in enumerate(found) if missing(asked[number], each.text)]
    if not lost:
        return found
    chosen, demands = [sentences[number] for number in lost], [asked[number] for number in lost]
    again: Sequence[Translation | None] = [None] * len(lost)
    if any(model.spells(demand.text) for its in demands for demand in its):
        left = max(until - time.monotonic(), 0.0)
        with suppress(ApiError):  # there is no room or time for it: what was lost is put in
            again = await model.translate(chosen, settings, client=client, seconds=left, demands=demands)
    for number, second in zip(lost, again, strict=True):
        first = found[number]
        better = await model.beside(partial(_better, model, first, second, asked[number], until))
        found[number] = better
        if better.text not in (first.text, second.text if second else None):  # something was put in
            scored = time.monotonic() < until
            found[number] = await model.beside(partial(model.spelling, better, better.text, settings, scored=scored))
    return found


def _better(
    model: ServedModel, first: Translation, second: Translation | None, demands: Sequence[Demand], until: float
) -> Translation:
    """Of the two, with what they lack put in, that which the model finds more probable."""
    whole = _whole(model, first, demands, until)
    if second is None or (first.candidates[0].finished and not second.candidates[0].finished):
        return whole
    other = _whole(model, second, demands, until)
    if time.monotonic() >= until:
        return other
    try:
        scores = model.score([first.source] * 2, [other.text, whole.text])
    except DataError:  # too long for one pass
        return other
    return other if sum(scores[0]) >= sum(scores[1]) else whole


def _whole(model: ServedModel, found: Translation, demands: Sequence[Demand], until: float) -> Translation:
    lacking = missing(demands, found.text)
    if not lacking:
        return found
    pace = even_links(len(words(found.source)), len(words(found.text)))
    links = model.links(found) if time.monotonic() < until else pace
    return found.saying(inserted(found.source, found.text, links, lacking))

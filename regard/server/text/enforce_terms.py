"""Translation with required terms: constrained search, or insertion, of terms that are missing in an output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from regard.config.settings import SearchConfig
from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.protected_spans import RequiredTerm, find_protected_spans, missing_terms
from regard.errors import DataError
from regard.inference.results import Candidate, Translation
from regard.server.api_error import ApiError
from regard.server.batching.translating import Translating
from regard.server.off_loop import off_loop
from regard.server.text.glossary import Glossary
from regard.server.text.term_insertion import insert_terms
from regard.server.text.word_alignment import even_alignment
from regard.server.text.word_spans import word_spans


def find_required_terms(
    sentence: str, glossary: Glossary | None, deadline: Deadline = NO_DEADLINE, *, protect: bool
) -> list[RequiredTerm]:
    """Return the glossary terms in a sentence and, if ``protect``, the protected spans outside of them, in order."""
    terms = glossary.find_terms(sentence, deadline) if glossary else []
    spans = find_protected_spans(sentence) if protect else []
    outside = [span for span in spans if all(span.end <= term.start or term.end <= span.start for term in terms)]
    return sorted([*terms, *outside])


async def translate_with_terms(
    model: Translating,
    sentences: Sequence[str],
    settings: SearchConfig,
    *,
    client: str,
    seconds: float,
    glossary: Glossary | None = None,
    protect: bool = True,
) -> list[Translation]:
    """Return the translation of each sentence, with all required terms in each of its outputs.

    If an output lacks a required term, a second search has the terms as constraints. Missing terms are inserted into
    the best outputs of both searches, and the one with the higher score becomes the best output. The other outputs are
    those of both searches that contain all terms, then outputs of the first search with inserted terms.

    Args:
        model: the model.
        sentences: the sentences.
        settings: the search settings.
        client: the name of the client in the queue.
        seconds: the time limit.
        glossary: the glossary, if any.
        protect: whether placeholders, addresses and numbers are required terms.
    """
    deadline = time.monotonic() + seconds
    required = await off_loop(_required_terms, sentences, glossary, Deadline(seconds), protect=protect)
    translations = await model.translate(sentences, settings, client=client, seconds=seconds)
    incomplete = await off_loop(_incomplete, model, sentences, translations, required)
    if not incomplete.numbers:
        return translations
    constrained: Sequence[Translation | None] = [None] * len(incomplete.numbers)
    if incomplete.encodable:
        with suppress(ApiError):  # without room or time for a second search, missing terms are inserted
            constrained = await model.translate(
                incomplete.sentences, settings, client=client, seconds=max(deadline - time.monotonic(), 0.0),
                required_terms=incomplete.terms,
            )  # fmt: skip
    for number, second in zip(incomplete.numbers, constrained, strict=True):
        work = partial(_complete, model, translations[number], second, required[number], settings, deadline)
        translations[number] = await model.run_serial(work)
    return translations


def _required_terms(
    sentences: Sequence[str], glossary: Glossary | None, deadline: Deadline, *, protect: bool
) -> list[list[RequiredTerm]]:
    """Return the required terms of each sentence."""
    terms = []
    for sentence in sentences:
        deadline.check()
        terms.append(find_required_terms(sentence, glossary, deadline, protect=protect))
    return terms


class _Incomplete(NamedTuple):
    """Translations with an output that lacks a term; ``encodable``: whether the vocabulary can represent a term."""

    numbers: list[int]
    sentences: list[str]
    terms: list[Sequence[RequiredTerm]]
    encodable: bool


def _incomplete(
    model: Translating,
    sentences: Sequence[str],
    translations: Sequence[Translation],
    required: Sequence[Sequence[RequiredTerm]],
) -> _Incomplete:
    """Return the translations with an output that lacks a term."""
    numbers = [
        number
        for number, translation in enumerate(translations)
        if any(missing_terms(required[number], candidate.text) for candidate in translation.candidates)
    ]
    terms = [required[number] for number in numbers]
    texts = dict.fromkeys(term.text for of_sentence in terms for term in of_sentence)
    return _Incomplete(numbers, [sentences[number] for number in numbers], terms, any(map(model.can_encode, texts)))


def _complete(
    model: Translating,
    first: Translation,
    second: Translation | None,
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    deadline: float,
) -> Translation:
    """Return the translation with all terms in each output; ``second`` is that of the constrained search, or None."""
    best = first
    if missing_terms(terms, first.text):
        best = _best_with_terms(model, first, second, terms, deadline)
        if best.text not in (first.text, second.text if second else None):  # a term was inserted
            best = model.with_text(best, best.text, settings, scored=time.monotonic() < deadline)
    outputs = {best.text: best.candidates[0]}
    alternatives = [*first.candidates[1:], *(second.candidates if second else ())]
    for candidate in sorted(alternatives, key=lambda candidate: (-candidate.finished, -candidate.score)):
        if not missing_terms(terms, candidate.text):
            outputs.setdefault(candidate.text, candidate)
    for candidate in first.candidates[1:]:
        if len(outputs) < len(first.candidates) and missing_terms(terms, candidate.text):
            completed = _insert_into(model, first, candidate, terms, settings, deadline)
            outputs.setdefault(completed.text, completed)
    top, *rest = list(outputs.values())[: len(first.candidates)]
    return best.with_candidates([top, *sorted(rest, key=lambda candidate: -candidate.score)])


def _insert_into(
    model: Translating,
    first: Translation,
    candidate: Candidate,
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    deadline: float,
) -> Candidate:
    """Return an output with its missing terms inserted; it is scored if time is left."""
    alone = first.with_candidates([candidate])
    if time.monotonic() < deadline:  # attention of this output, not of the best
        alone = model.with_text(alone, candidate.text, settings, scored=False)
    text = _with_missing_terms(model, alone, terms, deadline).text
    return model.with_text(alone, text, settings, scored=time.monotonic() < deadline).candidates[0]


def _best_with_terms(
    model: Translating,
    first: Translation,
    second: Translation | None,
    terms: Sequence[RequiredTerm],
    deadline: float,
) -> Translation:
    """Insert the missing terms into both outputs and return the one with the higher score.

    ``second`` is the output of the constrained search, or None. It is preferred if time is short, or if the outputs are
    too long to score in one pass. A finished ``first`` is preferred to an unfinished ``second``.
    """
    inserted = _with_missing_terms(model, first, terms, deadline)
    if second is None or (first.candidates[0].finished and not second.candidates[0].finished):
        return inserted
    searched = _with_missing_terms(model, second, terms, deadline)
    if time.monotonic() >= deadline:
        return searched
    try:
        scores = model.piece_scores([first.source] * 2, [searched.text, inserted.text])
    except DataError:  # too long for one pass
        return searched
    return searched if sum(scores[0]) >= sum(scores[1]) else inserted


def _with_missing_terms(
    model: Translating, translation: Translation, terms: Sequence[RequiredTerm], deadline: float
) -> Translation:
    """Return the translation with its missing terms inserted; after ``deadline``, words are aligned by position."""
    missing = missing_terms(terms, translation.text)
    if not missing:
        return translation
    even = even_alignment(len(word_spans(translation.source)), len(word_spans(translation.text)))
    alignment = model.align_words(translation) if time.monotonic() < deadline else even
    return translation.with_text(insert_terms(translation.source, translation.text, alignment, missing))

"""Insertion of required terms that an output lacks, next to the words aligned with their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.protected_spans import RequiredTerm, capitalised
from regard.server.text.word_alignment import WordAlignment
from regard.server.text.word_spans import WordSpan, word_spans

__all__ = ["insert_terms"]

CLOSING = ".,;:!?)]}»”’…。、，！？）"
OPENING = "([{«„“‘（"


def insert_terms(source: str, output: str, alignment: WordAlignment, terms: Sequence[RequiredTerm]) -> str:
    """Return ``output`` with all of ``terms`` in it, each next to the words aligned with its neighbours in the source.

    Output words aligned with a term are replaced: all of them by a term of a glossary; by a protected span only marks
    and words that are a part of it, which are what the model made of it.
    """
    source_words, output_words = word_spans(source), word_spans(output)
    spans = [(_output_span(term, source_words, output_words, output, alignment), term) for term in terms]
    changes: list[tuple[int, int, RequiredTerm]] = []
    for (start, end), term in sorted(spans):
        taken = changes[-1][1] if changes else 0
        changes.append((start, end, term) if start >= taken else (taken, taken, term))
    for start, end, term in reversed(changes):
        before, after = output[:start], output[end:]
        after = after[1:] if after[:2] == "  " else after  # the model left a word out between two spaces
        left = " " if before and not before[-1].isspace() and before[-1] not in OPENING else ""
        right = " " if after and not after[0].isspace() and after[0] not in CLOSING else ""
        capital = start == 0 and output[:1].isupper() and term.source != term.text
        text = capitalised(term.text) if capital else term.text
        output = f"{before}{left}{text}{right}{after}"
    return output


def _output_span(
    term: RequiredTerm,
    source_words: Sequence[WordSpan],
    output_words: Sequence[WordSpan],
    output: str,
    alignment: WordAlignment,
) -> tuple[int, int]:
    """Return the characters of ``output`` (start, end) that the term replaces; an empty span to insert it.

    ``source_words``, ``output_words``: words of the source and of ``output``, which ``alignment`` numbers.
    """
    phrase = [number for number, word in enumerate(source_words) if word.start < term.end and term.start < word.end]
    if not phrase or not alignment:
        return len(output), len(output)
    first, last = phrase[0], phrase[-1]
    aligned = [number for number, link in enumerate(alignment) if first <= link <= last]
    words = {number: output[output_words[number].start : output_words[number].end] for number in aligned}
    run = _longest_run([number for number in aligned if _is_replaced(words[number], term)])
    if run:
        return output_words[run[0]].start, output_words[run[-1]].end
    before = max(
        (number for number, link in enumerate(alignment) if link < first),
        key=lambda number: (alignment[number], number),
        default=None,
    )
    if before is not None:
        return output_words[before].end, output_words[before].end
    after = min((number for number, link in enumerate(alignment) if link >= first), default=0)
    return output_words[after].start, output_words[after].start


def _longest_run(numbers: Sequence[int]) -> list[int]:
    """Return the longest run of consecutive numbers; the first of several."""
    runs: list[list[int]] = [[]]
    for number in numbers:
        if runs[-1] and number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    return max(runs, key=len)


def _is_replaced(word: str, term: RequiredTerm) -> bool:
    """Return whether an output word aligned with ``term`` gives way to it."""
    if term.source != term.text:
        return any(map(str.isalnum, word))
    if term.is_number:
        return not any(character.isalpha() for character in word)
    return not any(map(str.isalnum, word)) or word.casefold() in term.text.casefold()

"""Phrases of glossaries in sentences: the same as by trying all of them, in linear time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.text.glossary import Glossary
from regard.server.text.phrase_search import Phrase, PhraseMatch, PhraseSearch

WORDS = st.lists(st.sampled_from("ab"), min_size=1, max_size=5).map(tuple)


def by_trying(phrases: dict[Phrase, str], words: Phrase) -> list[PhraseMatch]:
    """All matches, the longest first, then the first."""
    matches = [
        (-len(phrase), first, value)
        for phrase, value in phrases.items()
        for first in range(len(words))
        if words[first : first + len(phrase)] == phrase
    ]
    free, taken = set(range(len(words))), []
    for negative, first, value in sorted(matches):
        if free.issuperset(range(first, first - negative)):
            free -= set(range(first, first - negative))
            taken.append(PhraseMatch(first, first - negative, value))
    return sorted(taken)


@settings(max_examples=400, deadline=None)
@given(phrases=st.lists(WORDS, max_size=8), text=st.lists(st.sampled_from("abc"), max_size=25))
def test_matches_are_those_of_trying_all_phrases(phrases: list[Phrase], text: list[str]) -> None:
    values = {phrase: "".join(phrase).upper() for phrase in phrases}
    assert PhraseSearch(values).find(text) == by_trying(values, tuple(text))


def test_the_first_of_equal_entries_counts_and_a_phrase_matches_whole_words_in_any_case() -> None:
    glossary = Glossary({"Data  set": "A", "data set": "B", "set": "C"})
    terms = glossary.find_terms("A DATA SET, a set; datasets")
    assert [(term.source, term.text) for term in terms] == [("DATA SET", "A"), ("set", "C")]

"""Texts come apart into sentences and together again without the loss of a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sentence_split import LIST_MARKER, split_sentences
from regard.data.tokenizers.subword import MarianTokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.server.batching.translating import Translating

from .copying import capitals

LETTERS = [*"abcXYZ .!?,;:-0123\n\r\t\"'()ßé。！？ \u2028\x0b\xa0\u3000\u202f"]
CHARACTERS = st.sampled_from([*LETTERS, "Mr. ", "z. B. ", "\n\n", "  "])


@given(pieces=st.lists(CHARACTERS, max_size=60), language=st.sampled_from([None, "en", "de-AT", "zh", "xx", ""]))
def test_nothing_is_lost(pieces: list[str], language: str | None) -> None:
    text = "".join(pieces)
    found = split_sentences(text, language)
    assert found.join(found.sentences) == text
    assert len(found.between) == len(found.sentences) + 1
    assert all(sentence == sentence.strip() != "" for sentence in found.sentences)
    between = [LIST_MARKER.sub("", line) for each in found.between for line in each.splitlines()]
    assert not any(map(str.isalnum, "".join(between))), "whatever is no mark and has a letter or digit is translated"
    assert all(len(sentence.splitlines()) == 1 for sentence in found.sentences), "lines are never joined"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A dog runs.  A cat sleeps.\n\n", ["A dog runs.", "A cat sleeps."]),
        ("- one\n- two\n", ["one", "two"]),
        ("* one\n\t• two\n> – three\n>> four", ["one", "two", "three", "four"]),
        ("1. Do this.\n2) Then that.\n(3) And 2.1. Here.", ["Do this.", "Then that.", "And 2.1.", "Here."]),
        ("3. Oktober 1990 war ein Mittwoch.", ["3. Oktober 1990 war ein Mittwoch."]),
        ("The year was\n12. The next", ["The year was", "12. The next"]),
        ("A list:\n\n1. one\n\n2. two", ["A list:", "one", "two"]),
        ("2.1. a\na) b\n(iv) c\n- [x] d\n[ ] e\n1. - f", ["a", "b", "c", "d", "e", "f"]),
        ("-5 degrees\n1.5 m\n2024. Go\nI. am\na-b", ["-5 degrees", "1.5 m", "2024.", "Go", "I. am", "a-b"]),
        ("A dog.\n---\n* * *\n…\n1.\n♞", ["A dog.", "1."]),
        ("Mr. Smith is 3.5 m tall. He smiles.", ["Mr. Smith is 3.5 m tall.", "He smiles."]),
        ("Vitamine C\xa0. Et puis", ["Vitamine C\xa0. Et puis"]),  # at which sentencex panics
        ("", []),
        (" \n\t ", []),
    ],
)
def test_sentences_are_what_people_take_them_for(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, "en").sentences == sentences


def test_what_stands_between_stays() -> None:
    assert split_sentences(" A dog.  A cat.\n\n B\n", "en").join(["1", "2", "3"]) == " 1  2\n\n 3\n"


def test_no_sentence_ends_inside_an_address() -> None:
    found = split_sentences("See www.я.example now. Or ask a.B.c@mail.example. Then go.", "en").sentences
    assert found == ["See www.я.example now.", "Or ask a.B.c@mail.example.", "Then go."]


def test_a_mark_of_the_target_language_is_before_every_sentence_of_a_model_that_knows_marks() -> None:
    model, _ = capitals()
    text = ">>deu<< A dog runs. It barks.\nA cat."
    parted = split_sentences(text, "en")
    marked = Translating(model).mark_sentences
    assert marked(text, parted) == parted.sentences  # letters: a mark is text like any other
    translator = model.start()[0]
    translator.source = MarianTokenizer.__new__(MarianTokenizer)  # type: ignore[misc]
    translator.source.config = TokenizerConfig(kind="listed")
    try:
        assert marked(text, parted) == [">>deu<< A dog runs.", ">>deu<< It barks.", ">>deu<< A cat."]
        assert marked("A dog.", split_sentences("A dog.", "en")) == ["A dog."]
    finally:
        model.stop()

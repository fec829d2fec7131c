"""Work on texts grows with their length, not with its square, for patterns that are known to make parsers slow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from regard.core.deadline import Deadline, DeadlineExceeded
from regard.data.protected_spans import find_protected_spans, missing_terms
from regard.data.sentence_split import split_sentences, whole_text
from regard.server.text.documents import Document
from regard.server.text.enforce_terms import find_required_terms
from regard.server.text.glossary import Glossary, format_tsv, parse_entries
from regard.server.text.markdown import parse_markdown
from regard.server.text.markup_document import MarkupDocument
from regard.server.text.markup_tokenizer import Markup, strip_tags
from regard.server.text.term_insertion import insert_terms
from regard.server.text.word_alignment import even_alignment, piece_spans
from regard.server.text.word_spans import word_spans

SIZE = 300  # characters of the smaller text
HTML, XML = Markup.create("html"), Markup.create("xml")


def joined(document: Document) -> str:
    """A document with its own sentences in capitals, all of them aligned."""
    sentences = document.sentences
    alignments = {}
    for number in document.needs_alignment:
        count = len(word_spans(sentences[number]))
        alignments[number] = even_alignment(count, count)
    return document.join([each.upper() for each in sentences], alignments)


def inserted(text: str) -> str:
    """An output of other words, with a term for each word of the text, and all that is protected."""
    terms = find_required_terms(text, Glossary({word: f"{word} x" for word in set(text.split())}), protect=True)
    output = "y " * len(terms)
    alignment = even_alignment(len(word_spans(text)), len(word_spans(output)))
    return insert_terms(text, output, alignment, missing_terms(terms, output))


def phrases(text: str) -> Any:
    """The terms of a glossary in which each entry is a word longer than the one before."""
    words = text.split()
    entries = {" ".join(words[: number + 1]): "x" for number in range(0, len(words), 8)}
    return Glossary(dict(list(entries.items())[:8])).find_terms(text)


TRANSFORMATIONS: dict[str, Callable[[str], Any]] = {
    "sentences": lambda text: split_sentences(text, "en"),
    "whole text": whole_text,
    "protected spans": find_protected_spans,
    "missing terms": lambda text: missing_terms(find_protected_spans(text), text[::-1]),
    "words": word_spans,
    "visible text": strip_tags,
    "pieces": lambda text: piece_spans([text[at : at + 2] for at in range(0, len(text), 2)], text),
    "terms": inserted,
    "phrases": phrases,
    "HTML": lambda text: joined(MarkupDocument(text, HTML, "en")),
    "XML": lambda text: joined(MarkupDocument(text, XML, "en")),
    "Markdown": lambda text: joined(parse_markdown(text, "en")),
}
PLAIN = [
    "a ", "a\n", "Ab. ", "ab", "1 ", "1", "1.", "1,1", "{a} ", "{", "{{a ", "$", "%", "%1$", "http://", "www.", "a@",
    "a@b.", "a@b.c ", ".", "!", "...\n", "- ", "> ", "(a) ", "[x] ", "1. ", "((", "\u4e00\u4e01", "\u0301", "'", '"',
    " ", "\n", "\r", "\t", "\u00a0", "http://a.", "1:1/", "a-", "?!",
]  # fmt: skip
TAGS = [
    "<b>x ", "<b>x</b> ", "<p>x", "<a '", '<a "', "<", "<1", "<a", "<!", "<![CDATA[", "<?a", "&", "&a;", "&#1", "<!--",
    "<b>", "</b>", "<b/>", "<script>x</script ", "<style>", "<a><b>x</b></a>", "<pre>\n", "<br>", "<b translate=no>",
]  # fmt: skip
MARKS = [
    "[", "]", "[a](", "[a][", "[a]: b\n\n", "[a]", "![", "![a](b) ", "*", "*a ", "**a_b", "_", "_a_", "`", "`a", "`a` ",
    "~~a", "\\", "\\[", "| a ", "|a|b|\n|-|-|\n", "# a\n", "===\n", "> > ", "- - ", "- a\n", "a  \n", "<http://a>",
    "[^1]", "[^", "&amp;", "***\n", "```\n", "    a\n", "---\na: ", "a_", "[*", "*[a](b)", "<b>*", "a**b", "(a", "![[",
    '[a](b "', "[a](<b", '[a]: b "', "~~a~", "a\\\n",
]  # fmt: skip
TWO_PARTS: dict[str, Callable[[int], str]] = {
    "nested tags": lambda size: "<b>" * (size // 7) + "x" + "</b>" * (size // 7),
    "nested marks": lambda size: "*" * (size // 2) + "a" + "*" * (size // 2),
    "nested brackets": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "nested links": lambda size: "[" * (size // 5) + "a" + "](b)" * (size // 5),
    "nested images": lambda size: "![" * (size // 6) + "a" + "](b)" * (size // 6),
    "short rows": lambda size: "a|" * (size // 6) + "\n" + "-|" * (size // 6) + "\n" + "a\n" * (size // 6),
    "many wide tables": lambda size: ("a|" * 20 + "\n" + "-|" * 20 + "\n" + "a\n" * 20) * (size // 120),
    "marks and their ends": lambda size: "<a b='" * (size // 12) + "'>" * (size // 12),
}  # fmt: skip


def patterns(name: str) -> list[str]:
    return PLAIN + (TAGS if name in ("HTML", "XML", "visible text", "Markdown") else []) + (
        MARKS if name == "Markdown" else []
    )  # fmt: skip


def steps(work: Callable[[str], Any], text: str) -> int:
    """Lines of Python, ours and of libraries, that the work runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # a collection would run the finalizers of other tests' objects, and count them
    sys.settrace(trace)
    try:
        work(text)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_twice_the_text_takes_at_most_three_times_the_steps(name: str) -> None:
    work = TRANSFORMATIONS[name]
    texts = {repr(each): lambda size, each=each: each * (size // len(each)) for each in patterns(name)}
    slow = {}
    for pattern, text in (texts | TWO_PARTS).items():
        work(text(40))  # compiles patterns
        small, large = steps(work, text(SIZE)), steps(work, text(2 * SIZE))
        if large > 3 * small:
            slow[pattern] = (small, large)
    assert not slow


@pytest.mark.parametrize("count", [20, 200])
def test_a_glossary_of_overlapping_phrases_takes_steps_for_its_words_and_those_of_the_text(count: int) -> None:
    def terms(size: int) -> int:
        glossary = Glossary({" ".join(["a"] * (number + 1)): "x" for number in range(0, size, 10)})
        return steps(glossary.find_terms, "a " * size)

    words = sum(range(1, 2 * count, 10))
    assert terms(2 * count) <= 12 * (words + 2 * count) + 150 * 2 * count


def test_entries_are_read_and_written_in_steps_for_their_number() -> None:
    def entries(size: int) -> int:
        text = "".join(f"a {number}\tb\n" for number in range(size))
        return steps(lambda text: format_tsv(parse_entries(text, "tsv")), text)

    assert entries(400) <= 3 * entries(200)


class Clock:
    """A clock that advances by a second each time that it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    "work",
    [
        lambda deadline: split_sentences("a.\n" * 100, "en", deadline),
        lambda deadline: MarkupDocument("<b>a</b> " * 100, HTML, "en", deadline),
        lambda deadline: parse_markdown("a\n\n" * 100, "en", deadline),
        lambda deadline: parse_markdown("a*b* " * 100, "en", deadline),
        lambda deadline: Glossary({f"a{number}": "b" for number in range(100)}).find_terms("a1", deadline),
        lambda deadline: Glossary({"a": "b"}).find_terms("a " * 100, deadline),
    ],
    ids=["sentences", "HTML", "blocks", "inline", "entries", "terms"],
)
def test_work_ends_at_its_deadline(work: Callable[[Deadline], Any]) -> None:
    clock = Clock()
    with pytest.raises(DeadlineExceeded, match="more than 50 s"):
        work(Deadline(50, clock=clock))
    assert clock.now < 60
    work(Deadline(100_000, clock=clock))

"""A stretch of a marked text that no tag parts: its words, and the tags between and around them."""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

from regard.data.sentence_split import SplitText, segments
from regard.server.text.markup_tokenizer import ENTITY, Markup, Token, decoded, escaped
from regard.server.text.tag_projection import TagNode, placed
from regard.server.text.word_alignment import Links, even_links
from regard.server.text.word_spans import Word, words

__all__ = ["Stretch", "stretch"]

BLANK = " \t\r\n\f"
BLANKS = re.compile(rf"[{BLANK}]+")


class Stretch:
    """Text and the tags in it, none of which parts it."""

    def __init__(
        self, text: str, edges: tuple[str, str], nodes: list[TagNode], places: list[int], markup: Markup,
        language: str | None,
    ) -> None:  # fmt: skip
        """``edges``: blanks around ``text``. ``places``: where the tags stand in it."""
        self._segments = segments(text, language)
        self._edges, self._nodes, self._places, self._markup = edges, nodes, places, markup
        self._words = _words_of(self._segments, self._segments.sentences)
        flat = [word for its in self._words for word in its]
        self._cut = [_cut(word, places) for word in flat]
        self._texts = [text[word.start : word.end] for word in flat]
        parts = [part for of in self._cut for part in of]
        ends, begins = [part.end for part in parts], [part.start for part in parts]
        self._count = len(parts)
        for node in _all(nodes):  # so far by letters
            node.first = bisect_right(ends, node.first)
            node.end = max(bisect_left(begins, node.end), node.first)

    @property
    def sentences(self) -> list[str]:
        return self._segments.sentences

    @property
    def linked(self) -> list[int]:
        """The sentences of which a tag stands between two words."""
        inside = [its and (its[0].start + 1, its[-1].start + 1) for its in self._words[1::2]]
        places = self._places
        return [n for n, at in enumerate(inside) if at and bisect_left(places, at[1]) > bisect_left(places, at[0])]

    def joined(
        self, sentences: Sequence[str], links: Mapping[int, Links], escape: Callable[[str], str] | None = None
    ) -> str:
        """``escape``: for all that is no tag, other than usual in this markup."""
        text, said = self._segments.joined(sentences), _words_of(self._segments, sentences)
        found, linked = self._parts(text, said, {2 * number + 1: its for number, its in links.items()})
        inner = placed(self._nodes, self._count, linked, text, found, escape or self._escaped)
        return f"{self._edges[0]}{inner}{self._edges[1]}"

    def _escaped(self, text: str) -> str:
        return escaped(text, self._markup)

    def _parts(
        self, text: str, said: Sequence[Sequence[Word]], links: Mapping[int, Links]
    ) -> tuple[list[Word], list[int]]:
        """The words of the output and what each is linked to; a word with tags in it comes in parts, if it stayed."""
        begins = [0, *accumulate(map(len, self._cut))]
        found: list[Word] = []
        linked: list[int] = []
        first = 0
        for number, (mine, its) in enumerate(zip(self._words, said, strict=True)):
            given = links.get(number, ())
            given = given if len(given) == len(its) else even_links(len(mine), len(its))
            for word, link in zip(its, given, strict=False):  # no links to a sentence without words
                source = first + link
                cut, shift = self._cut[source], word.start - self._cut[source][0].start
                if text[word.start : word.end] == self._texts[source]:
                    found += [Word(part.start + shift, part.end + shift) for part in cut]
                    linked += range(begins[source], begins[source + 1])
                else:
                    found.append(word)
                    linked.append(begins[source] + _longest(cut))
            first += len(mine)
        return found, linked


def _cut(word: Word, places: Sequence[int]) -> list[Word]:
    """A word in parts, by the tags inside it."""
    inside = sorted(set(places[bisect_right(places, word.start) : bisect_left(places, word.end)]))
    return [Word(*pair) for pair in pairwise([word.start, *inside, word.end])]


def _longest(words: Sequence[Word]) -> int:
    return max(range(len(words)), key=lambda number: words[number].end - words[number].start)


def _words_of(segments: SplitText, sentences: Sequence[str]) -> list[list[Word]]:
    """Where words stand in the whole with these for its sentences: of what is before a sentence, of the sentence, and
    so on, last of what is after all.
    """
    inner = [part for pair in zip(sentences, segments.between[1:], strict=True) for part in pair]
    found, at = [], 0
    for part in [segments.between[0], *inner]:
        found.append([Word(at + word.start, at + word.end) for word in words(part)])
        at += len(part)
    return found


def _all(nodes: Sequence[TagNode]) -> list[TagNode]:
    return [each for node in nodes for each in (node, *_all(node.inside))]


def stretch(tokens: Sequence[Token], markup: Markup, language: str | None, *, verbatim: bool) -> str | Stretch:
    """These tokens, none of which parts the text; as they are where there are no words."""
    text = ""
    places: list[int] = []
    levels: list[list[TagNode]] = [[]]
    loose: list[TagNode] = []  # which wait to hear whether a blank follows
    folds = markup.kind == "html" and not verbatim
    before, inner, after = _edges(tokens)
    for token in _split(inner, markup):
        if token.kind == "text":
            said = decoded(token.raw, markup)
            for node in loose:
                node.glued = (node.glued[0], not said[:1].isspace())
            loose = []
            said = BLANKS.sub(_folded, said) if folds else said
            text += said.lstrip(BLANK) if text.endswith(tuple(BLANK)) and not verbatim else said
            continue
        places.append(len(text))
        if token.kind == "close":
            levels.pop()
            levels[-1][-1].closing, levels[-1][-1].end = token.raw, len(text)
            continue
        node = TagNode(token.raw, None, len(text), len(text), (not text[-1:].isspace(), True))
        levels[-1].append(node)
        if token.kind == "open":
            levels.append(node.inside)
        else:
            loose.append(node)
    if not words(text):
        return "".join(token.raw for token in tokens)
    return Stretch(text, (before, after), levels[0], places, markup, language)


def _edges(tokens: Sequence[Token]) -> tuple[str, list[Token], str]:
    """The blanks around, and the tokens without them. Tags have none."""
    inner, first = list(tokens), tokens[0].raw
    before = first[: len(first) - len(first.lstrip(BLANK))]
    inner[0] = inner[0]._replace(raw=first[len(before) :])
    last = inner[-1].raw
    after = last[len(last.rstrip(BLANK)) :]
    inner[-1] = inner[-1]._replace(raw=last[: len(last) - len(after)])
    return before, inner, after


def _split(tokens: Sequence[Token], markup: Markup) -> list[Token]:
    """In XML, entities that nobody knows are tokens of their own, which stay."""
    if markup.kind != "xml":
        return list(tokens)
    found = []
    for token in tokens:
        at = 0
        for entity in ENTITY.finditer(token.raw) if token.kind == "text" else ():
            if html.unescape(entity[0]) == entity[0]:
                found += [Token("text", token.raw[at : entity.start()]), Token("raw", entity[0])]
                at = entity.end()
        found.append(token._replace(raw=token.raw[at:]) if at else token)
    return [token for token in found if token.raw]


def _folded(blanks: re.Match[str]) -> str:
    """In HTML the end of a line is a blank."""
    return " " if "\n" in blanks[0] or "\r" in blanks[0] else blanks[0]

"""Inline markup: the text of one block with its inline tags, as a document."""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.sentence_split import SplitText, split_sentences
from regard.server.text.markup_tokenizer import ENTITY, Markup, MarkupToken, escape, unescape
from regard.server.text.tag_projection import TagNode, project_tags
from regard.server.text.word_alignment import WordAlignment, even_alignment
from regard.server.text.word_spans import WordSpan, word_spans

BLANK = " \t\r\n\f"
BLANKS = re.compile(rf"[{BLANK}]+")


class InlineMarkup:
    """Document of text with inline tags, which do not split the text."""

    def __init__(
        self,
        text: str,
        edges: tuple[str, str],
        nodes: list[TagNode],
        positions: list[int],
        markup: Markup,
        language: str | None,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        """Build the document.

        Args:
            text: the text without tags.
            edges: the white space before and after the text.
            nodes: the tags, whose ``first`` and ``end`` are changed from characters of ``text`` to words.
            positions: the character after each tag, in ascending order.
            markup: the format.
            language: the language code for sentence splitting.
            deadline: the deadline of the request.
        """
        self._split = split_sentences(text, language, deadline)
        self._edges, self._nodes, self._positions, self._markup = edges, nodes, positions, markup
        self._words = _words_by_part(self._split, self._split.sentences)
        flat = [word for words in self._words for word in words]
        self._word_parts = [_split_word(word, positions) for word in flat]
        self._word_texts = [text[word.start : word.end] for word in flat]
        parts = [part for word_parts in self._word_parts for part in word_parts]
        ends, starts = [part.end for part in parts], [part.start for part in parts]
        self._count = len(parts)
        for node in _flatten(nodes):
            node.first = bisect_right(ends, node.first)
            node.end = max(bisect_left(starts, node.end), node.first)

    @property
    def sentences(self) -> list[str]:
        """Sentences of the text, without tags."""
        return self._split.sentences

    @property
    def needs_alignment(self) -> list[int]:
        """Indices of the sentences with a tag between two of their words."""
        inner = [words and (words[0].start + 1, words[-1].start + 1) for words in self._words[1::2]]
        positions = self._positions
        return [
            number
            for number, span in enumerate(inner)
            if span and bisect_left(positions, span[1]) > bisect_left(positions, span[0])
        ]

    def join(
        self,
        sentences: Sequence[str],
        alignments: Mapping[int, WordAlignment],
        escape_text: Callable[[str], str] | None = None,
    ) -> str:
        """Return the markup with ``sentences`` in place of its own, and tags around the aligned words.

        Args:
            sentences: the new sentences.
            alignments: the word alignments by sentence index.
            escape_text: escapes text between tags; None for the default of the format.
        """
        text, words = self._split.join(sentences), _words_by_part(self._split, sentences)
        by_part = {2 * number + 1: alignment for number, alignment in alignments.items()}
        output_words, alignment = self._align_parts(text, words, by_part)
        inner = project_tags(self._nodes, self._count, alignment, text, output_words, escape_text or self._escape)
        return f"{self._edges[0]}{inner}{self._edges[1]}"

    def _escape(self, text: str) -> str:
        """Return ``text`` with the default escaping of the format."""
        return escape(text, self._markup)

    def _align_parts(
        self, text: str, words: Sequence[Sequence[WordSpan]], alignments: Mapping[int, WordAlignment]
    ) -> tuple[list[WordSpan], list[int]]:
        """Return the words of the output ``text``, and the part of a source word that each is aligned with.

        An unchanged word with tags inside it is split into parts, to keep its tags inside.
        """
        first_parts = [0, *accumulate(map(len, self._word_parts))]
        output_words: list[WordSpan] = []
        aligned: list[int] = []
        first = 0
        for number, (source_words, target_words) in enumerate(zip(self._words, words, strict=True)):
            alignment = alignments.get(number, ())
            if len(alignment) != len(target_words):
                alignment = even_alignment(len(source_words), len(target_words))
            for word, link in zip(target_words, alignment, strict=False):  # empty for a part without source words
                source = first + link
                parts, shift = self._word_parts[source], word.start - self._word_parts[source][0].start
                if text[word.start : word.end] == self._word_texts[source]:
                    output_words += [WordSpan(part.start + shift, part.end + shift) for part in parts]
                    aligned += range(first_parts[source], first_parts[source + 1])
                else:
                    output_words.append(word)
                    aligned.append(first_parts[source] + _longest(parts))
            first += len(source_words)
        return output_words, aligned


def _split_word(word: WordSpan, positions: Sequence[int]) -> list[WordSpan]:
    """Return the parts of a word between the tags inside it."""
    inside = sorted(set(positions[bisect_right(positions, word.start) : bisect_left(positions, word.end)]))
    return [WordSpan(*pair) for pair in pairwise([word.start, *inside, word.end])]


def _longest(words: Sequence[WordSpan]) -> int:
    """Return the index of the longest word."""
    return max(range(len(words)), key=lambda number: words[number].end - words[number].start)


def _words_by_part(split: SplitText, sentences: Sequence[str]) -> list[list[WordSpan]]:
    """Return the words of ``split.join(sentences)``, one list per part.

    The parts are the text before the first sentence, the first sentence, the text after it, and so on.
    """
    inner = [part for pair in zip(sentences, split.between[1:], strict=True) for part in pair]
    words, start = [], 0
    for part in [split.between[0], *inner]:
        words.append([WordSpan(start + word.start, start + word.end) for word in word_spans(part)])
        start += len(part)
    return words


def _flatten(nodes: Sequence[TagNode]) -> list[TagNode]:
    """Return the nodes and all their descendants."""
    return [descendant for node in nodes for descendant in (node, *_flatten(node.children))]


def parse_inline(
    tokens: Sequence[MarkupToken],
    markup: Markup,
    language: str | None,
    deadline: Deadline = NO_DEADLINE,
    *,
    verbatim: bool,
) -> str | InlineMarkup:
    """Return the document of tokens that form one block, or their unchanged text if it has no words.

    ``verbatim``: whether line ends are significant, as in ``pre``.
    """
    text = ""
    positions: list[int] = []
    levels: list[list[TagNode]] = [[]]
    unfinished: list[TagNode] = []  # nodes for which it is not known yet whether white space follows
    folds = markup.kind == "html" and not verbatim
    before, inner, after = _strip_edges(tokens)
    for token in _split_unknown_entities(inner, markup):
        deadline.check()
        if token.kind == "text":
            plain = unescape(token.raw, markup)
            for node in unfinished:
                node.touches = (node.touches[0], not plain[:1].isspace())
            unfinished = []
            plain = BLANKS.sub(_fold_line_end, plain) if folds else plain
            text += plain.lstrip(BLANK) if text.endswith(tuple(BLANK)) and not verbatim else plain
            continue
        positions.append(len(text))
        if token.kind == "close":
            levels.pop()
            levels[-1][-1].closing, levels[-1][-1].end = token.raw, len(text)
            continue
        node = TagNode(token.raw, None, len(text), len(text), (not text[-1:].isspace(), True))
        levels[-1].append(node)
        if token.kind == "open":
            levels.append(node.children)
        else:
            unfinished.append(node)
    if not word_spans(text):
        return "".join(token.raw for token in tokens)
    return InlineMarkup(text, (before, after), levels[0], positions, markup, language, deadline)


def _strip_edges(tokens: Sequence[MarkupToken]) -> tuple[str, list[MarkupToken], str]:
    """Return the white space before, the stripped tokens, and the white space after."""
    inner, first = list(tokens), tokens[0].raw
    before = first[: len(first) - len(first.lstrip(BLANK))]
    inner[0] = inner[0]._replace(raw=first[len(before) :])
    last = inner[-1].raw
    after = last[len(last.rstrip(BLANK)) :]
    inner[-1] = inner[-1]._replace(raw=last[: len(last) - len(after)])
    return before, inner, after


def _split_unknown_entities(tokens: Sequence[MarkupToken], markup: Markup) -> list[MarkupToken]:
    """Return the tokens; in XML, unknown entities become separate tokens, which stay unchanged."""
    if markup.kind != "xml":
        return list(tokens)
    parts = []
    for token in tokens:
        start = 0
        for entity in ENTITY.finditer(token.raw) if token.kind == "text" else ():
            if html.unescape(entity[0]) == entity[0]:
                parts += [MarkupToken("text", token.raw[start : entity.start()]), MarkupToken("raw", entity[0])]
                start = entity.end()
        parts.append(token._replace(raw=token.raw[start:]) if start else token)
    return [token for token in parts if token.raw]


def _fold_line_end(blanks: re.Match[str]) -> str:
    """Return a space for white space with a line end, which is equivalent in HTML; else the white space."""
    return " " if "\n" in blanks[0] or "\r" in blanks[0] else blanks[0]

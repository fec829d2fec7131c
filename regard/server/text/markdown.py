"""Documents in Markdown: blocks are located by their lines, and only their text is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markdown_it.token import Token

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.server.text.documents import CompositeDocument, Document
from regard.server.text.markdown_inline import PARSER, MarkdownInline
from regard.server.text.markup_document import MarkupDocument
from regard.server.text.markup_tokenizer import Markup
from regard.server.text.word_alignment import WordAlignment

FRONT_MATTER = re.compile(  # metadata of a file, in YAML or TOML
    r"\A\ufeff?(?:---[ \t]*\r?\n(?=[ \t]*(?:[\w\"'-]+[ \t]*:|#|---)).*?^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?^\+\+\+)"
    r"[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")  # same line counting as markdown-it
LONE_TAG = re.compile(r"[ \t]*<[^<>\r\n]*>[ \t]*(?:\r\n?|\n)")
HTML = Markup("html")


class SourceLine(NamedTuple):
    """Line of a text: its characters, its start in the text, and the line end."""

    text: str
    start: int
    ending: str


class Replacement(NamedTuple):
    """Part of a text, ``text[start:end]``, that a document replaces."""

    start: int
    end: int
    document: Document


def parse_markdown(text: str, language: str | None, deadline: Deadline = NO_DEADLINE) -> Document:
    """Return the document of a text in Markdown; ``language`` is the language code for sentence splitting.

    Paragraphs, headings, table cells and HTML blocks are translated; code, addresses and marks stay unchanged.
    """
    front_matter = FRONT_MATTER.match(text)
    begin = front_matter.end() if front_matter else 0
    lines = [SourceLine(match[1], match.start(), match[2]) for match in LINE.finditer(text, begin)]
    env: dict[str, Any] = {"deadline": deadline}
    parts: list[str | Document] = []
    end = 0
    for replacement in _replacements(PARSER.parse(text[begin:], env), lines, env, language):
        if replacement.start >= end:
            parts += [text[end : replacement.start], replacement.document]
            end = replacement.end
    return CompositeDocument([*parts, text[end:]])


def _replacements(
    tokens: Sequence[Token], lines: Sequence[SourceLine], env: dict[str, Any], language: str | None
) -> Iterator[Replacement]:
    """Yield the parts of the text to replace; a block whose lines cannot be located stays unchanged."""
    row, column = -1, 0  # line and column where the last cell of a table ended
    for number, token in enumerate(tokens):
        env["deadline"].check()
        if token.map is None or not token.content:
            continue
        first, last = token.map
        if token.type == "html_block":
            yield from _html_block(token, lines[first:last], language)
        elif token.type == "inline":
            before = tokens[number - 1].type
            cell = before in ("th_open", "td_open")
            if cell:
                column = column if row == first else 0
                row, spans = first, _cell_span(token.content, lines[first], column)
                column = spans[-1][1] if spans else column
            else:
                row, spans = -1, _line_spans(token.content, lines[first:last])
            if spans:
                block = lines[first : first + len(spans)]
                breaks = _breaks(block, spans)
                inline = MarkdownInline(token, breaks, env, language, paragraph=before == "paragraph_open", cell=cell)
                yield Replacement(block[0].start + spans[0][0], block[-1].start + spans[-1][1], inline)


def _html_block(token: Token, lines: Sequence[SourceLine], language: str | None) -> Iterator[Replacement]:
    """Yield a block of HTML, unless it is inside another block, whose marks are in its lines."""
    start, end = lines[0].start, lines[-1].start + len(lines[-1].text)
    if "\n".join(line.text for line in lines).strip() == token.content.strip():
        whole = "".join(line.text + line.ending for line in lines)[: end - start]
        yield Replacement(start, end, _HtmlBlock(whole, language))


class _HtmlBlock(MarkupDocument):
    """Block of HTML in Markdown; a tag alone on the first line stays there, or the block would become a paragraph."""

    def __init__(self, text: str, language: str | None) -> None:
        super().__init__(text, HTML, language)
        self._indent = text[: len(text) - len(text.lstrip(" \t"))]
        opening = LONE_TAG.match(text)
        self._opening = opening[0] if opening else ""

    def join(self, sentences: Sequence[str], alignments: Mapping[int, WordAlignment]) -> str:
        text = self._indent + super().join(sentences, alignments).lstrip(
            " \t"
        )  # more white space would make a code block
        before, tag, after = text.partition(self._opening.strip() or text)
        if not self._opening or not tag or before.strip() or text.startswith(self._opening):
            return text
        return self._opening + after.lstrip()


def _cell_span(content: str, line: SourceLine, column: int) -> list[tuple[int, int]]:
    """Return the span of a cell in its line after ``column``; an empty list if it is not found."""
    raw = content.replace("|", "\\|")
    start = line.text.find(raw, column)
    return [(start, start + len(raw))] if start >= 0 else []


def _line_spans(content: str, lines: Sequence[SourceLine]) -> list[tuple[int, int]]:
    """Return the span of each line of ``content`` in its line of the text; an empty list if one is not found."""
    spans = []
    for text, line in zip(content.split("\n"), lines, strict=False):
        core = text.strip()
        start = line.text.rfind(core)
        if start < 0:
            return []
        spans.append((start, start + len(core)))
    return spans if len(spans) == content.count("\n") + 1 else []


def _breaks(lines: Sequence[SourceLine], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the strings between the lines of a block: the line end, and the marks before the text of the next line."""
    return [
        line.ending + after.text[:start] for line, after, (start, _) in zip(lines, lines[1:], spans[1:], strict=False)
    ]

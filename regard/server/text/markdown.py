"""Markdown as sentences and all else: blocks are found by their lines, and only the text in them is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from markdown_it.token import Token as Found

from regard.server.text.documents import Document, Parted
from regard.server.text.markdown_inline import PARSER, Inline
from regard.server.text.markup_document import Marked
from regard.server.text.markup_tokenizer import Markup

__all__ = ["markdown"]

FRONT = re.compile(  # what a file says of itself, in YAML or TOML
    r"\A\ufeff?(?:---[ \t]*\r?\n(?=[ \t]*(?:[\w\"'-]+[ \t]*:|#|---)).*?^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?^\+\+\+)"
    r"[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")  # as the parser counts them
HTML = Markup("html")


class Line(NamedTuple):
    """``text[start:end]``, and what it ends with."""

    text: str
    start: int
    ending: str


def markdown(text: str, language: str | None) -> Document:
    """Paragraphs, headings, cells and blocks of HTML are translated; code, addresses and the marks stay."""
    front = FRONT.match(text)
    begin = front.end() if front else 0
    lines = [Line(found[1], found.start(), found[2]) for found in LINE.finditer(text, begin)]
    env: dict[str, Any] = {}
    parts: list[str | Document] = []
    at = 0
    for start, end, document in _replaced(PARSER.parse(text[begin:], env), lines, env, language):
        if start >= at:
            parts += [text[at:start], document]
            at = end
    return Parted([*parts, text[at:]])


def _replaced(
    tokens: Sequence[Found], lines: Sequence[Line], env: dict[str, Any], language: str | None
) -> Iterator[tuple[int, int, Document]]:
    """From where to where in the text what stands. What is not found as it was read stays as it is."""
    row, column = -1, 0  # of the last cell, where it ended
    for number, token in enumerate(tokens):
        if token.map is None or not token.content:
            continue
        first, last = token.map
        if token.type == "html_block":
            start, end = lines[first].start, lines[last - 1].start + len(lines[last - 1].text)
            shown = "\n".join(line.text for line in lines[first:last])
            if shown.strip() == token.content.strip():  # it is in no other block
                whole = "".join(line.text + line.ending for line in lines[first:last])[: end - start]
                yield start, end, Marked(whole, HTML, language)
        elif token.type == "inline":
            before = tokens[number - 1].type
            cell = before in ("th_open", "td_open")
            if not cell:
                row, places = -1, _places(token.content, lines[first:last])
            else:
                raw = token.content.replace("|", "\\|")
                column = column if row == first else 0
                row, found = first, lines[first].text.find(raw, column)
                places = [(found, found + len(raw))] if found >= 0 else []
                column = places[-1][1] if places else column
            if places:
                breaks = [
                    line.ending + after.text[:start]
                    for line, after, (start, _) in zip(lines[first:], lines[first + 1 :], places[1:], strict=False)
                ]
                inline = Inline(token, breaks, env, language, paragraph=before == "paragraph_open", cell=cell)
                yield lines[first].start + places[0][0], lines[first + len(places) - 1].start + places[-1][1], inline


def _places(content: str, lines: Sequence[Line]) -> list[tuple[int, int]]:
    """From where to where in its line each line of the content stands; none where one is not found."""
    found = []
    for text, line in zip(content.split("\n"), lines, strict=False):
        core = text.strip()
        start = line.text.rfind(core)
        if start < 0:
            return []
        found.append((start, start + len(core)))
    return found if len(found) == content.count("\n") + 1 else []

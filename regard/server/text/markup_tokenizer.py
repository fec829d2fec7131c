"""Tokenizer of HTML and XML: one pass over any text, without resolving entities or fetching addresses."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

TokenKind = Literal["text", "open", "close", "empty", "raw"]
TAG_START = re.compile(r"</?(?:[A-Za-z_][^\s/<>]*|[0-9]+(?=\s*/?>))|<!--|<!\[CDATA\[|<[!?](?=[A-Za-z\[])")
CLOSINGS = {"<!--": "-->", "<![CDATA[": "]]>"}
QUOTE_OR_END = re.compile("[\"'>]")
VOID_ELEMENTS = frozenset("area base br col embed hr img input link meta param source track wbr".split())
MAX_DEPTH = 64  # maximum depth of nested tags in HTML, XML and Markdown; deeper tags split the text
RAW_TEXT_ELEMENTS = ("script", "style")
ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)


class Markup(NamedTuple):
    """Format of a text, and element names with special treatment.

    Attributes:
        kind: the format.
        ignore: elements whose content is not translated.
        splitting: elements that split a text like a paragraph.
        non_splitting: elements that never split a text.
        outline: in XML, whether elements without text next to them split the text.
    """

    kind: Literal["html", "xml", "markdown"]
    ignore: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True

    @classmethod
    def create(
        cls, kind: Literal["html", "xml", "markdown"], ignore: Collection[str] = (), splitting: Collection[str] = (),
        non_splitting: Collection[str] = (), *, outline: bool = True,
    ) -> Markup:  # fmt: skip
        """Return a Markup with the names of HTML elements in lower case. The arguments are the fields of the class."""
        first, second, third = (
            frozenset(name.lower() if kind == "html" else name for name in names)
            for names in (ignore, splitting, non_splitting)
        )
        return cls(kind, first, second, third, outline)


class MarkupToken(NamedTuple):
    """Token of a text with tags.

    Attributes:
        kind: the type of the token.
        raw: the unchanged source text of the token.
        name: the element name of a tag.
        partner: the index of the token that closes or opens a tag, if any.
    """

    kind: TokenKind
    raw: str
    name: str = ""
    partner: int | None = None


def tokenize_markup(text: str, markup: Markup) -> list[MarkupToken]:
    """Return the tokens of ``text``; their ``raw`` texts join to ``text``.

    An untranslated element with its content is one token of kind ``raw``.
    """
    matched = _match_tags(_split_tokens(text, markup))
    tokens: list[MarkupToken] = []
    index = 0
    while index < len(matched):
        token = matched[index]
        untranslated = token.name in markup.ignore or UNTRANSLATED.search(token.raw)
        if token.kind == "open" and token.partner is not None and untranslated:
            tokens.append(MarkupToken("raw", "".join(inner.raw for inner in matched[index : token.partner + 1])))
            index = token.partner
        else:
            tokens.append(token)
        index += 1
    return _match_tags(tokens)


def _split_tokens(text: str, markup: Markup) -> list[MarkupToken]:
    """Return the tokens of ``text``, tags without their partners."""
    tokens: list[MarkupToken] = []
    last = {character: text.rfind(character) for character in "\"'>"}  # bounds of searches, which keep the pass linear
    position = 0
    while start := TAG_START.search(text, position):
        end = _tag_end(text, start, last)
        if end < 0:
            break
        if start.start() > position:
            tokens.append(MarkupToken("text", text[position : start.start()]))
        raw, position = text[start.start() : end], end
        if start[0].startswith(("<!", "<?")):
            tokens.append(MarkupToken("raw", raw))
            continue
        name = start[0].strip("</")
        name = name.lower() if markup.kind == "html" else name
        if start[0].startswith("</"):
            tokens.append(MarkupToken("close", raw, name))
            continue
        empty = raw.endswith("/>") or (markup.kind == "html" and name in VOID_ELEMENTS)
        if markup.kind == "html" and name in RAW_TEXT_ELEMENTS and not empty:
            closing = (
                re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE).search(text, position)
                if position <= last[">"]
                else None
            )
            position = closing.end() if closing else len(text)
            tokens.append(MarkupToken("raw", raw + text[end:position], name))
            continue
        tokens.append(MarkupToken("empty" if empty else "open", raw, name))
    if position < len(text):
        tokens.append(MarkupToken("text", text[position:]))
    return tokens


def _tag_end(text: str, start: re.Match[str], last: dict[str, int]) -> int:
    """Return the position after a tag, that is, after the first > outside quotation marks; −1 if it never ends.

    ``last`` has the last position of each quotation mark and of > in ``text``.
    """
    if start[0] in CLOSINGS:
        closing = text.find(CLOSINGS[start[0]], start.end())
        return closing + 3 if closing >= 0 else len(text)
    position = start.end()
    while position <= last[">"]:
        character = QUOTE_OR_END.search(text, position)
        assert character is not None  # at least the last > follows
        if character[0] == ">":
            return character.end()
        if character.start() >= last[character[0]]:  # an unclosed quotation mark is ignored
            return text.find(">", character.end()) + 1
        position = text.find(character[0], character.end()) + 1
    return text.find(">", start.end()) + 1 if start.end() <= last[">"] else -1


def _match_tags(tokens: Sequence[MarkupToken]) -> list[MarkupToken]:
    """Return the tokens with their partners. An unclosed element stays unmatched and ends with its parent."""
    partners: dict[int, int] = {}
    open: list[int] = []
    names: Counter[str] = Counter()
    for number, token in enumerate(tokens):
        if token.kind == "open":
            open.append(number)
            names[token.name] += 1
        elif token.kind == "close" and names[token.name]:
            while True:
                last = open.pop()
                names[tokens[last].name] -= 1
                if tokens[last].name == token.name:
                    break
            partners[last], partners[number] = number, last
    return [token._replace(partner=partners.get(number)) for number, token in enumerate(tokens)]


def pair_depths(tokens: Sequence[MarkupToken]) -> list[int]:
    """Return the number of pairs of tags around each token."""
    depths, depth = [], 0
    for token in tokens:
        if token.kind == "close" and token.partner is not None:
            depth -= 1
        depths.append(depth)
        if token.kind == "open" and token.partner is not None:
            depth += 1
    return depths


def unescape(text: str, markup: Markup) -> str:
    """Replace known entities in the text of a token; tokens of Markdown do not contain entities."""
    if markup.kind == "markdown":
        return text
    return html.unescape(text) if markup.kind == "html" else ENTITY.sub(lambda match: html.unescape(match[0]), text)


def escape(text: str, markup: Markup) -> str:
    """Replace characters that are not allowed between tags by entities; texts of Markdown stay unchanged."""
    if markup.kind == "markdown":
        return text
    plain = html.escape(text, quote=False)
    return plain.replace("\N{NO-BREAK SPACE}", "&nbsp;") if markup.kind == "html" else plain


def strip_tags(text: str) -> str:
    """Replace tags by spaces: an approximation of the visible text, to identify its language."""
    return re.sub(r"<[^<>]*>", " ", text)

"""Tokenizer of HTML and XML: one pass over any text; no entity or address is resolved or fetched."""

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
MAX_DEPTH = 64  # pairs of tags inside each other, in HTML, XML and Markdown; tags inside of more split the text
RAW_TEXT_ELEMENTS = ("script", "style")
ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)


class Markup(NamedTuple):
    """Format of a text, and element names with a special treatment.

    ``ignore``: elements whose content is not translated. ``splitting``: elements that split a text like a paragraph.
    ``non_splitting``: elements that never do.
    """

    kind: Literal["html", "xml", "markdown"]
    ignore: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True  # in XML: elements with no text beside them split the text

    @classmethod
    def create(
        cls, kind: Literal["html", "xml", "markdown"], ignore: Collection[str] = (), splitting: Collection[str] = (),
        non_splitting: Collection[str] = (), *, outline: bool = True,
    ) -> Markup:  # fmt: skip
        """Return a Markup; names of HTML elements are lower-cased. The arguments are the fields of the class."""
        first, second, third = (
            frozenset(name.lower() if kind == "html" else name for name in names)
            for names in (ignore, splitting, non_splitting)
        )
        return cls(kind, first, second, third, outline)


class MarkupToken(NamedTuple):
    """Part of a text with tags.

    ``raw``: the part as it stands. ``name``: the element of a tag. ``partner``: for a tag, the number of the token that
    closes or opens it, if any.
    """

    kind: TokenKind
    raw: str
    name: str = ""
    partner: int | None = None


def tokenize_markup(text: str, markup: Markup) -> list[MarkupToken]:
    """Return the tokens of ``text``, whose ``raw`` join to it.

    An untranslated element is one token of kind ``raw``, with its content.
    """
    found = _match_tags(_split_tokens(text, markup))
    tokens: list[MarkupToken] = []
    at = 0
    while at < len(found):
        token = found[at]
        untranslated = token.name in markup.ignore or UNTRANSLATED.search(token.raw)
        if token.kind == "open" and token.partner is not None and untranslated:
            tokens.append(MarkupToken("raw", "".join(each.raw for each in found[at : token.partner + 1])))
            at = token.partner
        else:
            tokens.append(token)
        at += 1
    return _match_tags(tokens)


def _split_tokens(text: str, markup: Markup) -> list[MarkupToken]:
    """Return the tokens of ``text``, tags without their partners."""
    found: list[MarkupToken] = []
    last = {character: text.rfind(character) for character in "\"'>"}  # bounds for searches: keeps the pass linear
    at = 0
    while start := TAG_START.search(text, at):
        end = _tag_end(text, start, last)
        if end < 0:
            break
        if start.start() > at:
            found.append(MarkupToken("text", text[at : start.start()]))
        raw, at = text[start.start() : end], end
        if start[0].startswith(("<!", "<?")):
            found.append(MarkupToken("raw", raw))
            continue
        name = start[0].strip("</")
        name = name.lower() if markup.kind == "html" else name
        if start[0].startswith("</"):
            found.append(MarkupToken("close", raw, name))
            continue
        empty = raw.endswith("/>") or (markup.kind == "html" and name in VOID_ELEMENTS)
        if markup.kind == "html" and name in RAW_TEXT_ELEMENTS and not empty:
            closing = re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE).search(text, at) if at <= last[">"] else None
            at = closing.end() if closing else len(text)
            found.append(MarkupToken("raw", raw + text[end:at], name))
            continue
        found.append(MarkupToken("empty" if empty else "open", raw, name))
    if at < len(text):
        found.append(MarkupToken("text", text[at:]))
    return found


def _tag_end(text: str, start: re.Match[str], last: dict[str, int]) -> int:
    """Return the position after a tag: that of the first > outside quotation marks; −1 if it never ends.

    ``last``: the last position of each quotation mark and of > in ``text``.
    """
    if start[0] in CLOSINGS:
        closing = text.find(CLOSINGS[start[0]], start.end())
        return closing + 3 if closing >= 0 else len(text)
    at = start.end()
    while at <= last[">"]:
        character = QUOTE_OR_END.search(text, at)
        assert character is not None  # at least the last > is ahead
        if character[0] == ">":
            return character.end()
        if character.start() >= last[character[0]]:  # a quotation mark that is never closed has no meaning
            return text.find(">", character.end()) + 1
        at = text.find(character[0], character.end()) + 1
    return text.find(">", start.end()) + 1 if start.end() <= last[">"] else -1


def _match_tags(tokens: Sequence[MarkupToken]) -> list[MarkupToken]:
    """Return the tokens with partners. An element left open ends, unmatched, with the element around it."""
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
    """Return for each token the number of pairs of tags around it."""
    depths, depth = [], 0
    for token in tokens:
        if token.kind == "close" and token.partner is not None:
            depth -= 1
        depths.append(depth)
        if token.kind == "open" and token.partner is not None:
            depth += 1
    return depths


def unescape(text: str, markup: Markup) -> str:
    """Replace known entities in the text of a token; tokens of Markdown hold none."""
    if markup.kind == "markdown":
        return text
    return html.unescape(text) if markup.kind == "html" else ENTITY.sub(lambda found: html.unescape(found[0]), text)


def escape(text: str, markup: Markup) -> str:
    """Replace characters that cannot stand between tags by entities; texts of Markdown stay."""
    if markup.kind == "markdown":
        return text
    plain = html.escape(text, quote=False)
    return plain.replace("\N{NO-BREAK SPACE}", "&nbsp;") if markup.kind == "html" else plain


def strip_tags(text: str) -> str:
    """Replace tags by spaces: an approximation of the visible text, for identifying its language."""
    return re.sub(r"<[^<>]*>", " ", text)

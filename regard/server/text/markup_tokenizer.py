"""HTML and XML as tokens, in one pass over whatever a client sends: nothing is refused, resolved or fetched."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

__all__ = ["Kind", "Markup", "Token", "decoded", "escaped", "scan", "without_tags"]

Kind = Literal["text", "open", "close", "empty", "raw"]
START = re.compile(r"</?(?:[A-Za-z_][^\s/<>]*|[0-9]+(?=\s*/?>))|<!--|<!\[CDATA\[|<[!?](?=[A-Za-z\[])")
ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
SPECIAL = re.compile("[\"'>]")
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
VERBATIM = ("script", "style")
ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)


class Markup(NamedTuple):
    """What a text is read as; names of elements whose content stays, that part a text, and that do not."""

    kind: Literal["html", "xml", "markdown"]
    ignore: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True  # in XML, elements that stand where there is no text part it

    @classmethod
    def of(
        cls, kind: Literal["html", "xml", "markdown"], ignore: Collection[str] = (), splitting: Collection[str] = (),
        non_splitting: Collection[str] = (), *, outline: bool = True,
    ) -> Markup:  # fmt: skip
        """In HTML the case of names does not matter."""
        first, second, third = (
            frozenset(name.lower() if kind == "html" else name for name in names)
            for names in (ignore, splitting, non_splitting)
        )
        return cls(kind, first, second, third, outline)


class Token(NamedTuple):
    """A piece of a marked text; ``partner`` of a tag is the number of that which closes or opens it, if one does."""

    kind: Kind
    raw: str
    name: str = ""
    partner: int | None = None


def scan(text: str, markup: Markup) -> list[Token]:
    """Tokens whose ``raw`` are the text. What stays as it is, with all that is in it, is one token."""
    found = _matched(list(_tokens(text, markup)))
    tokens: list[Token] = []
    at = 0
    while at < len(found):
        token = found[at]
        stays = token.name in markup.ignore or UNTRANSLATED.search(token.raw)
        if token.kind == "open" and token.partner is not None and stays:
            tokens.append(Token("raw", "".join(each.raw for each in found[at : token.partner + 1])))
            at = token.partner
        else:
            tokens.append(token)
        at += 1
    return _matched(tokens)


def _tokens(text: str, markup: Markup) -> list[Token]:
    found: list[Token] = []
    last = {sign: text.rfind(sign) for sign in "\"'>"}  # beyond which no search has to look
    at = 0
    while start := START.search(text, at):
        end = _end(text, start, last)
        if end < 0:
            break
        if start.start() > at:
            found.append(Token("text", text[at : start.start()]))
        raw, at = text[start.start() : end], end
        if start[0].startswith(("<!", "<?")):
            found.append(Token("raw", raw))
            continue
        name = start[0].strip("</")
        name = name.lower() if markup.kind == "html" else name
        if start[0].startswith("</"):
            found.append(Token("close", raw, name))
            continue
        single = raw.endswith("/>") or (markup.kind == "html" and name in VOID)
        if markup.kind == "html" and name in VERBATIM and not single:
            closing = re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE).search(text, at) if at <= last[">"] else None
            at = closing.end() if closing else len(text)
            found.append(Token("raw", raw + text[end:at], name))
            continue
        found.append(Token("empty" if single else "open", raw, name))
    if at < len(text):
        found.append(Token("text", text[at:]))
    return found


def _end(text: str, start: re.Match[str], last: dict[str, int]) -> int:
    """Where a tag ends: at the first > outside quotation marks; −1 where it does not."""
    if start[0] in ENDS:
        found = text.find(ENDS[start[0]], start.end())
        return found + 3 if found >= 0 else len(text)
    at = start.end()
    while at <= last[">"]:
        sign = SPECIAL.search(text, at)
        assert sign is not None  # the last > at the latest
        if sign[0] == ">":
            return sign.end()
        if sign.start() >= last[sign[0]]:  # never closed: it means nothing
            return text.find(">", sign.end()) + 1
        at = text.find(sign[0], sign.end()) + 1
    return text.find(">", start.end()) + 1 if start.end() <= last[">"] else -1


def _matched(tokens: Sequence[Token]) -> list[Token]:
    """With the partners of those tags that have one. An element left open ends, unmatched, with the one around it."""
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


def decoded(text: str, markup: Markup) -> str:
    """Without entities; those that nobody knows stay. Tokens of Markdown have none."""
    if markup.kind == "markdown":
        return text
    return html.unescape(text) if markup.kind == "html" else ENTITY.sub(lambda found: html.unescape(found[0]), text)


def escaped(text: str, markup: Markup) -> str:
    """As it may stand between tags."""
    if markup.kind == "markdown":
        return text
    plain = html.escape(text, quote=False)
    return plain.replace("\N{NO-BREAK SPACE}", "&nbsp;") if markup.kind == "html" else plain


def without_tags(text: str) -> str:
    """About what a reader sees, for finding out its language."""
    return re.sub(r"<[^<>]*>", " ", text)

"""What stands inside a paragraph, a heading or a cell of Markdown: text, and the marks around and between it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from markdown_it import MarkdownIt, rules_block, rules_inline
from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as Found

from regard.server.text.documents import Document, Parted
from regard.server.text.inline_markup import Stretch, stretch
from regard.server.text.markup_tokenizer import VOID, Kind, Markup, Token
from regard.server.text.word_alignment import Links

__all__ = ["PARSER", "Inline"]

MARKUP = Markup("markdown")
FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
SPECIAL = re.compile(r"[\\`*_\[\]<>&~]")
ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]|&#?\w+;")  # which a reader would see otherwise
FIRST = re.compile(r"^([-+#=]|\d{1,9}(?=[.)]))", re.MULTILINE)  # of a line, and part of a mark of blocks there
VERBATIM = ("code_inline", "html_inline", "footnote")


def _parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; tokens of links, images and code tell where they stand."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name in ("newline", "escape", "autolink", "image", "link"):
        parser.inline.ruler.at(name, _spanned(getattr(rules_inline, name)))
    parser.inline.ruler.at("backticks", _spanned(rules_inline.backtick))
    parser.inline.ruler.before("link", "footnote", _spanned(_footnote))
    parser.block.ruler.at("reference", _reference)
    for ruler in (parser.core.ruler, parser.block.ruler, parser.inline.ruler, parser.inline.ruler2):
        ruler.getRules("")  # made ready by the first who asks, which two threads must not be at once
    return parser


def _spanned(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """The rule, with ``span`` in what it finds; and of a link where its text ends."""

    def spanned(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            new = state.tokens[count:]
            for token in new:
                token.meta.setdefault("span", (start, state.pos))
            if rule is rules_inline.link:
                end = parseLinkLabel(state, start, True)
                for token in new:
                    token.meta.setdefault("label", (start + 1, end))
        return True

    return spanned


def _footnote(state: StateInline, silent: bool) -> bool:
    """``[^1]``, which is no link."""
    found = FOOTNOTE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("footnote", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _reference(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``[^1]: text`` defines no link."""
    if state.src.startswith("[^", state.bMarks[line] + state.tShift[line]):
        return False
    return rules_block.reference(state, line, end, silent)


class Inline(Parted):
    """One inline token of ``parser``.

    ``breaks``: what stands between a line of it and the next, the end of a line and what the next begins with.
    ``paragraph``: it has to stay one; ``cell``: bars are no ends of it.
    """

    def __init__(
        self, found: Found, breaks: Sequence[str], env: Mapping[str, Any], language: str | None, *, paragraph: bool,
        cell: bool,
    ) -> None:  # fmt: skip
        self._source, self._children, self._breaks, self._env = found.content, found.children or [], breaks, env
        self._paragraph, self._cell = paragraph, cell
        super().__init__(_parts(found.content, self._children, language))

    def joined(self, sentences: Sequence[str], links: Mapping[int, Links]) -> str:
        """With backslashes where a sign would else be read as a mark."""
        sentences = [sentence.replace("\n", " ") for sentence in sentences]
        text = self._said(sentences, links, str)
        texts = [*sentences, *(child.content for child in self._children if child.type == "text")]
        if any(map(ESCAPED.search, texts)) or not self._alike(text):
            text = FIRST.sub(_escaped_first, self._said(sentences, links, _escaped))
        lines, breaks = text.split("\n"), self._hard_breaks()
        whole = lines[0] + "".join(f"{before}{line}" for before, line in zip(breaks, lines[1:], strict=True))
        return whole.replace("|", "\\|") if self._cell else whole

    def _said(self, sentences: Sequence[str], links: Mapping[int, Links], escape: Callable[[str], str]) -> str:
        parts, at = [], 0
        for part in self._parts:
            if not isinstance(part, Stretch):
                parts.append(str(part))
                continue
            end = at + len(part.sentences)
            its = {n - at: links[n] for n in range(at, end) if n in links}
            parts.append(part.joined(sentences[at:end], its, escape))
            at = end
        return "".join(parts)

    def _hard_breaks(self) -> list[str]:
        """Other lines are joined."""
        places = [child.meta["span"][0] for child in self._children if child.type == "hardbreak"]
        return [self._breaks[self._source.count("\n", 0, place)] for place in places]

    def _alike(self, text: str) -> bool:
        """Whether it is read as marks like those of the source."""
        env = {"references": dict(self._env.get("references", {}))}
        if not self._paragraph:
            return _marks(PARSER.parseInline(text, env)[0].children or []) == _marks(self._children)
        tokens = PARSER.parse(text, env)
        if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
            return not text.strip()
        return _marks(tokens[1].children or []) == _marks(self._children)


def _marks(children: Sequence[Found]) -> list[tuple[str, str, str]]:
    """All that is no text, in whatever order."""
    return sorted(
        (each.type, " ".join(each.content.split()) if each.type in VERBATIM else "", repr(sorted(each.attrs.items())))
        for each in children
        if each.type not in ("text", "softbreak")
    )


def _parts(source: str, children: Sequence[Found], language: str | None) -> list[str | Document]:
    """Stretches, and between them what parts them."""
    tokens, parting = _tokens(source, children)
    before = [0, *accumulate(parting)]
    parts: list[str | Document] = []
    begin = 0
    for number in range(len(tokens) + 1):
        if number < len(tokens):
            first, last = sorted((number, number if (pair := tokens[number].partner) is None else pair))
            if before[last + 1] == before[first]:  # neither it nor what is in it parts
                continue
        if begin < number:
            parts.append(_stretch(tokens[begin:number], language))
        if number < len(tokens):
            token = tokens[number]
            parts.append(_stretch([token], language) if token.kind == "text" else token.raw)
        begin = number + 1
    return parts


def _stretch(tokens: Sequence[Token], language: str | None) -> str | Document:
    found = stretch(tokens, MARKUP, language, verbatim=False)
    if not isinstance(found, str):
        return found
    return "".join(_escaped(token.raw) if token.kind == "text" else token.raw for token in tokens)


def _tokens(source: str, children: Sequence[Found]) -> tuple[list[Token], list[bool]]:
    """Text as it is read, marks as they are written; and which of them part the text: hard breaks, tags without a
    partner, and, where there is no other text, images, whose description is text then.
    """
    alone = not any(child.type == "text" and any(map(str.isalnum, child.content)) for child in children)
    found = _Tokens()
    automatic = False
    for child in children:
        if automatic:  # the inside of <https://…>, which is one thing
            automatic = child.type != "link_close"
        elif child.markup == "autolink":
            automatic = True
            found.add("empty", _raw(source, child))
        elif child.type in ("text", "softbreak"):
            found.add("text", child.content or " " * (child.type == "softbreak"))
        elif child.type == "hardbreak":
            found.add("raw", "\\\n" if source[child.meta["span"][0]] == "\\" else "  \n", parts=True)
        elif child.type == "image" and alone and child.content:
            before, after = _around(source, child)
            found.add("empty", before, parts=True)
            found.add("text", _plain(child), parts=True)
            found.add("empty", after, parts=True)
        elif child.nesting == 1:
            found.open(child.type, "[" if child.type == "link_open" else child.markup)
        elif child.nesting == -1:
            raw = _around(source, child)[1] if child.type == "link_close" else child.markup
            found.close(child.type.replace("_close", "_open"), raw)
        elif child.type == "html_inline":
            found.tag(child.content)
        else:
            found.add("empty", _raw(source, child))
    for number, _ in found.waiting:
        found.parting[number] = True
    return found.tokens, found.parting


class _Tokens:
    """Tokens as they come; ``parting`` says of each whether it parts the text, ``waiting`` what is open."""

    def __init__(self) -> None:
        self.tokens: list[Token] = []
        self.parting: list[bool] = []
        self.waiting: list[tuple[int, str]] = []

    def add(self, kind: Kind, raw: str, *, parts: bool = False) -> None:
        self.tokens.append(Token(kind, raw if kind == "raw" else raw.replace("\n", " ")))
        self.parting.append(parts)

    def open(self, name: str, raw: str) -> None:
        self.waiting.append((len(self.tokens), name))
        self.add("open", raw)

    def close(self, name: str, raw: str) -> None:
        """The innermost open one of this name; what was opened in it and never closed parts."""
        self.add("close", raw)
        last = len(self.tokens) - 1
        while self.waiting:
            number, its = self.waiting.pop()
            if its == name:
                self.tokens[number] = self.tokens[number]._replace(partner=last)
                self.tokens[last] = self.tokens[last]._replace(partner=number)
                return
            self.parting[number] = True

    def tag(self, raw: str) -> None:
        """Of HTML. One that closes nothing, or what a mark of Markdown would cross, parts."""
        kind, name = _tag(raw)
        if kind == "open":
            self.open(name, raw)
        elif kind == "close" and _reachable(self.waiting, name):
            self.close(name, raw)
        else:
            self.add(kind, raw, parts=kind == "close" or name == "<br")


def _tag(raw: str) -> tuple[Kind, str]:
    """Of a tag of HTML; comments and the like enclose nothing."""
    found = TAG.match(raw)
    name = f"<{found[2].lower()}" if found else ""
    if found and found[1]:
        return "close", name
    return ("empty" if not found or raw.endswith("/>") or name[1:] in VOID else "open"), name


def _reachable(open: Sequence[tuple[int, str]], name: str) -> bool:
    """Whether a tag of this name is open and no mark of Markdown is within it: those are never crossed."""
    within = takewhile(lambda each: each.startswith("<"), (its for _, its in reversed(open)))
    return name in within


def _raw(source: str, child: Found) -> str:
    start, end = child.meta.get("span", (0, 0))
    return source[start:end] if child.type != "html_inline" else child.content


def _around(source: str, child: Found) -> tuple[str, str]:
    """What is before and after the text of a link or an image. A link by its text names that, since it will change."""
    start, end = child.meta["span"]
    first, last = (start + 2, start + 2 + len(child.content)) if child.type == "image" else child.meta["label"]
    after = source[last:end]
    return source[start:first], f"][{source[first:last]}]" if after in ("]", "][]") else after


def _plain(image: Found) -> str:
    return "".join(child.content or " " for child in image.children or [] if child.nesting == 0)


def _escaped_first(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}"


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)


PARSER = _parser()

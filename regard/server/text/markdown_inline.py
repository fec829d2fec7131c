"""Inline Markdown: the text of a paragraph, a heading or a table cell, with its marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any

from markdown_it import MarkdownIt, rules_block, rules_inline
from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from regard.server.text.documents import CompositeDocument
from regard.server.text.inline_markup import InlineMarkup, parse_inline
from regard.server.text.markup_tokenizer import MAX_DEPTH, VOID_ELEMENTS, Markup, MarkupToken, TokenKind, pair_depths
from regard.server.text.word_alignment import WordAlignment

MARKUP = Markup("markdown")
FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]:?")
TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
SPECIAL = re.compile(r"[\\`*_\[\]<>&~]")
ESCAPED = re.compile(
    r"\\[!-/:-@\[-`{-~]|&#?\w+;"
)  # text that Markdown would show without the backslash, or as an entity
LINE_START = re.compile(r"^([-+#=]|\d{1,9}(?=[.)]))", re.MULTILINE)  # start of a line that would begin a block
LIST_START = re.compile(r"\A(\d*)([-+*.)#>=])")  # start of a paragraph that would begin a block
DELIMITERS = frozenset("|-: \t>\n")  # characters of the line between the header and the rows of a table
MISSING_CELLS = 1_000  # maximum number of missing cells in a table, plus three times the number of written cells
VERBATIM_TYPES = ("code_inline", "html_inline", "footnote")


def _parser() -> MarkdownIt:
    """Return a parser of CommonMark with tables, strikethrough and footnotes, whose tokens record their positions."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name in ("newline", "escape", "autolink", "image", "link"):
        parser.inline.ruler.at(name, _record_span(getattr(rules_inline, name)))
    parser.inline.ruler.at("backticks", _record_span(rules_inline.backtick))
    parser.inline.ruler.before("link", "footnote", _record_span(_footnote))
    parser.block.ruler.at("reference", _reference)
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("code", "deadline", _check_deadline)
    parser.inline.ruler.before("text", "deadline", _check_deadline)
    for ruler in (parser.core.ruler, parser.block.ruler, parser.inline.ruler, parser.inline.ruler2):
        ruler.getRules("")  # compile the rules now, because two threads must not compile them at the same time
    return parser


def _record_span(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Wrap a rule to record the characters (start, end) of its tokens as ``span``, and of link texts as ``label``."""

    def recording(state: StateInline, silent: bool) -> bool:
        """Apply the rule and record the positions of its tokens."""
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

    return recording


def _footnote(state: StateInline, silent: bool) -> bool:
    """Parse ``[^1]`` as a footnote, before it is parsed as a link."""
    match = FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("footnote", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _check_deadline(state: StateBlock | StateInline, *_: object) -> bool:
    """Raise DeadlineExceeded if the time of the request is over; a rule that never matches."""
    if (deadline := state.env.get("deadline")) is not None:
        deadline.check()
    return False


def _table(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Parse a table, unless most of its cells are missing: each line would be filled up with empty cells."""
    if not silent and line + 1 < end:
        delimiters = state.getLines(line + 1, line + 2, 0, False)
        columns, missing, written = delimiters.count("|") + 1, 0, 0
        for row in range(line, end) if DELIMITERS.issuperset(delimiters) else ():
            if state.isEmpty(row):
                break
            cells = state.getLines(row, row + 1, 0, False).count("|") + 1
            missing, written = missing + max(columns - cells, 0), written + cells
            if missing > MISSING_CELLS + 3 * written:
                return False
    return rules_block.table(state, line, end, silent)


def _reference(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Parse the definition of a link, but not ``[^1]: text``, which defines a footnote."""
    if state.src.startswith("[^", state.bMarks[line] + state.tShift[line]):
        return False
    return rules_block.reference(state, line, end, silent)


class MarkdownInline(CompositeDocument):
    """Document of the text of one block."""

    def __init__(
        self,
        inline: Token,
        breaks: Sequence[str],
        env: Mapping[str, Any],
        language: str | None,
        *,
        paragraph: bool,
        cell: bool,
    ) -> None:
        """Build the document.

        Args:
            inline: the token of the text of the block, from ``PARSER``.
            breaks: the strings between its lines: the line end, and the marks before the text of the next line.
            env: the environment of the parser, with the references of the text.
            language: the language code for sentence splitting.
            paragraph: whether the output must again be one paragraph.
            cell: whether the text is a table cell, in which bars are escaped.
        """
        self._source, self._children, self._breaks, self._env = inline.content, inline.children or [], breaks, env
        self._paragraph, self._cell = paragraph, cell
        self._inline_parts = _parts(inline.content, self._children, language)
        super().__init__(self._inline_parts)

    def join(self, sentences: Sequence[str], alignments: Mapping[int, WordAlignment]) -> str:
        """Return the Markdown with ``sentences`` in place of its own, escaping characters that would become marks."""
        sentences = [sentence.replace("\n", " ") for sentence in sentences]
        text = self._write(sentences, alignments, str)
        texts = [*sentences, *(child.content for child in self._children if child.type == "text")]
        if any(map(ESCAPED.search, texts)) or not self._parses_alike(text):
            text = LINE_START.sub(_escape_line_start, self._write(sentences, alignments, _escape))
            if self._paragraph and not self._parses_alike(text):  # marks that would now begin a block
                text = LIST_START.sub(r"\1\\\2", text)
        lines, breaks = text.split("\n"), self._hard_breaks()
        whole = lines[0] + "".join(f"{before}{line}" for before, line in zip(breaks, lines[1:], strict=True))
        return whole.replace("|", "\\|") if self._cell else whole

    def _write(
        self, sentences: Sequence[str], alignments: Mapping[int, WordAlignment], escape: Callable[[str], str]
    ) -> str:
        """Return the text with ``sentences`` in place of its own, before its lines are joined.

        ``escape`` escapes text between marks.
        """
        texts, start = [], 0
        for part in self._inline_parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            end = start + len(part.sentences)
            inner = {number - start: alignments[number] for number in range(start, end) if number in alignments}
            texts.append(part.join(sentences[start:end], inner, escape))
            start = end
        return "".join(texts).lstrip(" \t")  # white space moved out of a tag would make a code block

    def _hard_breaks(self) -> list[str]:
        """Return the strings between the lines that end with a hard break; all other lines are joined."""
        starts = [child.meta["span"][0] for child in self._children if child.type == "hardbreak"]
        return [self._breaks[self._source.count("\n", 0, start)] for start in starts]

    def _parses_alike(self, text: str) -> bool:
        """Return whether ``text`` parses to the same marks as the source."""
        env = {"references": dict(self._env.get("references", {}))}
        if not self._paragraph:
            return _structure(PARSER.parseInline(text, env)[0].children or []) == _structure(self._children)
        tokens = PARSER.parse(text, env)
        if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
            return not text.strip()
        return _structure(tokens[1].children or []) == _structure(self._children)


def _structure(children: Sequence[Token]) -> list[tuple[str, str, str]]:
    """Return the marks of a parsed text, sorted: type, verbatim content and attributes of each."""
    return sorted(
        (
            child.type,
            " ".join(child.content.split()) if child.type in VERBATIM_TYPES else "",
            repr(sorted(child.attrs.items())),
        )
        for child in children
        if child.type not in ("text", "softbreak")
    )


def _parts(source: str, children: Sequence[Token], language: str | None) -> list[str | InlineMarkup]:
    """Return the documents of the text of a block, and between them the marks that split it."""
    tokens, splits = _tokens(source, children)
    before = [0, *accumulate(splits)]
    parts: list[str | InlineMarkup] = []
    begin = 0
    for number in range(len(tokens) + 1):
        if number < len(tokens):
            first, last = sorted((number, number if (pair := tokens[number].partner) is None else pair))
            if before[last + 1] == before[first]:  # neither the token nor one inside the pair splits the text
                continue
        if begin < number:
            parts.append(_inline_document(tokens[begin:number], language))
        if number < len(tokens):
            token = tokens[number]
            parts.append(_inline_document([token], language) if token.kind == "text" else token.raw)
        begin = number + 1
    return parts


def _inline_document(tokens: Sequence[MarkupToken], language: str | None) -> str | InlineMarkup:
    """Return the document of tokens; their text, escaped, if it has no words."""
    document = parse_inline(tokens, MARKUP, language, verbatim=False)
    if not isinstance(document, str):
        return document
    return "".join(_escape(token.raw) if token.kind == "text" else token.raw for token in tokens)


def _tokens(source: str, children: Sequence[Token]) -> tuple[list[MarkupToken], list[bool]]:
    """Return the tokens of a block, and whether each token splits the text.

    Hard breaks and tags without a partner split it. Images do if the block has no other text; then their descriptions
    are translated.
    """
    only_images = not any(child.type == "text" and any(map(str.isalnum, child.content)) for child in children)
    builder = _TokenBuilder()
    in_autolink = False
    for child in children:
        if in_autolink:  # the text of <https://…> stays unchanged with its marks
            in_autolink = child.type != "link_close"
        elif child.markup == "autolink":
            in_autolink = True
            builder.add("empty", _source_of(source, child))
        elif child.type in ("text", "softbreak"):
            builder.add("text", child.content or " " * (child.type == "softbreak"))
        elif child.type == "hardbreak":
            builder.add("raw", "\\\n" if source[child.meta["span"][0]] == "\\" else "  \n", splits=True)
        elif child.type == "image" and only_images and child.content:
            before, after = _link_marks(source, child)
            builder.add("empty", before, splits=True)
            builder.add("text", _description(child), splits=True)
            builder.add("empty", after, splits=True)
        elif child.nesting == 1:
            builder.open(child.type, "[" if child.type == "link_open" else child.markup)
        elif child.nesting == -1:
            raw = _link_marks(source, child)[1] if child.type == "link_close" else child.markup
            builder.close(child.type.replace("_close", "_open"), raw)
        elif child.type == "html_inline":
            builder.html_tag(child.content)
        else:
            builder.add("empty", _source_of(source, child))
    for number, _ in builder.unclosed:
        builder.splits[number] = True
    for number, depth in enumerate(pair_depths(builder.tokens)):
        if depth >= MAX_DEPTH and builder.tokens[number].kind in ("open", "close", "empty"):
            builder.splits[number] = True
    return builder.tokens, builder.splits


class _TokenBuilder:
    """Tokens of a block, in the order of the text.

    Attributes:
        tokens: the tokens.
        splits: for each token, whether it splits the text.
        unclosed: the index and the name of each open tag.
    """

    def __init__(self) -> None:
        self.tokens: list[MarkupToken] = []
        self.splits: list[bool] = []
        self.unclosed: list[tuple[int, str]] = []

    def add(self, kind: TokenKind, raw: str, *, splits: bool = False) -> None:
        """Append a token."""
        self.tokens.append(MarkupToken(kind, raw if kind == "raw" else raw.replace("\n", " ")))
        self.splits.append(splits)

    def open(self, name: str, raw: str) -> None:
        """Append an opening tag."""
        self.unclosed.append((len(self.tokens), name))
        self.add("open", raw)

    def close(self, name: str, raw: str) -> None:
        """Append a closing tag and match it with the innermost open tag of the same name.

        Tags that are opened inside the pair and never closed split the text.
        """
        self.add("close", raw)
        last = len(self.tokens) - 1
        while self.unclosed:
            number, inner = self.unclosed.pop()
            if inner == name:
                self.tokens[number] = self.tokens[number]._replace(partner=last)
                self.tokens[last] = self.tokens[last]._replace(partner=number)
                return
            self.splits[number] = True

    def html_tag(self, raw: str) -> None:
        """Append an HTML tag. A closing tag without an open one, or across a Markdown mark, splits the text."""
        kind, name = _tag(raw)
        if kind == "open":
            self.open(name, raw)
        elif kind == "close" and _is_closable(self.unclosed, name):
            self.close(name, raw)
        else:
            self.add(kind, raw, splits=kind == "close" or name == "<br")


def _tag(raw: str) -> tuple[TokenKind, str]:
    """Return the kind and the name (with ``<``) of an HTML tag; comments and similar tokens are ``empty``."""
    match = TAG.match(raw)
    name = f"<{match[2].lower()}" if match else ""
    if match and match[1]:
        return "close", name
    return ("empty" if not match or raw.endswith("/>") or name[1:] in VOID_ELEMENTS else "open"), name


def _is_closable(open: Sequence[tuple[int, str]], name: str) -> bool:
    """Return whether a tag of this name is open, without an open Markdown mark inside it."""
    within = takewhile(lambda tag: tag.startswith("<"), (inner for _, inner in reversed(open)))
    return name in within


def _source_of(source: str, child: Token) -> str:
    """Return the source text of a token."""
    start, end = child.meta.get("span", (0, 0))
    return source[start:end] if child.type != "html_inline" else child.content


def _link_marks(source: str, child: Token) -> tuple[str, str]:
    """Return the marks before and after the text of a link or an image.

    A shortcut reference becomes a full reference, because its text will change.
    """
    start, end = child.meta["span"]
    first, last = (start + 2, start + 2 + len(child.content)) if child.type == "image" else child.meta["label"]
    after = source[last:end]
    return source[start:first], f"][{source[first:last]}]" if after in ("]", "][]") else after


def _description(image: Token) -> str:
    """Return the description of an image, without marks."""
    return "".join(child.content or " " for child in image.children or [] if child.nesting == 0)


def _escape_line_start(match: re.Match[str]) -> str:
    """Return the start of a line with a backslash, which prevents a new block."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def _escape(text: str) -> str:
    """Return ``text`` with backslashes before all characters that can begin a mark."""
    return SPECIAL.sub(r"\\\g<0>", text)


PARSER = _parser()

"""Documents in HTML and XML: blocks of text with inline markup, separated by tags that split the text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.server.text.documents import CompositeDocument, Document
from regard.server.text.inline_markup import parse_inline
from regard.server.text.markup_tokenizer import MAX_DEPTH, Markup, MarkupToken, pair_depths, tokenize_markup

# HTML elements that form blocks; browsers display unknown elements inline.
BLOCK_ELEMENTS = frozenset(
    " ".join((
        "address article aside audio base blockquote body br canvas caption center col colgroup dd details dialog dir",
        "div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html",
        "iframe legend li link main menu meta nav noframes noscript object ol optgroup option p param picture pre",
        "search section select source summary table tbody td template textarea tfoot th thead title tr track ul video",
    )).split()
)  # fmt: skip
VERBATIM_ELEMENTS = ("pre", "textarea")  # elements with significant line ends


class MarkupDocument(CompositeDocument):
    """Document in HTML or XML."""

    def __init__(self, text: str, markup: Markup, language: str | None, deadline: Deadline = NO_DEADLINE) -> None:
        super().__init__(_parts(tokenize_markup(text, markup), markup, language, deadline))


def _parts(
    tokens: Sequence[MarkupToken], markup: Markup, language: str | None, deadline: Deadline
) -> list[str | Document]:
    """Return the tags that split the text, unchanged, and the documents between them."""
    parts: list[str | Document] = []
    splits = _splits_text(tokens, markup)
    begin, verbatim = 0, 0
    for number in range(len(tokens) + 1):
        if number < len(tokens) and not splits[number]:
            continue
        if begin < number:
            parts.append(parse_inline(tokens[begin:number], markup, language, deadline, verbatim=verbatim > 0))
        if number < len(tokens):
            token = tokens[number]
            if token.name in VERBATIM_ELEMENTS and token.partner is not None:
                verbatim += 1 if token.kind == "open" else -1
            parts.append(token.raw)
        begin = number + 1
    return parts


def _splits_text(tokens: Sequence[MarkupToken], markup: Markup) -> list[bool]:
    """Return for each token whether it splits the text.

    A tag splits the text by its name, if its partner or a tag between both does, or if it has no partner.
    """
    (parents, has_text), depths = _parents(tokens), pair_depths(tokens)
    direct = [
        token.kind in ("open", "close", "empty")
        and (
            (token.kind != "empty" and token.partner is None)
            or depths[number] >= MAX_DEPTH
            or _splits_by_name(token, has_text[parents[number] + 1], markup)
        )
        for number, token in enumerate(tokens)
    ]
    before = [0, *accumulate(direct)]
    return [
        splits
        or (token.partner is not None and before[max(number, token.partner)] > before[min(number, token.partner)])
        for number, (splits, token) in enumerate(zip(direct, tokens, strict=True))
    ]


def _splits_by_name(token: MarkupToken, in_text: bool, markup: Markup) -> bool:
    """Return whether an element splits the text; ``in_text``: whether its parent has its own text."""
    if token.name in markup.splitting or token.name in markup.non_splitting:
        return token.name not in markup.non_splitting
    if markup.kind == "html":
        return token.name in BLOCK_ELEMENTS
    return markup.outline and not in_text


def _parents(tokens: Sequence[MarkupToken]) -> tuple[list[int], list[bool]]:
    """Return the index of the parent tag of each token (−1 without one), and whether each parent has its own text.

    The index of the second list is the index of the parent plus one.
    """
    parents, has_text = [], [False] * (len(tokens) + 1)
    open = [-1]
    for number, token in enumerate(tokens):
        if token.kind == "close" and token.partner is not None:
            open.pop()
        parents.append(open[-1])
        if token.kind == "text" and not token.raw.isspace():
            has_text[open[-1] + 1] = True
        if token.kind == "open" and token.partner is not None:
            open.append(number)
    return parents, has_text

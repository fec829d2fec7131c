"""A text with tags: the stretches between those that part it, each as sentences, and the tags inside them as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from regard.server.text.documents import Document, Parted
from regard.server.text.inline_markup import stretch
from regard.server.text.markup_tokenizer import Markup, Token, scan

__all__ = ["Marked"]

PARTING = frozenset(
    "address article aside audio base blockquote body br canvas caption center col colgroup dd details dialog dir div"
    " dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe"
    " legend li link main menu meta nav noframes noscript object ol optgroup option p param picture pre search section"
    " select source summary table tbody td template textarea tfoot th thead title tr track ul video".split()
)  # of HTML; browsers show what they do not know as part of a line
VERBATIM = ("pre", "textarea")  # where the end of a line is one
DEEPEST = 64  # pairs in pairs; what is around more parts the text


class Marked(Parted):
    """HTML or XML."""

    def __init__(self, text: str, markup: Markup, language: str | None) -> None:
        super().__init__(_parts(scan(text, markup), markup, language))


def _parts(tokens: Sequence[Token], markup: Markup, language: str | None) -> list[str | Document]:
    """The tags that part the text, as they are, and the stretches between them."""
    parts: list[str | Document] = []
    parting = _parting(tokens, markup)
    begin, verbatim = 0, 0
    for number in range(len(tokens) + 1):
        if number < len(tokens) and not parting[number]:
            continue
        if begin < number:
            parts.append(stretch(tokens[begin:number], markup, language, verbatim=verbatim > 0))
        if number < len(tokens):
            token = tokens[number]
            if token.name in VERBATIM and token.partner is not None:
                verbatim += 1 if token.kind == "open" else -1
            parts.append(token.raw)
        begin = number + 1
    return parts


def _parting(tokens: Sequence[Token], markup: Markup) -> list[bool]:
    """Which tokens part the text: by their name, by what is in them, or because they have no partner."""
    around, depth, told = _surroundings(tokens)
    first = [
        token.kind in ("open", "close", "empty")
        and (
            (token.kind != "empty" and token.partner is None)
            or depth[number] > DEEPEST
            or _parts_by_name(token, told[around[number] + 1], markup)
        )
        for number, token in enumerate(tokens)
    ]
    before = [0, *accumulate(first)]
    return [
        parts or (token.partner is not None and before[max(number, token.partner)] > before[min(number, token.partner)])
        for number, (parts, token) in enumerate(zip(first, tokens, strict=True))
    ]


def _parts_by_name(token: Token, among_text: bool, markup: Markup) -> bool:
    if token.name in markup.splitting or token.name in markup.non_splitting:
        return token.name not in markup.non_splitting
    if markup.kind == "html":
        return token.name in PARTING
    return markup.outline and not among_text


def _surroundings(tokens: Sequence[Token]) -> tuple[list[int], list[int], list[bool]]:
    """The tag around each token, −1 for none, and how many are; and, by one more than its number, whether each such has
    text of its own.
    """
    around, depth, told = [], [], [False] * (len(tokens) + 1)
    open = [-1]
    for number, token in enumerate(tokens):
        if token.kind == "close" and token.partner is not None:
            open.pop()
        around.append(open[-1])
        depth.append(len(open))
        if token.kind == "text" and not token.raw.isspace():
            told[open[-1] + 1] = True
        if token.kind == "open" and token.partner is not None:
            open.append(number)
    return around, depth, told

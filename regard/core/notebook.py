"""Representations of results for notebooks and interpreters: short, and escaped whatever text they hold."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.inference.results import Translation

__all__ = ["shortened", "translation_html"]

LONGEST = 60  # characters of a text in a representation of one line


def shortened(text: str) -> str:
    """Return the text, or its beginning if it is long."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def translation_html(translation: Translation) -> str:
    """Return an HTML table of the input and all candidates with scores, best first; texts are escaped."""
    rows = [
        f"<tr><td>{rank}</td><td>{candidate.score:.3f}</td>{_cell(candidate.text)}</tr>"
        for rank, candidate in enumerate(translation.candidates, start=1)
    ]
    head = f"<tr><th></th><th>score</th>{_cell(translation.source, 'th')}</tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(text: str, kind: str = "td") -> str:
    return f'<{kind} dir="auto" style="text-align: start; white-space: pre-wrap">{escape(text)}</{kind}>'

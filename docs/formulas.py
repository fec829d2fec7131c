"""A Markdown extension of the docs site: LaTeX formulas become MathML while the site is built.

``$…$`` is a formula in a line; a block ```` ```math ```` has one or several on lines of their own. MathML needs no
script, so pages are readable offline and from a disk. GitHub renders both forms from the Markdown source.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n]*?(?:\n[^$\n]+?)?)(?<![\s\\])\$(?![\w$])")
PRIORITY = 185  # after code spans (190), before backslash escapes (180)

_UNKNOWN = re.compile(r"\\[A-Za-z]+|<mi>&</mi>")
_PRIME = re.compile(r"<msup>(<(?:mi|mtext)>[^<]*</(?:mi|mtext)>)<mi>&#x02032;</mi></msup>")
_ALIGN = re.compile(r'columnalign="(left|right)"')


def mathml(latex: str, display: str = "inline") -> str:
    """Convert a formula to MathML.

    Raises:
        ValueError: latex2mathml does not know one of its commands, or its braces do not match.
    """
    source = re.sub(r"\{aligned\}", "{align*}", latex.strip())
    if source.count("{") != source.count("}"):
        raise ValueError(f"braces do not match: {latex}")
    text = convert(source, display=display)
    if unknown := _UNKNOWN.search(text):
        raise ValueError(f"cannot convert {unknown[0]} of {latex}")
    text = _ALIGN.sub(r'class="\1"', text)  # browsers ignore the attribute
    # A prime in a superscript is too small to see unless a font for mathematics is installed.
    text = _PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', text)
    ElementTree.fromstring(text)
    return text


def fence(source: str, language: str, css_class: str, options: Any, md: Markdown, **_: Any) -> str:
    """Return a block ``math`` as a box that scrolls if the formula is wider: a custom fence of pymdownx.superfences."""
    return f'<div class="formula" tabindex="0">{mathml(source, "block")}</div>'


class _Inline(InlineProcessor):
    """A formula in a line."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        return self.md.htmlStash.store(mathml(m[1])), m.start(0), m.end(0)


class Formulas(Extension):
    """``$…$`` in text, tables and headings; blocks are a fence of superfences."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Inline(INLINE.pattern, md), "formula", PRIORITY)


def makeExtension(**settings: Any) -> Formulas:
    """Return the extension: the name by which Markdown finds it."""
    return Formulas(**settings)

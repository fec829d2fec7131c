"""Tags and marks inside each other: one limit for all formats, beyond which they split the text and lose nothing."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from regard.server.text.documents import Document
from regard.server.text.markdown import parse_markdown
from regard.server.text.markup_document import MarkupDocument
from regard.server.text.markup_tokenizer import Markup

from .test_app import Serve
from .test_linear_text import joined

FORMATS: dict[str, Callable[[str], Document]] = {
    "html": lambda text: MarkupDocument(text, Markup.create("html"), "en"),
    "xml": lambda text: MarkupDocument(text, Markup.create("xml"), "en"),
    "markdown": lambda text: parse_markdown(text, "en"),
}
NESTED = {
    "tags": ("<b>", "</b>"),
    "tags with text": ("<b>x ", " y</b>"),
    "different tags": ("<b><i>", "</i></b>"),
    "tags and marks": ("*<b>", "</b>*"),
    "blocks": ("<div>", "</div>"),
    "emphasis": ("*", "*"),
    "emphasis with text": ("*x _", "_ y*"),
    "strikethrough": ("~~", "~~"),
    "quotes": ("> ", ""),
    "lists": ("- ", ""),
    "links": ("[", "](b)"),
    "images": ("![", "](b)"),
    "brackets": ("[", "]"),
    "parentheses": ("[a](", ")"),
    "indents": (" ", ""),
}


@pytest.mark.parametrize("depth", [2, 70, 600])
@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("format", FORMATS)
def test_no_depth_is_too_deep(format: str, name: str, depth: int) -> None:
    opening, closing = NESTED[name]
    text = f"{opening * depth}a dog{closing * depth}"
    output = joined(FORMATS[format](text))
    assert output.count("<b>") == text.count("<b>") and output.count("</b>") == text.count("</b>")
    assert "a dog" in output.casefold()


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_many_nested_tags_come_back_around_the_translation(serve: Serve, format: str) -> None:
    text = f"{'<b>' * 500}a dog{'</b>' * 500}"
    answer = httpx.post(f"{serve().url}/v1/translate", json={"text": text, "format": format}, timeout=30)
    assert answer.json()["translations"][0]["text"] == text.replace("a dog", "A DOG")

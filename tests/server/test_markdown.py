"""Markdown comes back with its marks, and only its text translated."""

from __future__ import annotations

import string
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.text.documents import Document
from regard.server.text.markdown import parse_markdown
from regard.server.text.markdown_inline import PARSER, _structure
from regard.server.text.word_alignment import even_alignment
from regard.server.text.word_spans import word_spans

from .conftest import serving
from .copying import capitals


def post(url: str, **options: Any) -> httpx.Response:
    return httpx.post(url, timeout=60, **options)


def loud(text: str) -> str:
    """In capitals, word for word."""
    return said(parse_markdown(text, "en"), str.upper)


def said(document: Document, say: object) -> str:
    outputs = [say(sentence) for sentence in document.sentences]  # type: ignore[operator]
    alignments = {
        number: even_alignment(len(word_spans(document.sentences[number])), len(word_spans(outputs[number])))
        for number in document.needs_alignment
    }
    return document.join(outputs, alignments)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("# A *big* dog #\n", "# A *BIG* DOG #\n"),
        ("Title\n=====\n\nOther\n---\n", "TITLE\n=====\n\nOTHER\n---\n"),
        ("**A** _b_ ~~c~~ ***d***", "**A** _B_ ~~C~~ ***D***"),
        ("see `x = 1` and ``a ` b`` now", "SEE `x = 1` AND ``a ` b`` NOW"),
        ('[a *b*](http://c.d/e_f "g") h', '[A *B*](http://c.d/e_f "g") H'),
        ("at <http://a.b/c> or b", "AT <http://a.b/c> OR B"),
        ("[a][b] [c]\n\n[b]: x\n[c]: y 'z'\n", "[A][b] [C][c]\n\n[b]: x\n[c]: y 'z'\n"),
        ("[c][] d\n\n[c]: y", "[C][c] D\n\n[c]: y"),
        ('![a dog](d.png "t")\n', '![A DOG](d.png "t")\n'),
        ("[![a](b.svg)](c)", "[![A](b.svg)](c)"),
        ("text ![a](b) text", "TEXT ![a](b) TEXT"),
        ("> a\n> b\n>\n> - c\n", "> A B\n>\n> - C\n"),
        ("- a\n  b\n- c\n  1. d\n     * e\n\n+ [x] f\n", "- A B\n- C\n  1. D\n     * E\n\n+ [x] F\n"),
        ("a  \nb\\\nc\nd\n", "A  \nB\\\nC D\n"),
        ("> a\\\n> b **c  \n> d** e\n", "> A\\\n> B **C  \n> D** E\n"),
        ("|a|b|\n|-|:-:|\n|c `x\\|y`|*d* \\| e|\n||f|\n", "|A|B|\n|-|:-:|\n|C `x\\|y`|*D* \\| E|\n||F|\n"),
        ("```py\na = 'b'\n```\n\n    code\n\n~~~\nc\n~~~\n", "```py\na = 'b'\n```\n\n    code\n\n~~~\nc\n~~~\n"),
        ("---\na: b\nc: d\n---\n\ne\n", "---\na: b\nc: d\n---\n\nE\n"),
        ("+++\na = 1\n+++\ne\n", "+++\na = 1\n+++\nE\n"),
        ("---\n\na\n\n---\n", "---\n\nA\n\n---\n"),
        ("<!-- a -->\n\na <!-- b --> c\n", "<!-- a -->\n\nA <!-- b --> C\n"),
        ("<p align=x>a <b>b</b></p>\n\na <b>b</b> c<br>d", "<p align=x>A <B>B</B></p>\n\nA <b>B</b> C<br>D"),
        ("a[^1] b\n\n[^1]: note\n", "A[^1] B\n\n[^1]: NOTE\n"),
        ("\\*a\\* 2 \\* 3 \\- b_c", "\\*A\\* 2 * 3 - B_C"),
        ("\\# a\n\n\\- b\n\n1\\. c\n", "\\# A\n\n\\- B\n\n1\\. C\n"),
        ("a &lt;b&gt; &amp; c\n", "A \\<B\\> \\& C\n"),
        ("a\r\nb\r\n\r\n- c\r\n", "A B\r\n\r\n- C\r\n"),
        ("* * *\n***\n", "* * *\n***\n"),
        ("", ""),
    ],
)
def test_marks_stay_and_text_is_translated(text: str, wanted: str) -> None:
    wanted = wanted.replace("<B>B</B>", "<b>B</b>")
    plain = loud(text)
    assert plain == wanted or same(plain, wanted), plain


def same(text: str, wanted: str) -> bool:
    """They differ in backslashes that change nothing."""
    return PARSER.render(text) == PARSER.render(wanted) and text.replace("\\", "") == wanted.replace("\\", "")


def test_an_output_that_would_be_read_as_marks_is_escaped() -> None:
    outputs = {
        "a dog": [
            "# a",
            "- b",
            "+ b",
            "1. c",
            "1) c",
            "*d* _e_",
            "`f`",
            "[g](h)",
            "<b>i",
            "> j",
            "===",
            "&amp;",
            "~~k~~",
        ]
    }
    for output in outputs["a dog"]:
        found = said(parse_markdown("a dog\n", "en"), lambda sentence, output=output: output)
        tokens = PARSER.parse(found)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], found
        children = tokens[1].children or []
        assert "".join(child.content for child in children) == output and not _structure(children), found
    cell = said(parse_markdown("|a|\n|-|\n|b|\n", "en"), lambda sentence: "x | y")
    assert cell == "|x \\| y|\n|-|\n|x \\| y|\n"


def test_marks_go_with_the_words_that_they_are_around() -> None:
    document = parse_markdown("a **red** [cat](x)", "en")
    assert document.sentences == ["a red cat"] and list(document.needs_alignment) == [0]
    assert document.join(["un chat rouge"], {0: [0, 2, 1]}) == "un [chat](x) **rouge**"


WORDS = [
    *"*_`~[]()<>!#-+=|\\&:^ \n\t", "a", "dog", "1. ", "- ", "> ", "    ", "\n\n", "**", "``", "```\n", "](x)",
    "[a]: b\n", "<b>", "</b>", "<!-- ", "-->", "|-|\n", "---\n", "  \n", "\\\n", "<br>", "&lt;", "[^1]", "\r\n", "![", "<http://a.b>",
]  # fmt: skip


@pytest.mark.parametrize("text", ["<b>\n*</b>", "<b>\na dog</b>", "  <b> \r\na\r\ndog</b>\n", "<em>\n<b>a</b>\n</em>"])
def test_a_tag_alone_on_a_line_stays_alone(text: str) -> None:
    """Otherwise the block of HTML would be a paragraph."""
    document = parse_markdown(text, "en")
    joined = document.join(document.sentences, {})
    assert [token.type for token in PARSER.parse(joined)] == ["html_block"], joined


@pytest.mark.parametrize("text", ["<b>    a</b> dog", "<b>\ta</b>", "\n<b>     a    </b>"])
def test_white_space_that_leaves_a_tag_makes_no_code(text: str) -> None:
    """Four spaces or a tab at the beginning of a line are a block of code in Markdown."""
    document = parse_markdown(text, "en")
    joined = document.join(document.sentences, {})
    assert [token.type for token in PARSER.parse(joined)] == ["paragraph_open", "inline", "paragraph_close"], joined


@settings(deadline=None)
@given(parts=st.lists(st.sampled_from(WORDS), max_size=40))
def test_nothing_but_words_changes(parts: list[str]) -> None:
    """Said as it is read, all letters are there in their order, and blocks and code stay what they are."""
    text = "".join(parts)
    document = parse_markdown(text, "en")
    found = document.join(document.sentences, {})
    blocks = [[(each.type, each.tag, each.level) for each in PARSER.parse(one)] for one in (text, found)]
    assert blocks[0] == blocks[1], (text, found)
    code = [
        [each.content for each in PARSER.parse(one) if each.type in ("fence", "code_block")] for one in (text, found)
    ]
    assert code[0] == code[1]


@settings(deadline=None)
@given(text=st.text(st.sampled_from([*string.printable, "\x00", "é", "漢", " "]), max_size=80))
def test_whatever_is_no_markdown_does_no_harm(text: str) -> None:
    document = parse_markdown(text, "de")
    assert len(document.join(["x"] * len(document.sentences), {})) >= 0


def test_markdown_through_our_own_interface() -> None:
    with serving([capitals("en-de")[0], capitals("de-en", "de", "en")[0]]) as (port, _):
        asked = {
            "text": "# Der *Hund* läuft über die Wiese\n\n```\nthe code of the dog is here\n```\n",
            "format": "markdown",
        }
        found = post(f"http://127.0.0.1:{port}/v1/translate", json=asked).json()["translations"][0]
        assert found["text"] == "# DER *HUND* LÄUFT ÜBER DIE WIESE\n\n```\nthe code of the dog is here\n```\n"
        assert found["model"] == "de-en", "code tells nothing of the language"

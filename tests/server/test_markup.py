"""Tags carried over: the same, each once, nested as they were, whatever the text, the tags and the links are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import deepl
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.server.text.markup_document import MarkupDocument
from regard.server.text.markup_tokenizer import Markup, MarkupToken, tokenize_markup
from regard.server.text.word_spans import word_spans

from .conftest import Running

Serve = Callable[..., Running]
HTML, XML = Markup.create("html"), Markup.create("xml")


def copied(text: str, markup: Markup = HTML) -> str:
    document = MarkupDocument(text, markup, "en")
    said = document.sentences
    return document.join(said, {number: range(len(word_spans(said[number]))) for number in document.needs_alignment})


def tags(text: str, markup: Markup) -> list[MarkupToken]:
    return [token for token in tokenize_markup(text, markup) if token.kind != "text"]


@pytest.mark.parametrize(
    "text",
    [
        "A <b>dog</b> runs.",
        "<p>Hello <i>you <b class='x > y'>there</b></i>.</p>\n\n  <p>Next</p>",
        "Click <img src=a> here <br> and H<sub>2</sub>O.",
        "un<b>happy</b><i>ness</i> it's <!-- <b> --> <script>var x = '<b>';</script>done",
        "<b>One. Two.</b> Three",
        "a <span translate=no>keep <b>x</b></span>, <em class='notranslate'>this</em>",
        "<pre>\n a\n b <i>c</i></pre>",
        " <i/> word <u>x <img></u> y <br/>",
        "<!doctype html><html><head><title>A</title><style>b {}</style></head><body>B &amp; C</body></html>",
        "Wait &nbsp; here<1/> or <2>there</2>",
        "", " ", "<", "<>", "</", "<b", "a <b>", "</b> a", "<i><b></i></b> x", "<!-- a", "<p>a<p>b", "<script>a",
    ],
)  # fmt: skip
def test_what_is_copied_stays_as_it_was(text: str) -> None:
    if text.startswith("<") and not tags(text, HTML):
        assert copied(text) == text.replace("<", "&lt;").replace(">", "&gt;")
    else:
        assert copied(text) == text


def test_only_what_a_reader_reads_is_translated() -> None:
    text = '<p title="None">Tom &amp; <b>Jerry</b> &lt;3<!-- none --></p><script>none()</script><p>End\n of it</p>'
    assert MarkupDocument(text, HTML, "en").sentences == ["Tom & Jerry <3", "End of it"]
    assert MarkupDocument("<a>One</a><b>Two <i>words</i></b>", XML, "en").sentences == ["One", "Two words"]
    flat = Markup.create("xml", outline=False)
    assert MarkupDocument("<a>One</a> <b>Two</b>", flat, "en").sentences == ["One Two"]
    assert MarkupDocument("x <a>One</a> y", Markup.create("xml", splitting=["a"]), "en").sentences == ["x", "One", "y"]
    assert MarkupDocument("<a>One</a> <b>Two</b>", Markup.create("xml", non_splitting=["a", "b"]), "en").sentences == [
        "One Two"
    ]
    assert MarkupDocument("x <a>One</a> y", Markup.create("xml", ignore=["a"]), "en").sentences == ["x y"]
    assert MarkupDocument("x <A>One</A> y", Markup.create("xml", ignore=["a"]), "en").sentences == ["x One y"]
    assert MarkupDocument("x <A>One</A> y", Markup.create("html", ignore=["a"]), "en").sentences == ["x y"]
    assert copied("x &unknown; y &eacute; &#65;", XML) == "x &unknown; y é A"


@pytest.mark.parametrize(
    ("source", "output", "alignment", "expected"),
    [
        ("a <b>red</b> dog", "ein roter Hund", [0, 1, 2], "ein <b>roter</b> Hund"),
        ("a <b>red</b> dog", "un chien rouge", [0, 2, 1], "un chien <b>rouge</b>"),
        ("he <b>gives</b> up", "er gibt ganz auf", [0, 1, 2, 1], "er <b>gibt ganz auf</b>"),
        ("<b>he</b> <i>gives</i> up", "gibt er auf", [1, 0, 2], "<i>gibt</i> <b>er</b> auf"),
        ("<b>very</b> <i>red</i>", "rot sehr rot", [1, 0, 1], "<i>rot</i> <b>sehr</b> rot"),
        ("a <img> dog", "chien un", [1, 0], "<img> chien un"),
        ("dog<sup>1</sup> here", "Hund hier", [0, 1], "Hund <sup></sup>hier"),
        ("a <b>lost</b> word", "ein Wort", [0, 2], "ein <b></b>Wort"),
        ("say <i>a <b>red</b> dog</i> now", "sag jetzt roter Hund", [0, 4, 2, 3], "sag jetzt <i><b>roter</b> Hund</i>"),
        ("1 < 2 <b>&amp;</b> 3", "1 < 2 & 3", [0, 1, 2, 3, 4], "1 &lt; 2 <b>&amp;</b> 3"),
    ],
)
def test_tags_go_with_the_words_that_stand_for_theirs(
    source: str, output: str, alignment: list[int], expected: str
) -> None:
    document = MarkupDocument(source, HTML, "en")
    assert document.join([output], {0: alignment}) == expected


WORD = st.sampled_from(["dog", "a", "runs.", "H2O", "x", "{y}", "&amp;", "Ünder", "犬", "I'm", "3,5", "&lt;b&gt;"])
BLANK = st.sampled_from([" ", "", " ", "\n", "  "])


def tree(depth: int) -> st.SearchStrategy[str]:
    leaf = st.tuples(WORD, BLANK).map("".join)
    if depth == 0:
        return leaf
    inner = st.lists(tree(depth - 1), max_size=4).map("".join)
    name = st.sampled_from(["b", "i", "p", "span", "x-y", "a", "div", "7"])
    pair = st.tuples(name, st.sampled_from(["", ' c="d"']), inner).map(
        lambda each: f"<{each[0]}{each[1]}>{each[2]}</{each[0]}>"
    )
    single = st.sampled_from(["<br>", "<img/>", "<!-- c -->", "<wbr>", "<b translate='no'>stay put</b>"])
    return st.one_of(leaf, pair, pair, single)


TREES = st.lists(tree(3), max_size=6).map("".join)
LOOSE = st.lists(
    st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<", ">", '"', "a ", "b. ", "<br", "<!--", "&", "'"])
).map("".join)


def numbered(text: str, markup: Markup) -> tuple[str, list[MarkupToken]]:
    """The text with a number in each tag, so that each is known again; and the tags that have a partner."""
    parts, count = [], 0
    for token in tokenize_markup(text, markup):
        if token.kind in ("open", "empty"):
            count += 1
            parts.append(token.raw.replace(token.name, f"{token.name} n={count} ", 1))
        else:
            parts.append(token.raw)
    whole = "".join(parts)
    return whole, tags(whole, markup)


def nested(found: Sequence[MarkupToken]) -> list[tuple[str, tuple[str, ...]]]:
    """Each tag, and those around it."""
    open: list[str] = []
    said = []
    for token in found:
        if token.kind == "close" and token.partner is not None:
            open.pop()
            continue
        said.append((token.raw, tuple(open)))
        if token.kind == "open" and token.partner is not None:
            open.append(token.raw)
    return sorted(said)


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(TREES, LOOSE),
    data=st.data(),
    markup=st.sampled_from([HTML, XML, Markup.create("xml", ["i"], ["p"], ["b"])]),
)
def test_whatever_the_links_are_the_same_tags_are_nested_as_before(
    text: str, data: st.DataObject, markup: Markup
) -> None:
    text, before = numbered(text, markup)
    document = MarkupDocument(text, markup, "en")
    sentences = document.sentences
    outputs, alignments = [], {}
    for number, sentence in enumerate(sentences):
        output = " ".join(data.draw(st.lists(st.sampled_from(["Hund", "der", "läuft", "<", ",", "7"]), max_size=6)))
        outputs.append(output)
        size, most = len(word_spans(output)), max(len(word_spans(sentence)) - 1, 0)
        alignments[number] = data.draw(st.lists(st.integers(0, most), min_size=size, max_size=size))
    found = document.join(outputs, alignments)
    after = tags(found, markup)
    assert sorted(token.raw for token in after) == sorted(token.raw for token in before)
    assert nested(after) == nested(before)


@settings(max_examples=200, deadline=None)
@given(text=st.one_of(TREES, LOOSE), markup=st.sampled_from([HTML, XML]))
def test_a_model_that_copies_changes_neither_tags_nor_words(text: str, markup: Markup) -> None:
    found = copied(text, markup)
    assert [token.raw for token in tags(found, markup)] == [token.raw for token in tags(text, markup)]

    def said(of: str) -> list[str]:
        return [
            word
            for token in tokenize_markup(of, markup)
            if token.kind == "text"
            for word in MarkupDocument(token.raw, markup, "en").sentences
        ]

    assert "".join("".join(said(found)).split()) == "".join("".join(said(text)).split())


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="<>/!-'\"&;=ab p[]CDATA?#\n", max_size=120))
def test_what_is_no_markup_never_fails_and_nothing_of_it_is_lost(text: str) -> None:
    for markup in (HTML, XML):
        assert "".join(token.raw for token in tokenize_markup(text, markup)) == text
        copied(text, markup)


@pytest.mark.parametrize(
    "text",
    [
        "<b>" * 2_000 + "x" + "</b>" * 2_000,
        "<b>" * 2_000,
        "</b>" * 2_000,
        "<b>x " * 2_000,
        "<b>x</b> " * 1_000,
        "x <img> " * 1_000,
        "<a '" * 2_000 + ">",
        '<a "' * 2_000,
        "<!--" * 2_000,
        "<script>" + "</script " * 1_000,
        "<p>" + " " * 10_000 + "x",
        "<" * 10_000,
        "<1" * 5_000,
        "&" * 5_000,
        "<b x" * 25_000,
    ],
    ids=lambda text: text[:12],
)
def test_much_markup_is_copied(text: str) -> None:
    """In how many steps, ``test_linear_text`` counts."""
    assert [token.raw for token in tags(copied(text), HTML)] == [token.raw for token in tags(text, HTML)]


def test_markup_in_each_dialect(serve: Serve) -> None:
    server = serve()
    text, wanted = "<p>A <b>dog</b> &amp; co.</p>", "<p>A <b>DOG</b> &amp; CO.</p>"
    asked = {"q": text, "source": "en", "target": "de", "format": "html"}
    assert httpx.post(f"{server.url}/translate", json=asked).json() == {"translatedText": wanted}
    found = httpx.post(f"{server.url}/v1/translate", json={"text": text, "format": "html"}).json()
    assert found["translations"][0]["text"] == wanted
    client = deepl.DeepLClient("a key", server_url=server.url)
    for handling in ("html", "xml"):
        assert client.translate_text(text, target_lang="DE", tag_handling=handling).text == wanted
    options: dict[str, Any] = {"target_lang": "DE", "tag_handling": "xml", "outline_detection": False}
    found = client.translate_text("a <x>b</x> <y>c</y>", **options, ignore_tags=["x"], splitting_tags="y,z")
    assert found.text == "A <x>b</x> <y>C</y>"
    for body, told in (
        ({"tag_handling": "rtf"}, "tag_handling"),
        ({"tag_handling": "xml", "ignore_tags": 5}, "ignore_tags"),
        ({"tag_handling": "xml", "outline_detection": "maybe"}, "outline_detection"),
    ):
        answer = httpx.post(f"{server.url}/v2/translate", json={"text": ["a"], "target_lang": "DE"} | body)
        assert answer.status_code == 400 and told in answer.json()["message"]
    answer = httpx.post(f"{server.url}/translate", json=asked | {"format": "rtf"})
    assert answer.status_code == 400 and "rtf" in answer.json()["error"]
    assert httpx.post(f"{server.url}/v1/translate", json={"text": "a", "format": "rtf"}).status_code == 422


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<p><b>1.</b> a <i>…</i></p>", "<p><b>1.</b> A <i>…</i></p>"),
        ("<i>- a</i> b", "<i>- A</i> B"),
        ("a. <b>!!!</b> b", "A. <b>!!!</b> B"),
    ],
)
def test_tags_around_what_is_not_translated_stay_there(text: str, wanted: str) -> None:
    document = MarkupDocument(text, HTML, "en")
    assert document.join([each.upper() for each in document.sentences], {}) == wanted

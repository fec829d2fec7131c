"""Worst requests: of each endpoint, as large as the limits allow, and as much work for each character as there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

BODY = 128 * 1024  # bytes of a body
TEXT = 5_000  # characters of all texts
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"


class WorstRequest(NamedTuple):
    """Request as it is sent."""

    name: str
    path: str
    body: bytes
    media_type: str = JSON
    method: str = "POST"


def repeated(pattern: str, size: int) -> str:
    """Return a pattern again and again, up to a size."""
    return (pattern * (size // len(pattern) + 1))[:size]


def worst_requests(text: int = TEXT, body: int = BODY) -> list[WorstRequest]:
    """Return the table for texts of ``text`` characters, and bodies of at most ``body`` bytes."""
    return [
        *_translations(text, body),
        *_streams(text),
        *_dialects(text, body),
        *_other_tasks(text, body),
        *_invalid(body),
    ]


def _json(name: str, path: str, fields: Mapping[str, Any]) -> WorstRequest:
    return WorstRequest(name, path, json.dumps(fields).encode())


def _glossary(body: int, *, nested: bool) -> dict[str, str]:
    """Return as many entries as a body holds: of one word each, or each longer by a word than the one before."""
    entries: dict[str, str] = {}
    size = 0
    while True:
        number = len(entries)
        source = " ".join("a" * min(number + 1, 500)) if nested else f"w{number}"
        source += f" x{number // 500}" if nested and number >= 500 else ""
        size += len(source) + len(f't{number}"": "", ')
        if size > body - 8_000 or len(entries) >= 5_000:
            return entries
        entries[source] = f"t{number}"


def _translations(text: int, body: int) -> list[WorstRequest]:
    words = " ".join(f"w{number}" for number in range(text // 5))[:text]
    path = "/v1/translate"
    patterns = {
        "words": "a ", "lines": "a\n", "sentences": "Ab. ", "no spaces": "ab", "numbers": "1 ", "placeholders": "{a} ",
        "unknown letters": "\u4e00\u4e01",
    }  # fmt: skip
    markup = {
        "html": ["<b>x ", "<b>x</b> ", "<p>x", "<a '", "<", "&", "<!--", "<b>", "<script>x</script "],
        "xml": ["<b>x ", "<a><b>x</b></a>", "<a '", "&a;"],
        "markdown": ["[", "[a](", "*a ", "`a` ", "``", "![", "> ", "| a ", "<b>x ", "**a_b", "\\", "- a\n", "a  \n"],
    }
    return [
        *(_json(f"text of {name}", path, {"text": repeated(each, text)}) for name, each in patterns.items()),
        *(
            _json(f"{kind} of {each!r}", path, {"text": repeated(each, text), "format": kind})
            for kind, all in markup.items()
            for each in all
        ),
        _json("glossary of words", path, {"text": words, "glossary": _glossary(body, nested=False)}),
        _json("glossary of phrases", path, {"text": repeated("a ", text), "glossary": _glossary(body, nested=True)}),
        _json("many texts", path, {"text": ["a b. " * (text // 250)] * 50, "nbest": 10, "beam": 10}),
        _json("attention", path, {"text": repeated("ab", 200), "attention": True}),
    ]


def _streams(text: int) -> list[WorstRequest]:
    words, path = repeated("ab ", text // 3), "/v1/stream"
    known = {"cursor": f"{len(words.split()) - 1}-00000000"}
    return [
        *(
            _json(f"stream of {each!r}", path, {"text": repeated(each, text), "policy": "wait-k", "lag": 1})
            for each in ("a ", "Ab. ", "ab", "\n")
        ),
        _json("end of a stream", path, {"text": repeated("a ", text), "split": False, "final": True}),
        _json("stream with a cursor", path, {"text": words, "committed": words, "unstable": words} | known),
        _json("streamed translation", "/v1/translate", {"text": repeated("ab", text), "stream": True}),
    ]


def _dialects(text: int, body: int) -> list[WorstRequest]:
    fields = {"q": repeated("<b>a</b> b. ", text), "source": "en", "target": "de", "format": "html", "alternatives": 3}
    tsv = "".join(f"word {number}\tterm\n" for number in range(5_000))[: body - 8_000].rpartition("\n")[0]
    pair = {"source_lang": "EN", "target_lang": "DE"}
    glossary = pair | {"name": "all", "entries": tsv, "entries_format": "tsv"}
    tags = {"tag_handling": "xml", "ignore_tags": repeated("b,", body // 4)}
    upload = (
        f'--b\r\ncontent-disposition: form-data; name="file"; filename="a.md"\r\n\r\n{repeated("a *b* c. ", text)}\r\n'
        '--b\r\ncontent-disposition: form-data; name="source"\r\n\r\nen\r\n'
        '--b\r\ncontent-disposition: form-data; name="target"\r\n\r\nde\r\n--b--\r\n'
    )
    return [
        _json("LibreTranslate, JSON", "/translate", fields),
        WorstRequest("LibreTranslate, form", "/translate", urlencode(fields).encode(), FORM),
        WorstRequest("LibreTranslate, many fields", "/translate", repeated("q=a&", body // 2).encode(), FORM),
        WorstRequest("LibreTranslate, file", "/translate_file", upload.encode(), MULTIPART),
        WorstRequest("borders of a form", "/translate_file", repeated("\r\n--b", body // 2).encode(), MULTIPART),
        _json("LibreTranslate, detection", "/detect", {"q": repeated("a b. ", text)}),
        _json("DeepL", "/v2/translate", {"text": ["a b. " * (text // 250)] * 50} | pair | tags),
        _json("DeepL, glossary", "/v2/glossaries", glossary),
        WorstRequest("DeepL, list of glossaries", "/v2/glossaries", b"", method="GET"),
    ]


def _other_tasks(text: int, body: int) -> list[WorstRequest]:
    prompt = repeated("abcdefg", text)
    generation = {"model": "book", "prompt": ["abc"] * 20, "max_tokens": 50, "logprobs": 5, "temperature": 1, "seed": 1}
    return [
        _json("prediction", "/v1/predict", {"model": "mean", "inputs": [repeated("1 ", text)]}),
        _json("predictions of translations", "/v1/predict", {"inputs": ["a b. " * (text // 250)] * 50}),
        _json("predictions of texts", "/v1/predict", {"model": "book", "inputs": ["a"] * 20}),
        _json("scores", "/v1/score", {"sources": ["a b"] * 50, "targets": [repeated("a b ", text // 50)] * 50}),
        _json("scores of texts", "/v1/score", {"model": "book", "targets": [prompt]}),
        _json("generation", "/v1/generate", {"model": "book", "prompt": [prompt], "length": 20}),
        _json("completions", "/v1/completions", generation),
        _json("completions, echo", "/v1/completions", generation | {"prompt": prompt[:text // 4], "echo": True}),
        _json("completions, stream", "/v1/completions", generation | {"echo": True, "stream": True}),
        _json("chat", "/v1/chat/completions", _chat(["abcdefg"])),
        _json("chat of many messages", "/v1/chat/completions", _chat([""] * (body // 50 | 1))),
        _json("inspection", "/v1/inspect", {"model": "mean", "text": repeated("1 ", min(text, 1_000))}),
    ]  # fmt: skip


def _chat(texts: list[str]) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    return {"model": "book", "messages": messages, "max_tokens": 50, "seed": 1}


def _invalid(body: int) -> list[WorstRequest]:
    """Return requests that are refused, after as much work as a refusal may take."""
    numbers, half = f"[{repeated('1,', body - 4_000)}1]", body // 2
    fields = ", ".join(f'"{number}": 1' for number in range(half // 10))
    return [
        *(
            WorstRequest(f"{path} {field} of numbers", path, f'{{"{field}": {numbers}}}'.encode())
            for path, field in (
                ("/v1/translate", "text"), ("/v1/stream", "text"), ("/v1/predict", "inputs"), ("/v1/score", "targets"),
                ("/v1/generate", "prompt"), ("/v1/generate", "stop"), ("/v1/completions", "prompt"),
                ("/v1/completions", "stop"), ("/v1/chat/completions", "messages"), ("/v1/inspect", "force"),
                ("/v1/inspect", "include"),
                ("/translate", "q"), ("/v2/translate", "text"),
            )
        ),
        *(
            WorstRequest(f"{path} with unknown fields", path, f"{{{fields}}}".encode())
            for path in ("/v1/translate", "/v1/stream", "/v1/completions", "/v1/generate", "/v1/inspect", "/translate")
        ),
        WorstRequest("unknown settings", "/v1/predict", f'{{"inputs": ["1"], "settings": {{{fields}}}}}'.encode()),
        WorstRequest("glossary of numbers", "/v1/translate", f'{{"text": "a", "glossary": {{{fields}}}}}'.encode()),
        WorstRequest("long unknown field", "/v1/translate", json.dumps({repeated("text", half): 1}).encode()),
        WorstRequest("nested lists", "/v1/translate", b'{"text": ' + b"[" * half),
        WorstRequest("half of a JSON", "/v2/translate", b'{"text": ["' + b"a" * half),
    ]  # fmt: skip

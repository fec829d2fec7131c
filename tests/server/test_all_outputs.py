"""What holds for the best output holds for all: each has the terms, placeholders and numbers of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from regard.data.protected_spans import missing_terms
from regard.inference.results import Candidate, Translation
from regard.server.batching.served import ServedModel
from regard.server.text.enforce_terms import find_required_terms
from regard.server.text.glossary import Glossary

from .conftest import serving
from .copying import Capitals, capitals

GLOSSARY = {"dog": "Hund", "big cat": "Löwe", "bird": "鳥"}  # the last one is no text that the model can spell
TEXTS = [
    "Dear {name}, you have %d dogs and a dog.",
    "See https://a.example/x?y=1 or write to me@mail.example.org, please.",
    "A big cat costs 1,500.20 on 2026-11-22.",
    "${HOME} and $USER and {{ x }} and www.b.example and 3 birds, a bird",
    "Nothing to keep here",
    "{a} {a} {b} 7 7 8",
]


class Forgetful(Capitals):
    """A model whose outputs each lose something else: letters in capitals, digits, marks, or all of it."""

    def assemble(self, line: str, parts: Any, found: Any, *, search: Any) -> Translation:
        translation = super().assemble(line, parts, found, search=search)
        best = translation.candidates[0]
        changes: list[Callable[[str], str]] = [
            str, lambda text: "".join(sign for sign in text if not sign.isdigit()),
            lambda text: text.replace("{", "").replace("$", "").replace("%", ""), lambda text: "", str.swapcase,
            lambda text: text.replace(".", " "), lambda text: text[::-1], lambda text: line,
        ]  # fmt: skip
        outputs = [
            Candidate(change(best.text), -1.0 - rank, -1.0, [], [], rank % 3 < 2)
            for rank, change in enumerate(changes[: search.nbest])
        ]
        return Translation(line, outputs, dict, pieces=list(line))


def forgetful() -> ServedModel:
    model, _ = capitals()
    translator: Any = Forgetful(str.upper)
    model._load_predictor = lambda: translator
    return model


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving([forgetful()]) as (port, _):
        yield f"http://127.0.0.1:{port}"


def v1(url: str, text: str) -> list[str]:
    body = {"text": text, "nbest": 8, "glossary": GLOSSARY}
    (found,) = httpx.post(f"{url}/v1/translate", json=body, timeout=30).json()["translations"]
    assert found["text"] == found["candidates"][0]["text"]
    scores = [each["score"] for each in found["candidates"][1:]]
    assert scores == sorted(scores, reverse=True)
    return [each["text"] for each in found["candidates"]]


def libretranslate(url: str, text: str) -> list[str]:
    fields = {"q": text, "source": "en", "target": "de", "alternatives": 7}
    found = httpx.post(f"{url}/translate", json=fields, timeout=30).json()
    return [found["translatedText"], *found["alternatives"]]


def markdown(url: str, text: str) -> list[str]:
    body = {"text": text, "nbest": 8, "format": "html", "glossary": GLOSSARY}
    (found,) = httpx.post(f"{url}/v1/translate", json=body, timeout=30).json()["translations"]
    return [each["text"] for each in found["candidates"]]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dialect", [v1, libretranslate, markdown])
def test_each_output_has_all_that_is_required(url: str, dialect: Callable[[str, str], list[str]], text: str) -> None:
    glossary = Glossary({} if dialect is libretranslate else GLOSSARY)
    required = find_required_terms(text, glossary, protect=True)
    outputs = dialect(url, text)
    assert len(outputs) > 1 and (not required or len(set(outputs)) == len(outputs))
    for output in outputs:
        assert missing_terms(required, output) == []


def test_outputs_that_lack_nothing_stay_as_the_search_ranked_them(url: str) -> None:
    outputs = v1(url, "Nothing to keep here")
    assert len(outputs) == 8 and outputs[3:5] == ["", "nothing to keep here"]

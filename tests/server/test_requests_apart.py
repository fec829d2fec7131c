"""A text gets its own translation whatever else its request holds, and a request that fails costs nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from regard.server.service import Service

from .conftest import serving
from .copying import Copying, capitals
from .predicting import Halting, Mean, following, halting, mean

ENGLISH = ("The dog runs through the garden.", "My brother reads a book this evening.")
GERMAN = "Der Hund läuft durch den Garten. Mein Bruder liest ein Buch."
FRENCH = "Le chien court dans le jardin. Mon frère lit un livre."


def v1(url: str, texts: list[str]) -> list[Any]:
    answer = httpx.post(f"{url}/v1/translate", json={"text": texts, "target": "es", "nbest": 2}, timeout=30).json()
    return [(each["text"], each["model"], each["candidates"], each["source"]) for each in answer["translations"]]


def libretranslate(url: str, texts: list[str]) -> list[Any]:
    fields = {"q": texts, "source": "auto", "target": "es", "alternatives": 1}
    answer = httpx.post(f"{url}/translate", json=fields, timeout=30).json()
    languages = [each["language"] for each in answer["detectedLanguage"]]
    return list(zip(answer["translatedText"], answer["alternatives"], languages, strict=True))


def deepl(url: str, texts: list[str]) -> list[Any]:
    answer = httpx.post(f"{url}/v2/translate", json={"text": texts, "target_lang": "ES"}, timeout=30).json()
    return [(each["text"], each["detected_source_language"]) for each in answer["translations"]]


@pytest.fixture(scope="module")
def polyglot() -> Iterator[str]:
    """A server of three models into one language, each with outputs of its own."""
    says: dict[str, Callable[[str], str]] = {"en": str.upper, "de": str.swapcase, "fr": lambda text: text[::-1]}
    models = [capitals(f"from-{source}", source, "es", read)[0] for source, read in says.items()]
    with serving(models) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("dialect", [v1, libretranslate, deepl])
def test_an_answer_does_not_depend_on_the_other_texts_of_its_request(
    polyglot: str, dialect: Callable[[str, list[str]], list[Any]]
) -> None:
    texts = [ENGLISH[0], GERMAN, ENGLISH[1], FRENCH, GERMAN, "", ENGLISH[0], FRENCH]
    alone = [dialect(polyglot, [text])[0] for text in texts]
    assert len({str(each[0]) for each in alone}) == 5
    for order in (range(len(texts)), [1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 0], [1, 3, 0, 1, 3]):
        assert dialect(polyglot, [texts[number] for number in order]) == [alone[number] for number in order]


class Paying(NamedTuple):
    """A server of four models that may be made to fail."""

    url: str
    port: int
    service: Service
    copying: Copying
    mean: Mean
    book: Halting

    def usage(self) -> int:
        """Characters that this machine has had translated."""
        return self.service.clients.counts.characters("address 127.0.0.1")

    def settle(self) -> None:
        """Wait until nothing is computed any more."""
        end = time.monotonic() + 20
        models = self.service.models.all
        while any(model.load != (0, 0) for model in models) or self.service._auxiliary.load != (0, 0):
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.03)


@contextmanager
def paying(**settings: Any) -> Iterator[Paying]:
    translator, copying = capitals("words", "en", "de")
    (numbers, values), (book, batch) = mean(), halting()
    series = following(values.gate)
    with serving([translator, numbers, book, series], characters=100, **settings) as (port, service):
        yield Paying(f"http://127.0.0.1:{port}", port, service, copying, values, batch)


# Path, fields, and the field that holds the text.
ENDPOINTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "translate": ("/v1/translate", {"text": "a dog"}, "text"),
    "translate, streamed": ("/v1/translate", {"text": "a dog", "stream": True}, "text"),
    "stream": ("/v1/stream", {"text": "a dog", "final": True}, "text"),
    "predict": ("/v1/predict", {"inputs": ["1 2"], "model": "mean"}, "inputs"),
    "predict a translation": ("/v1/predict", {"inputs": ["a dog"], "model": "words"}, "inputs"),
    "score": ("/v1/score", {"targets": ["abc"], "model": "book"}, "targets"),
    "generate": ("/v1/generate", {"prompt": "a", "model": "book"}, "prompt"),
    "generate, streamed": ("/v1/generate", {"prompt": "a", "model": "book", "stream": True}, "prompt"),
    "complete": ("/v1/completions", {"prompt": "a", "model": "book"}, "prompt"),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "model": "book"}, "messages"),
    "embed": ("/v1/embeddings", {"input": ["a"], "model": "book"}, "input"),
    "forecast": ("/v1/forecast", {"table": "date,load\n2020-01-01,3", "model": "series"}, "table"),
    "inspect": ("/v1/inspect", {"text": "1 2", "model": "mean"}, "text"),
    "LibreTranslate": ("/translate", {"q": "a dog", "source": "en", "target": "de"}, "q"),
    "DeepL": ("/v2/translate", {"text": ["a dog"], "target_lang": "DE"}, "text"),
}


def test_a_request_that_is_refused_costs_nothing() -> None:
    with paying(body_bytes=2_000, requests_per_minute=10_000) as server:
        for name, (path, fields, field) in ENDPOINTS.items():
            many = isinstance(fields[field], list)
            wrong = {
                "too long": fields | {field: ["a " * 60] if many else "a " * 60},
                "no text": fields | {field: [] if many else None},
                "unknown model": fields | {"model": "none", "target": "xx", "target_lang": "XX"},
                "body": fields | {"filling": "a" * 3_000},
                "no such letter": fields | {field: ["\ufffe\u2603" * 3] if many else "\u2603"},
            }
            for failure, body in wrong.items():
                before = server.usage()
                answer = httpx.post(server.url + path, json=body, timeout=30)
                if answer.status_code == 200:  # a letter that this model reads
                    assert failure == "no such letter" and field in ("text", "q", "inputs", "input"), (name, failure)
                    continue
                assert answer.status_code in (400, 404, 413, 422), (name, failure, answer.text)
                server.settle()
                assert server.usage() == before, (name, failure)


def begin(server: Paying) -> None:
    """Load the models, and what the first request imports."""
    for path, fields, _ in ENDPOINTS.values():
        if "book" not in fields.values():
            assert httpx.post(server.url + path, json=fields, timeout=30).status_code == 200


def stall(server: Paying, pause: float) -> None:
    """Make all models slow: ``pause`` seconds for each step of a translation, the others for ever."""
    server.copying.pause = pause
    server.mean.gate.clear()
    server.book.allowed = -1


def test_a_request_whose_time_is_over_costs_nothing() -> None:
    with paying(seconds=0.4) as server:
        begin(server)
        stall(server, 0.2)
        before = server.usage()
        assert before > 0
        for name, (path, fields, _) in ENDPOINTS.items():
            if name in ("score", "inspect"):
                continue  # computed in one pass
            answer = httpx.post(server.url + path, json=fields, timeout=30)
            assert answer.status_code == 503, (name, answer.text)
        server.settle()
        assert server.usage() == before


def test_a_client_that_hangs_up_pays_nothing() -> None:
    with paying(seconds=20) as server:
        begin(server)
        stall(server, 0.25)  # six steps: the client goes before the last of them
        for name, (path, fields, _) in ENDPOINTS.items():
            if name in ("score", "inspect"):
                continue
            before = server.usage()
            body = json.dumps(fields)
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
                end = time.monotonic() + 20
                while server.usage() == before:  # until it is charged, and computed
                    assert time.monotonic() < end, name
                    time.sleep(0.01)
            server.settle()
            end = time.monotonic() + 20
            while server.usage() != before:  # the server may not have heard yet that the client went
                assert time.monotonic() < end, name
                time.sleep(0.01)


def test_a_model_that_fails_costs_nothing_and_an_answer_its_characters() -> None:
    with paying() as server:
        before = server.usage()
        server.copying.broken = True
        for path, fields, _ in ENDPOINTS.values():
            if {"book", "mean", "series"}.isdisjoint(map(str, fields.values())):
                assert httpx.post(server.url + path, json=fields, timeout=30).status_code == 500
        httpx.post(f"{server.url}/v1/predict", json={"inputs": ["13"], "model": "mean"}, timeout=30)
        assert server.usage() == before
        server.copying.broken = False
        assert httpx.post(f"{server.url}/v1/translate", json={"text": "a dog"}, timeout=30).status_code == 200
        assert server.usage() == before + len("a dog")

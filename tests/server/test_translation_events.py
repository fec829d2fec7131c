"""Translations as events: sentences that are never taken back, then the same response as without events."""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.server.keys import KeyStore, add_key
from regard.server.streamed_translation import MAX_GROUP, groups

from .conftest import Running, serving
from .copying import capitals
from .test_generate import events, until

Serve = Callable[..., Running]
TEXT = "- A dog runs. It barks!\n\n  1. Now {name} sleeps.  \n2. So do I, since 1,500 years."


def send(server: Running, text: Any, *, stream: bool = True, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/translate", json={"text": text, "stream": stream} | fields, timeout=60)


def used(server: Running) -> int:
    """Return the number of characters that this machine was charged for."""
    return server.service.clients.counts.characters("address 127.0.0.1")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    model, copying = capitals()
    with serving([model], characters=2_000, texts=5) as (port, service):
        yield Running(f"http://127.0.0.1:{port}", port, model, copying, service)


def texts() -> list[str]:
    """Return texts of random sentences, spaces, marks and blank lines."""
    draws, parts = (
        random.Random(3),
        ["A dog.", "It barks!", "\n", "\n\n", " ", "  ", "- ", "1. ", "...", "No end", "é ♞."],
    )
    return ["".join(draws.choices(parts, k=draws.randint(1, 30))) for _ in range(12)]


@pytest.mark.parametrize("text", [TEXT, "", " \n", "one", "A. " * 40, *texts()])
def test_sentences_concatenate_to_the_translation_and_the_last_event_is_the_response(
    server: Running, text: str
) -> None:
    streamed, whole = send(server, text), send(server, text, stream=False).json()
    assert streamed.status_code == 200 and streamed.headers["content-type"].startswith("text/event-stream")
    *sentences, (name, last) = events(streamed.text)
    assert name == "" and last == whole
    (translation,) = whole["translations"]
    assert [(name, data["index"]) for name, data in sentences] == [
        ("", index) for index in range(len(translation["sentences"]))
    ]
    if sentences:
        assert "".join(data["new"] for _, data in sentences) == translation["text"]
    for (_, data), sentence in zip(sentences, translation["sentences"], strict=True):
        assert data.keys() == {"index", "new"} and sentence["text"] in data["new"]


def test_terms_and_settings_apply_to_events(server: Running) -> None:
    fields: dict[str, Any] = {"glossary": {"dog": "Rüde"}, "beam": 2, "model": "capitals"}
    streamed = events(send(server, TEXT, **fields).text)
    assert streamed[-1][1] == send(server, TEXT, stream=False, **fields).json()
    assert "RÜDE" in streamed[0][1]["new"].upper() and "{name}" in streamed[2][1]["new"]


def test_the_first_sentence_is_translated_alone_and_the_others_together() -> None:
    assert list(groups(0)) == [] and list(groups(1)) == [(0, 1)] and list(groups(6)) == [(0, 1), (1, 3), (3, 6)]
    limits = list(groups(100))
    assert [end for _, end in limits[:-1]] == [start for start, _ in limits[1:]] and limits[-1][1] == 100
    assert max(end - start for start, end in limits) == MAX_GROUP


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        ({"text": ["a", "b"]}, 400, "`stream` cannot be combined with 2 texts"),
        ({"attention": True}, 400, "`stream` cannot be combined with `attention`"),
        ({"nbest": 2}, 400, "`stream` cannot be combined with `nbest` 2"),
        ({"format": "html"}, 400, "`stream` cannot be combined with `format` html"),
        ({"format": "xml"}, 400, "`format` xml"),
        ({"format": "markdown"}, 400, "`format` markdown"),
        ({"text": []}, 400, "contains no text"),
        ({"text": "a" * 2_001}, 400, "exceeds text limit (2000)"),
        ({"beam": 11}, 400, "beam 11 exceeds the limit"),
        ({"model": "none"}, 404, "does not exist"),
        ({"target": "xx"}, 400, "is not supported"),
        ({"stream": 3}, 422, "stream"),
    ],
)
def test_a_request_that_cannot_be_streamed_is_refused_with_a_status(
    server: Running, fields: dict[str, Any], status: int, problem: str
) -> None:
    before = used(server)
    answer = send(server, **{"text": "a dog"} | fields)
    assert (answer.status_code, problem in answer.json()["error"]) == (status, True), answer.text
    assert used(server) == before


def test_one_text_in_a_list_is_one_text(server: Running) -> None:
    assert events(send(server, ["a dog"]).text) == events(send(server, "a dog").text)


def test_a_text_is_charged_and_counted_once(server: Running) -> None:
    before, counted = used(server), _counted(server)
    send(server, TEXT)
    assert used(server) == before + len(TEXT)
    after = _counted(server)
    assert (after[0] - counted[0], after[1] - counted[1]) == (len(TEXT), 4)


def _counted(server: Running) -> tuple[float, float]:
    """Return the counts of characters and sentences in the metrics."""
    text = httpx.get(f"{server.url}/metrics").text
    first, second = (
        re.search(rf"^regard_{name}_total (.*)$", text, re.MULTILINE) for name in ("characters", "sentences")
    )
    assert first is not None and second is not None
    return float(first[1]), float(second[1])


def test_keys_rates_and_quotas_apply_before_the_first_event(tmp_path: Path) -> None:
    keys = {
        (rate, quota): add_key(tmp_path / "keys", f"{rate}", requests_per_minute=rate, characters=quota)
        for rate, quota in ((2, None), (100, 10))
    }
    with serving([capitals()[0]], keys=KeyStore(tmp_path / "keys")) as (port, _):

        def status(key: str | None, text: str) -> int:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            body = {"text": text, "stream": True}
            return httpx.post(f"http://127.0.0.1:{port}/v1/translate", json=body, headers=headers).status_code

        assert [status(key, "a") for key in (None, "wrong")] == [401, 403]
        assert [status(keys[2, None], "a dog") for _ in range(3)] == [200, 200, 429]
        assert [status(keys[100, 10], text) for text in ("a dog", "a dog.", "a dog")] == [200, 429, 200]


def test_sentences_arrive_before_the_end_and_a_client_that_leaves_ends_the_rest(serve: Serve) -> None:
    server = serve()
    send(server, "a")
    server.copying.pause = 0.02
    body = {"text": "A dog runs. " + "It barks for long. " * 30, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/translate", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines).removeprefix("data: ")) == {"index": 0, "new": "A DOG RUNS. "}
        next(lines)
        assert json.loads(next(lines).removeprefix("data: "))["index"] == 1
        until(lambda: server.model.load[1] > 0)  # others are in computation
    until(lambda: server.model.load == (0, 0))
    steps = server.copying.steps
    assert steps < 8 * len("It barks for long. ")  # not all groups were searched
    server.copying.pause = 0.0
    assert send(server, "a dog").status_code == 200


def test_clients_that_leave_or_read_nothing_disturb_no_other(serve: Serve) -> None:
    server = serve(limits={"rows": 4})
    whole = send(server, TEXT).text
    server.copying.pause = 0.002
    body = json.dumps({"text": TEXT, "stream": True})
    head = "POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    raw = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
    silent = socket.create_connection(("127.0.0.1", server.port))
    silent.sendall(raw)
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(raw)
    with ThreadPoolExecutor(8) as pool:
        assert {answer.text for answer in pool.map(lambda _: send(server, TEXT), range(16))} == {whole}
    until(lambda: server.model.load == (0, 0))
    silent.close()


def test_a_text_whose_time_is_over_ends_with_an_error(serve: Serve) -> None:
    server = serve(seconds=1.0)
    send(server, "a")
    server.copying.pause = 0.02
    streamed = send(server, "A dog. " + "It barks for long. " * 30)
    assert streamed.status_code == 200
    *sentences, (name, last) = events(streamed.text)
    assert sentences and name == "error" and "took more than 1 s" in last["error"]
    assert [data["index"] for _, data in sentences] == list(range(len(sentences)))
    until(lambda: server.model.load == (0, 0))
    before, server.copying.pause = used(server), 0.5
    late = send(server, TEXT)
    assert late.status_code == 503 and "retry-after" in late.headers and used(server) == before


def test_a_failure_before_the_first_sentence_has_a_status_and_a_later_one_an_event(serve: Serve) -> None:
    server = serve(limits={"waiting": 1})
    send(server, "a")
    server.copying.pause = 0.2
    with ThreadPoolExecutor(3) as pool:
        for load in ((0, 1), (1, 1)):
            pool.submit(send, server, "a dog")
            until(lambda load=load: server.model.load == load)  # type: ignore[misc]
        full = send(server, "a dog")
        assert full.status_code == 429 and int(full.headers["retry-after"]) >= 1
    until(lambda: server.model.load == (0, 0))
    server.copying.pause, server.copying.broken = 0.0, True
    assert send(server, "a dog").status_code == 500
    server.copying.broken = False
    first, (name, last) = events(send(server, "A dog. It barks. It runs.").text)  # two more do not fit into the queue
    assert first[1]["index"] == 0 and name == "error" and "2 inputs exceed the queue of 1" in last["error"]

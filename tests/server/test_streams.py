"""Streams over HTTP: nothing is taken back, retries change nothing, and clients do not disturb each other."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from regard.inspection.aligner import Aligner
from regard.server.batching.served import ServedModel
from regard.server.service import Service
from tests.streams import POLICIES, stream, streaming, translator

from .conftest import serving

SOURCE = "ab cab b bca abba acab"
TEXTS = [SOURCE, "bca ab", "cab cab b", "acb cabb ba ab abba", "c", "abc b bca cab ab ab"]


class Head:
    """An inspector that knows the head of ``tests.streams`` only."""

    aligner = Aligner("decoder.0.source", 0, 1, None, 0)


class Streams(NamedTuple):
    url: str
    port: int
    service: Service

    def post(self, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/stream", json=body, timeout=60)

    def settle(self) -> None:
        """Wait until no job waits or runs."""
        end = time.monotonic() + 20
        while any(model.load != (0, 0) for model in self.service.models.all):
            assert time.monotonic() < end
            time.sleep(0.01)


@contextmanager
def served(name: str = "transformer", *, inspector: Any = Head, **settings: Any) -> Iterator[Streams]:
    model = ServedModel(
        "small", task="translation", load_predictor=lambda: translator(name), serves=["translate"],
        settings=translator(name).search, source="en", target="de", inspector=inspector and inspector(),
    )  # fmt: skip
    with serving([model], **settings) as (port, service):
        yield Streams(f"http://127.0.0.1:{port}", port, service)


@pytest.fixture(scope="module")
def server() -> Iterator[Streams]:
    with served() as running:
        yield running


def follow(server: Streams, text: str, ends: list[int], **settings: Any) -> list[dict[str, Any]]:
    """Send each beginning of a text, twice, and the whole text; return the answers."""
    state: dict[str, Any] = {}
    answers = []
    for end in [*ends, len(text)]:
        body = {"text": text[:end], "final": end == len(text), **state, **settings}
        first, second = server.post(**body), server.post(**body)
        assert first.status_code == 200, first.text
        assert first.json() == second.json()  # a retry does no harm
        answers.append(first.json())
        state = {name: answers[-1][name] for name in ("committed", "unstable", "cursor")}
    return answers


@pytest.mark.parametrize(("policy", "lag"), POLICIES)
def test_nothing_is_taken_back_and_the_answers_are_those_of_the_model(server: Streams, policy: Any, lag: int) -> None:
    ends = sorted(random.Random(f"{policy} {lag}").sample(range(1, len(SOURCE)), 6))
    answers = follow(server, SOURCE, ends, policy=policy, lag=lag)
    committed = ""
    for answer in answers:
        assert answer["committed"] == committed + answer["new"]
        committed = answer["committed"]
    assert answers[-1]["final"] and answers[-1]["unstable"] == "" and answers[-1]["read"] == len(SOURCE.split())
    expected = stream(streaming(translator(), policy, lag), SOURCE, ends)
    names = "committed", "new", "unstable", "final", "rest", "read", "cursor"
    assert [tuple(answer[name] for name in names) for answer in answers] == [tuple(output) for output in expected]


def test_many_streams_at_once_are_as_each_alone(server: Streams) -> None:
    def run(number: int) -> str:
        text = TEXTS[number % len(TEXTS)]
        policy, lag = POLICIES[number % len(POLICIES)]
        ends = [end for end, letter in enumerate(text, 1) if letter == " "]
        return str(follow(server, text, ends, policy=policy, lag=lag)[-1]["committed"])

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(run, range(32)))
    assert together == [run(number) for number in range(32)]


def test_a_source_that_is_taken_back_starts_again(server: Streams) -> None:
    first = server.post(text="ab cab ").json()
    state = {name: first[name] for name in ("committed", "unstable", "cursor")}
    refused = server.post(text="ab abc b ", **state)
    assert refused.status_code == 409 and "start again" in refused.json()["error"]
    assert server.post(text="ab abc b ").status_code == 200
    assert server.post(text="ab cab b ", **state).status_code == 200  # the stream itself continues


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"policy": "wait-k", "lag": 0}, "wait-k requires a lag of at least 1"),
        ({"policy": "wait"}, "policy"),
        ({"lag": 1001}, "lag"),
        ({"lag": -1}, "lag"),
        ({"committed": "zebra"}, "cannot continue 'zebra'"),
        ({"committed": "ab  ab"}, "cannot continue"),
        ({"text": 3}, "text"),
        ({"text": None}, "text"),
        ({"commited": "ab"}, "committed"),
        ({"cursor": "x" * 50}, "cursor"),
        ({"final": "yes"}, "final"),
    ],
)
def test_wrong_requests_are_named(server: Streams, body: dict[str, Any], problem: str) -> None:
    answer = server.post(**{"text": "ab cab "} | body)
    assert answer.status_code in (400, 422) and problem in answer.json()["error"], answer.text


def test_a_cursor_that_is_none_conflicts(server: Streams) -> None:
    assert server.post(text="ab cab ", cursor="2-00000000").status_code == 409
    assert server.post(text="ab cab ", cursor="999999999-00000000").status_code == 409


def test_alignatt_requires_a_head() -> None:
    with served(inspector=None) as server:
        answer = server.post(text="ab cab ", policy="alignatt")
        assert answer.status_code == 400 and "alignatt requires attention" in answer.json()["error"]
        assert server.post(text="ab cab ").status_code == 200


def test_half_a_word_is_not_read_and_a_sentence_is_closed(server: Streams) -> None:
    assert server.post(text="ab ca").json() == server.post(text="ab ").json()
    closed = server.post(text="Ab cab ab.  Cab b ").json()
    assert closed["final"] and closed["rest"] == "Cab b "
    assert not server.post(text="Ab cab ab.  Cab b ", split=False).json()["final"]


def test_a_client_that_hangs_up_or_stalls_disturbs_no_other(server: Streams) -> None:
    body = json.dumps({"text": SOURCE + " ", "policy": "local-agreement"})
    head = "POST /v1/stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    stalled = socket.create_connection(("127.0.0.1", server.port))
    stalled.sendall(f"{head}{body[:10]}".encode())  # the rest never comes
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"{head}{body}".encode())
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(follow(server, SOURCE, [7, 12])[-1]["committed"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(answers) == 4 and len(set(answers)) == 1
    server.settle()
    stalled.close()


def test_steps_of_streams_have_a_limit_of_their_own() -> None:
    with served(requests_per_minute=3) as server:
        first = server.post(text="ab cab ").json()
        state = {name: first[name] for name in ("committed", "unstable", "cursor")}
        for _ in range(10):
            assert server.post(text="ab cab b ", **state).status_code == 200
        begins = [server.post(text="ab ").status_code for _ in range(3)]
        assert begins == [200, 200, 429]
        steps = [server.post(text="ab cab b ", **state).status_code for _ in range(81)]
        assert steps.count(429) == 1  # 3 × 30 in a minute


def test_only_new_words_are_charged(server: Streams) -> None:
    def used() -> int:
        return server.service.clients.counts.characters("address 127.0.0.1")

    before = used()
    first = server.post(text="ab cab ").json()
    assert used() == before + 7
    server.post(text="ab cab bca ", cursor=first["cursor"])
    assert used() == before + 7 + 4


def test_a_source_that_is_too_long_is_refused() -> None:
    with served(characters=30) as server:
        assert server.post(text="ab " * 20).status_code == 400
        assert server.post(text="ab ", committed="ab " * 20).status_code == 400

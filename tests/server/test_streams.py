"""Streams over HTTP: nothing is taken back, retries change nothing, and clients do not disturb each other."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from regard.inference.run_search import run_search
from regard.inference.text_stream import StreamInput, StreamOutput, cursor_of
from regard.inspection.aligner import Aligner
from regard.server.api.stream_api import _Finisher
from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel
from regard.server.keys import KeyStore, add_key
from regard.server.service import Service
from tests.streams import POLICIES, policy_settings, stream, streaming, translator

from .conftest import serving
from .copying import capitals
from .predicting import mean

SOURCE = "ab cab b bca abba acab"
TEXTS = [SOURCE, "bca ab", "cab cab b", "acb cabb ba ab abba", "c", "abc b bca cab ab ab"]
HEAD = "POST /v1/stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Head:
    """An inspector that knows the head of ``tests.streams`` only."""

    aligner = Aligner("decoder.0.source", 0, 1, None, 0)


class Streams(NamedTuple):
    url: str
    port: int
    service: Service

    def post(self, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/stream", json=body, timeout=60)

    def load(self) -> tuple[int, int]:
        """Return the number of waiting and of running jobs of the model."""
        return self.service.models.get("small").load

    def settle(self) -> None:
        """Wait until no job waits or runs."""
        until(lambda: self.load() == (0, 0))

    def used(self) -> int:
        """Return the number of characters that this machine was charged for."""
        return self.service.clients.counts.characters("address 127.0.0.1")

    def send(self, **body: Any) -> socket.socket:
        """Send a request and return its connection, without waiting for the answer."""
        raw = json.dumps(body)
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(f"{HEAD}content-length: {len(raw)}\r\n\r\n{raw}".encode())
        return connection


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def served(
    name: str = "transformer", *, inspector: Any = Head, others: Sequence[ServedModel] = (),
    limits: Limits | None = None, reads_whole: bool = False, **settings: Any,
) -> Iterator[Streams]:  # fmt: skip
    model = ServedModel(
        "small", task="translation", load_predictor=lambda: translator(name), serves=["translate"],
        settings=translator(name).search, source="en", target="de", inspector=inspector and inspector(),
        limits=limits, reads_whole=reads_whole,
    )  # fmt: skip
    with serving([model, *others], **settings) as (port, service):
        yield Streams(f"http://127.0.0.1:{port}", port, service)


class Gate:
    """Holds the model ``reference``, which computes one token in each step, after the first step of a search."""

    def __init__(self) -> None:
        self.open, self.allowed, self.steps = threading.Event(), 0, 0
        self.decoding = translator("reference").decoding
        self._step = self.decoding.step
        self.open.set()

    def close(self) -> None:
        """Hold the model after one more step, by which a search is accepted."""
        self.allowed = self.steps + 1
        self.open.clear()

    def __call__(self, *arguments: Any) -> Any:
        assert self.steps < self.allowed or self.open.wait(20)
        self.steps += 1
        return self._step(*arguments)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(gate.decoding, "step", gate)
    yield gate
    gate.open.set()


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


def answer_of(answer: dict[str, Any]) -> StreamOutput:
    """Return the output in an answer."""
    return StreamOutput(**{name: answer[name] for name in StreamOutput._fields})


@pytest.mark.parametrize(("policy", "lag"), POLICIES)
def test_nothing_is_taken_back_and_the_answers_are_those_of_the_model(server: Streams, policy: Any, lag: int) -> None:
    ends = sorted(random.Random(f"{policy} {lag}").sample(range(1, len(SOURCE)), 6))
    answers = follow(server, SOURCE, ends, **policy_settings(policy, lag))
    committed = ""
    for answer in answers:
        assert answer["committed"] == committed + answer["new"]
        committed = answer["committed"]
    assert answers[-1]["final"] and answers[-1]["unstable"] == "" and answers[-1]["read"] == len(SOURCE.split())
    expected = stream(streaming(translator(), policy, lag), SOURCE, ends)
    assert [answer_of(answer) for answer in answers] == expected


def test_many_streams_at_once_are_as_each_alone(server: Streams) -> None:
    def run(number: int) -> str:
        text = TEXTS[number % len(TEXTS)]
        policy, lag = POLICIES[number % len(POLICIES)]
        ends = [end for end, letter in enumerate(text, 1) if letter == " "]
        return str(follow(server, text, ends, **policy_settings(policy, lag))[-1]["committed"])

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
        ({"agree": 1}, "agree"),
        ({"agree": 9}, "agree"),
        ({"policy": "alignatt", "agree": 3}, "alignatt does not compare hypotheses"),
        ({"committed": "zebra"}, "cannot continue 'zebra'"),
        ({"committed": "ab  ab"}, "cannot continue"),
        ({"text": 3}, "text"),
        ({"text": None}, "text"),
        ({"commited": "ab"}, "committed"),
        ({"cursor": "x" * 65}, "cursor"),
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


def test_outputs_that_wait_for_attention_share_a_pass_and_a_cancelled_one_harms_no_other() -> None:
    """Searches that end while a pass runs are completed together by the next one."""
    streaming_text = streaming(translator("transformer"), "alignatt", 1)
    works = [streaming_text.plan(StreamInput(text)) for text in ("ab cab b ", "bca abba ", "acab ")]
    inputs = [(number, work.input) for number, work in enumerate(works)]
    search = streaming_text.search
    found = {n: best for done in run_search(translator("transformer").decoding, inputs, search, rows=8)
             for n, (best, *_) in done}  # fmt: skip
    expected = [streaming_text.finish([work], [found[n]])[0] for n, work in enumerate(works)]
    sizes, finish = [], streaming_text.finish
    streaming_text.finish = lambda plans, best: sizes.append(len(plans)) or finish(plans, best)

    async def all_at_once() -> list[Any]:
        class Model:
            async def run_serial(self, work: Any) -> None:
                await gate.wait()
                work()

        gate, finisher = asyncio.Event(), _Finisher(Model())
        tasks = [asyncio.ensure_future(finisher.finish(streaming_text, work, found[n])) for n, work in enumerate(works)]
        await asyncio.sleep(0)
        finisher._waiting[1].output.cancel()
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, cancelled, last = asyncio.run(all_at_once())
    assert [first, last] == [expected[0], expected[2]] and isinstance(cancelled, asyncio.CancelledError)
    assert sizes == [2]


def test_a_beam_is_limited_and_changes_the_hypothesis(server: Streams) -> None:
    texts = [{"text": text + " ", "final": True} for text in TEXTS]
    one, several = ([server.post(beam=beam, **text).json()["committed"] for text in texts] for beam in (1, 5))
    default = [server.post(**text).json()["committed"] for text in texts]
    assert default in (one, several) and one != several
    refused = server.post(text="ab ", beam=11)
    assert refused.status_code == 400 and "beam: at most 10" in refused.json()["error"]
    assert server.post(text="ab ", beam=0).status_code == 422


def test_half_a_word_is_not_read_and_a_sentence_is_closed(server: Streams) -> None:
    assert server.post(text="ab ca").json() == server.post(text="ab ").json()
    closed = server.post(text="Ab cab ab.  Cab b ").json()
    assert closed["final"] and closed["rest"] == "Cab b "
    assert not server.post(text="Ab cab ab.  Cab b ", split=False).json()["final"]


def test_a_client_that_hangs_up_or_stalls_disturbs_no_other(server: Streams) -> None:
    stalled = socket.create_connection(("127.0.0.1", server.port))
    stalled.sendall(f'{HEAD}content-length: 100\r\n\r\n{{"text": '.encode())  # the rest never comes
    for _ in range(20):
        server.send(text=SOURCE + " ").close()
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


def test_a_client_that_hangs_up_in_the_middle_ends_its_search_and_no_other(gate: Gate) -> None:
    with served("reference") as server, ThreadPoolExecutor(1) as pool:
        whole = server.post(text=SOURCE, final=True).json()
        steps, before = gate.steps, server.used()
        assert steps > 10
        gate.close()
        leaving = [server.send(text=SOURCE, final=True)]
        until(lambda: server.load() == (0, 1))  # this one is searched, the others wait
        other = pool.submit(lambda: server.post(text=SOURCE, final=True).json())
        leaving += [server.send(text=text, final=True, policy="wait-k") for text in TEXTS[1:4]]
        until(lambda: server.load() == (4, 1))
        for connection in leaving:
            connection.close()
        until(lambda: server.used() == before + len(SOURCE))  # the server knows that they have gone
        gate.open.set()
        assert other.result() == whole
        server.settle()
        assert gate.steps <= 2 * steps + 2  # nothing more is searched for those that have gone


def test_a_client_may_change_its_mind_about_words_that_were_not_read(server: Streams) -> None:
    settings = {"policy": "local-agreement", "lag": 3}
    first = server.post(text="ab cab b bca ab", **settings).json()
    assert first["read"] == 3
    state = {name: first[name] for name in ("committed", "unstable", "cursor")}
    changed = server.post(text="ab cab b acab c ab", final=True, **state, **settings).json()
    assert changed["final"] and changed["committed"].startswith(first["committed"])
    assert server.post(text="ab cab c bca ", **state, **settings).status_code == 409
    (expected,) = streaming(translator(), "local-agreement", 3).advance([StreamInput("ab cab c bca ")])
    assert answer_of(server.post(text="ab cab c bca ", **settings).json()) == expected


@pytest.mark.parametrize("policy", ["wait-k", "local-agreement"])
def test_a_stream_whose_time_is_over_is_refused_and_costs_nothing(gate: Gate, policy: str) -> None:
    with served("reference", seconds=2) as server, ThreadPoolExecutor(1) as pool:
        assert server.post(text="ab ", policy=policy).status_code == 200
        before = server.used()
        gate.close()
        accepted = pool.submit(lambda: server.post(text=SOURCE, policy=policy, final=True))
        until(lambda: server.load() == (0, 1))
        time.sleep(2.1)
        gate.open.set()
        late = accepted.result()
        assert late.status_code == 503 and int(late.headers["retry-after"]) >= 1
        assert "The request took more than" in late.json()["error"]
        server.settle()
        assert server.used() == before
        assert server.post(text="ab ", policy=policy).status_code == 200


def test_a_pass_for_alignatt_has_the_time_of_the_request_only() -> None:
    done = threading.Event()

    class Slow:
        @property
        def aligner(self) -> None:
            done.wait(10)

    with served(inspector=Slow, seconds=2) as server:
        began = time.monotonic()
        late = server.post(text="ab cab ", policy="alignatt")
        assert late.status_code == 503 and "more than 2 s" in late.text and time.monotonic() - began < 8
        assert server.post(text="ab cab ").status_code == 200  # other streams do not wait for that pass
        done.set()


def test_streams_beyond_the_queue_are_refused(gate: Gate) -> None:
    with served("reference", limits=Limits(rows=1, waiting=1)) as server, ThreadPoolExecutor(2) as pool:
        gate.close()
        accepted = []
        for load in ((0, 1), (1, 1)):
            accepted.append(pool.submit(lambda: server.post(text=SOURCE, final=True)))
            until(lambda load=load: server.load() == load)  # type: ignore[misc]
        before = server.used()
        full = server.post(text=SOURCE, final=True)
        assert full.status_code == 429 and int(full.headers["retry-after"]) >= 1 and server.used() == before
        gate.open.set()
        first, second = (answer.result() for answer in accepted)
        assert first.status_code == second.status_code == 200 and first.json() == second.json()


def test_the_model_of_a_stream_is_chosen_by_name_or_languages() -> None:
    other, (numbers, _) = capitals("other", "fr", "es")[0], mean()
    with served(others=[other, numbers]) as server:
        for fields, model in (
            ({}, "small"), ({"source": "en"}, "small"), ({"source": "fr"}, "other"), ({"target": "es"}, "other"),
            ({"source": "auto", "target": "de"}, "small"), ({"model": "other"}, "other"),
        ):  # fmt: skip
            assert server.post(text="", **fields).json()["model"] == model, fields
        for fields, status, problem in (
            ({"source": "xx"}, 400, "xx to any language is not supported"),
            ({"model": "mean"}, 400, "cannot translate"),
            ({"model": "none"}, 404, "does not exist"),
        ):
            refused = server.post(text="", **fields)
            assert refused.status_code == status and problem in refused.json()["error"], refused.text


def test_a_model_of_whole_texts_closes_no_sentence() -> None:
    with served(reads_whole=True) as server:
        assert not server.post(text="Ab cab ab.  Cab b ").json()["final"]


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
    before = server.used()
    first = server.post(text="ab cab ").json()
    assert server.used() == before + 7
    server.post(text="ab cab bca ", cursor=first["cursor"])
    assert server.used() == before + 7 + 4
    server.post(text="ab abc bca ", cursor=first["cursor"])  # 409
    assert server.used() == before + 7 + 4
    counted = httpx.get(f"{server.url}/metrics").text
    assert f"regard_characters_total {before + 11:.1f}" in counted


def test_a_forged_cursor_does_not_evade_a_quota(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "alice", requests_per_minute=None, characters=30)
    text = "ab cab bca"
    forged = {"text": text, "cursor": cursor_of(text.split()), "final": True}
    with served(keys=KeyStore(tmp_path / "keys")) as server:

        def post(key: str | None) -> httpx.Response:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            return httpx.post(f"{server.url}/v1/stream", json=forged, headers=headers, timeout=60)

        assert [post(wrong).status_code for wrong in (None, "wrong")] == [401, 403]
        assert [post(key).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert server.service.clients.counts.characters("key alice") == 30


def test_a_source_that_is_too_long_is_refused() -> None:
    with served(characters=30) as server:
        assert server.post(text="ab " * 20).status_code == 400
        assert server.post(text="ab ", committed="ab " * 20).status_code == 400

"""Streams of sound over a WebSocket: words as in Python, and clients that stall, hang up or send wrong messages."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from regard.inference.continued_text import ContinuedSegments
from regard.server.api.listening_api import _Messages
from regard.server.batching.jobs import WorkJob
from regard.server.batching.served import ServedModel
from regard.server.keys import KeyStore, add_key
from regard.server.service import Service
from regard.server.settings import ServerSettings
from tests.speech import RATE
from tests.speech_streams import Sound, listen, recognizer, sound, streaming
from tests.streams import streaming as streaming_text
from tests.streams import translator

from .conftest import create_server, running, serving

PARTS: list[str | float] = [0.3, "ab b a", 1.0, "c ab bca", 1.0, "b", 0.2]


class Ears(NamedTuple):
    """A server that recognizes."""

    port: int
    service: Service

    def connect(self, **options: Any) -> Any:
        return connect(f"ws://127.0.0.1:{self.port}/v1/listen", open_timeout=30, close_timeout=1, **options)

    def load(self) -> tuple[int, int]:
        return self.service.models.get("speech").load


def model(name: str = "ctc") -> ServedModel:
    return ServedModel("speech", task="recognition", load_predictor=lambda: recognizer(name), serves=["transcribe"])


def translation() -> ServedModel:
    return ServedModel(
        "small", task="translation", load_predictor=lambda: translator("transformer"), serves=["translate"],
        settings=translator("transformer").search, source="en", target="de",
    )  # fmt: skip


@contextmanager
def hearing(name: str = "ctc", **options: Any) -> Iterator[Ears]:
    with serving([model(name), translation()], **options) as (port, service):
        yield Ears(port, service)


@pytest.fixture(scope="module")
def ears() -> Iterator[Ears]:
    with hearing() as ears:
        yield ears


def pcm(samples: Sound) -> bytes:
    return (samples * 32767).astype("<i2").tobytes()


def received(connection: ClientConnection) -> list[dict[str, Any]]:
    """Return the messages of the server until it closes the connection."""
    messages = []
    try:
        while True:
            messages.append(json.loads(connection.recv(timeout=30)))
    except ConnectionClosed:
        return messages


def heard(ears: Ears, contents: bytes, ends: Sequence[int] = (), **settings: Any) -> list[dict[str, Any]]:
    """Return the messages for a sound that arrives in pieces of bytes."""
    with ears.connect() as connection:
        with suppress(ConnectionClosed):  # the server may refuse the settings before all is sent
            connection.send(json.dumps({"rate": RATE} | settings))
            for first, end in pairwise([0, *ends, len(contents)]):
                connection.send(contents[first:end])
            connection.send('{"final": true}')
        return received(connection)


def in_python(contents: bytes, name: str = "ctc", **options: Any) -> list[dict[str, Any]]:
    samples = np.frombuffer(contents, "<i2").astype(np.float32) / 32768
    return [output.as_dict() for output in listen(streaming(recognizer(name), **options), samples)]


@pytest.mark.parametrize("ends", [(), (1, 6000), range(999, 30_000, 999)])
def test_outputs_are_those_of_python(ears: Ears, ends: Sequence[int]) -> None:
    contents = pcm(sound(PARTS))
    outputs = heard(ears, contents, [end for end in ends if end < len(contents)])
    assert outputs == in_python(contents)
    assert [output["closing"] for output in outputs if output["final"]] and any(output["words"] for output in outputs)


def test_settings_change_steps_and_segments(ears: Ears) -> None:
    contents, lengths = pcm(sound(PARTS)), {"step": 0.3, "silence": 0.4, "longest": 3.0}
    assert heard(ears, contents, **lengths) == in_python(contents, **lengths) != in_python(contents)
    late = in_python(contents, policy="local-agreement of 3", step=0.2)
    assert heard(ears, contents, agree=3, step=0.2) == late != in_python(contents, step=0.2)


@pytest.mark.parametrize(
    ("policy", "lag", "settings"),
    [
        ("local-agreement", 1, {}),
        ("wait-k", 2, {"translate_policy": "wait-k", "translate_lag": 2}),
        ("wait-k", 5, {"translate_policy": "wait-k"}),
        ("local-agreement of 3", 1, {"translate_agree": 3}),
    ],
)
def test_committed_words_are_translated(ears: Ears, policy: str, lag: int, settings: dict[str, Any]) -> None:
    contents, model = pcm(sound(PARTS)), streaming_text(translator("transformer"), policy, lag)
    text, expected = ContinuedSegments(), []
    for output in in_python(contents):
        grown, text = text.advance(model, output["new"].strip(), final=output["final"])
        expected.append(output | grown._asdict())
    outputs = heard(ears, contents, translate="small", **settings)
    assert outputs == expected and any(output["committed"] for output in outputs)


def test_half_a_sample_at_the_end_and_an_empty_stream(ears: Ears) -> None:
    contents = pcm(sound(PARTS))
    assert heard(ears, contents + b"\x00") == in_python(contents)
    assert heard(ears, b"") == []


WRONG: list[tuple[list[Any], str]] = [
    ([b"\x00\x00"], "the first message must be settings"),
    (["{"], "must be JSON"),
    (["[1]"], "must be a JSON object"),
    (["[" * 4_000], "must be JSON"),
    (['{"model": "' + "x" * 4_000 + '"}'], "more than 4,000 characters"),
    (['{"rat": 1}'], "rat"),
    (['{"rate": "x"}'], "rate"),
    (['{"rate": 1}'], "rate of raw sound is 1"),
    (['{"rate": 99999999999}'], "rate of raw sound"),
    (['{"step": 0}'], "step"),
    (['{"step": 1e999}'], "step"),
    (['{"longest": 1e6}'], "longest"),
    (['{"policy": "wait-k"}'], "wait-k counts source words"),
    (['{"policy": "alignatt"}'], "alignatt requires attention"),
    (['{"policy": "local-agreement", "lag": 0}'], "lag"),
    (['{"lag": 1001}'], "lag"),
    (['{"model": "none"}'], "none"),
    (['{"model": "small"}'], "cannot transcribe"),
    (['{"translate": "speech"}'], "speech"),
    (['{"translate": "small", "translate_policy": "alignatt"}'], "alignatt"),
    (['{"translate": "small", "translate_lag": 0}'], "lag of at least 1"),
    (['{"translate_policy": "wait"}'], "translate_policy"),
    (['{"translate_policy": "wait-k"}'], "require translate"),
    (['{"translate_lag": 2}'], "require translate"),
    (['{"translate_agree": 3}'], "require translate"),
    (['{"agree": 1}'], "agree"),
    ([json.dumps({"rate": RATE}), '{"final": false}'], "send sound"),
    ([json.dumps({"rate": RATE}), b"\x00\x00", '{"rate": 8000}'], "send sound"),
]


@pytest.mark.parametrize(("messages", "told"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_wrong_messages_are_explained(ears: Ears, messages: list[Any], told: str) -> None:
    with ears.connect() as connection:
        for message in messages:
            connection.send(message)
        (error,) = received(connection)
        assert 400 <= error["status"] < 500 and told in error["error"], error
        assert connection.close_code == 1008 and connection.close_reason


def test_a_message_above_the_limit_closes_the_connection(ears: Ears) -> None:
    with ears.connect() as connection:
        connection.send(json.dumps({"rate": RATE}))
        with pytest.raises(ConnectionClosed):
            connection.send(bytes((1 << 20) + 2))
            received(connection) or connection.recv(timeout=10)
        assert connection.close_code == 1009


def test_alignatt_without_a_run_folder_is_refused() -> None:
    with hearing("joint") as ears, ears.connect() as connection:
        connection.send('{"policy": "alignatt"}')
        (error,) = received(connection)
        assert "alignatt requires the run folder" in error["error"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1", "http://[", "http://127.0.0.1:1"]
)
def test_pages_of_other_sites_cannot_listen(ears: Ears, origin: str) -> None:
    with pytest.raises(InvalidStatus), ears.connect(origin=origin):
        pass


def test_the_own_page_and_programs_can_listen(ears: Ears) -> None:
    for origin in (None, f"http://127.0.0.1:{ears.port}"):
        with ears.connect(origin=origin) as connection:
            connection.send("{")
            assert received(connection)[0]["status"] == 400


def test_a_host_that_is_not_served_and_other_paths_are_refused(ears: Ears) -> None:
    with pytest.raises(InvalidStatus), ears.connect(additional_headers={"Host": "evil.example"}):
        pass
    for path in ("/v1/stream", "/", "/v1/nothing"):
        with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{ears.port}{path}"):
            pass


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_accepted(ears: Ears) -> bool:
    """Return whether an empty stream is accepted; connections of this address may still be closing."""
    try:
        return heard(ears, b"") == []
    except (InvalidStatus, ConnectionClosed, ConnectionError, AssertionError):  # the client asserts in a race
        return False


def test_closed_connections_are_no_longer_counted() -> None:
    with hearing(connections=3) as ears:
        for _ in range(8):
            until(lambda: is_accepted(ears))
        time.sleep(2)  # until the last one is closed
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(ears.connect())
            with socket.create_connection(("127.0.0.1", ears.port), timeout=20) as refused:  # before it sends anything
                assert refused.recv(1000).startswith(b"HTTP/1.1 429 ")
        until(lambda: is_accepted(ears))


def test_silent_clients_are_closed() -> None:
    with hearing(seconds=0.6) as ears:
        with ears.connect() as connection:
            assert received(connection)[0]["error"] == "No settings arrived for 0.6 s."
        with ears.connect() as connection:
            connection.send(json.dumps({"rate": RATE}))
            (error,) = received(connection)
            assert error == {"error": "No sound arrived for 0.6 s.", "status": 408}


def test_a_client_that_hangs_up_holds_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is cancelled while it waits, and another client is served."""
    with hearing() as ears:
        heard(ears, b"")
        held, started = threading.Event(), threading.Event()
        served = ears.service.models.get("speech")

        def wait(interrupted: Callable[[], bool]) -> None:
            started.set()
            held.wait(20)

        blocking = WorkJob(wait, "other", time.monotonic() + 60)
        served.start()[1].submit([blocking])
        assert started.wait(20)
        with ears.connect() as connection:
            connection.send(json.dumps({"rate": RATE}))
            until(lambda: ears.load()[0] == 1)
            connection.socket.shutdown(socket.SHUT_RDWR)
            time.sleep(0.3)
        held.set()
        until(lambda: ears.load() == (0, 0))
        contents = pcm(sound(PARTS))
        assert heard(ears, contents) == in_python(contents)


def test_streams_do_not_disturb_each_other(ears: Ears) -> None:
    parts = [PARTS, ["ab", 0.8, "cab b", 0.9, "a"], [0.1, "bca ab abba", 1.2]]
    contents = [pcm(sound(each, seed)) for seed, each in enumerate(parts)]
    with ExitStack() as stack:
        stalled, *connections = [stack.enter_context(ears.connect()) for _ in range(len(contents) + 1)]
        for connection in [stalled, *connections]:
            connection.send(json.dumps({"rate": RATE}))
        for first in range(0, max(map(len, contents)), 4001):
            for connection, own in zip(connections, contents, strict=True):
                connection.send(own[first : first + 4001])
        for connection in connections:
            connection.send('{"final": true}')
        assert [received(connection) for connection in connections] == [in_python(own) for own in contents]


def test_keys_quotas_and_rates(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key = add_key(file, "one", requests_per_minute=None, characters=3)
    contents = pcm(sound(PARTS))
    with hearing(keys=KeyStore(file)) as ears:
        with ears.connect() as connection:
            connection.send("{}")
            assert received(connection)[0]["status"] == 401
        assert heard(ears, b"", key="wrong")[0]["status"] == 403
        messages = heard(ears, contents, key=key)
        assert messages[-1]["error"].startswith("The quota of 3 characters") and messages[-1]["status"] == 429
        assert sum(len(message["new"]) for message in messages[:-1]) <= 3
        assert heard(ears, b"", key=key) == []
        with ears.connect(additional_headers={"Authorization": f"Bearer {key}"}) as connection:
            connection.send('{"final": true}')
            assert "Invalid request" in received(connection)[0]["error"]
    with hearing(requests_per_minute=2) as ears:
        assert heard(ears, b"") == [] == heard(ears, b"")
        error = heard(ears, b"")[0]
        assert error["status"] == 429 and error["retry_after"] > 0


def test_steps_of_a_stream_have_a_limit() -> None:
    """A client may send 30 times its requests per minute as steps."""
    with hearing(requests_per_minute=1) as ears:
        *outputs, error = heard(ears, bytes(2 * RATE * 20))
        assert len(outputs) == 30 and error["status"] == 429


def test_a_message_that_has_arrived_is_read_before_a_stop() -> None:
    class Stopping:
        draining = True
        settings = ServerSettings()

    async def read() -> list[Any]:
        messages = _Messages(Stopping())  # type: ignore[arg-type]
        messages.queue.put_nowait({"type": "websocket.receive", "bytes": b"ab"})
        return [await messages.next("sound"), await messages.next("sound")]

    assert asyncio.run(read()) == [b"ab", {"final": True}]


def test_a_stopping_server_closes_the_segment() -> None:
    contents = pcm(sound(PARTS[:2]))
    server, service = create_server([model()])
    with running(server) as port, Ears(port, service).connect() as connection:
        connection.send(json.dumps({"rate": RATE}))
        connection.send(contents)
        time.sleep(1)
        server.should_exit = True
        service.draining = True
        *outputs, error = received(connection)
        assert outputs == in_python(contents) and outputs[-1]["final"]
        assert error == {"error": "The server is stopping.", "status": 503} and connection.close_code == 1013

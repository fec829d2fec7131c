"""What a load balancer sees of a server that starts, and of one that stops: the truth, and no lost request."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading

import httpx
import pytest

from regard.server.batching.served import ServedModel

from .conftest import create_server, running, serving
from .copying import capitals
from .test_app import until


def loading(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[ServedModel, threading.Event]:
    """A model that is loaded when the event is set."""
    model, _ = capitals(name)
    loaded, load = threading.Event(), model._load_predictor
    monkeypatch.setattr(model, "_load_predictor", lambda: loaded.wait(30) and load())
    return model, loaded


def ready(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code


def test_a_connection_whose_first_request_is_on_its_way_is_answered() -> None:
    server, _ = create_server([capitals()[0]])
    with running(server) as port, socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        until(lambda: len(server.server_state.connections) == 1)
        server.handle_exit(signal.SIGTERM, None)
        until(lambda: not server.servers[0].sockets)  # the port is closed
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert slow.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("preload", [False, True])
def test_it_is_ready_when_all_is_loaded_that_is_loaded_at_start(monkeypatch: pytest.MonkeyPatch, preload: bool) -> None:
    first, first_loaded = loading(monkeypatch, "first")
    second, second_loaded = loading(monkeypatch, "second")
    with serving([first, second], preload=preload) as (port, service):
        assert ready(port) == 503 and httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        first_loaded.set()
        until(lambda: first.ready)
        if preload:
            assert ready(port) == 503
        second_loaded.set()
        until(lambda: ready(port) == 200)
        assert second.ready == preload
        service.draining = True
        assert ready(port) == 503


def test_another_model_does_not_make_it_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    first, loaded = loading(monkeypatch, "first")
    second, _ = capitals("second")
    with serving([first, second]) as (port, _):
        body = {"text": "a", "model": "second"}
        assert httpx.post(f"http://127.0.0.1:{port}/v1/translate", json=body).status_code == 200
        assert second.ready and ready(port) == 503
        loaded.set()


def test_while_it_drains_it_says_so_and_answers_and_closes_each_connection() -> None:
    model, _ = capitals()
    server, _ = create_server([model])
    server.grace = 1000.0
    with running(server) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        until(lambda: ready(port) == 200)
        assert "connection" not in client.get("/healthz").headers
        server.handle_exit(signal.SIGTERM, None)
        assert client.get("/readyz").status_code == 503
        answer = client.post("/v1/translate", json={"text": "a dog."})
        assert answer.json()["translations"][0]["text"] == "A DOG." and answer.headers["connection"] == "close"
        assert client.get("/healthz").status_code == 200


def test_a_worker_whose_successor_serves_answers_on_open_connections_and_takes_no_others() -> None:
    server, _ = create_server([capitals()[0]])
    server.config.timeout_keep_alive = 1000
    with running(server) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        until(lambda: ready(port) == 200)
        client.get("/healthz")
        server.retire()
        until(lambda: not server.servers[0].sockets)  # the port is closed
        with pytest.raises(httpx.ConnectError):
            ready(port)
        answer = client.get("/readyz")  # on the connection that was idle: a balancer is not told that it stops
        assert answer.status_code == 200 and answer.headers["connection"] == "close"


def test_a_worker_that_retires_ends_at_the_second_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = create_server([capitals()[0]])
    killed: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(os, "kill", lambda process, number: killed.append(number))
    server.retire()
    server.handle_exit(signal.SIGTERM, None)
    assert not killed and not server.retiring
    server.handle_exit(signal.SIGTERM, None)
    assert killed == [signal.SIGTERM]


def test_ctrl_c_does_not_wait_for_a_balancer() -> None:
    server, _ = create_server([capitals()[0]])
    server.grace = 1000.0
    with running(server):
        server.handle_exit(signal.SIGINT, None)
        assert server.should_exit and server.grace == 0.0


def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = create_server([capitals()[0]])
    did: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: did.append((number, handler)))
    monkeypatch.setattr(os, "kill", lambda process, number: did.append((process, number)))
    server.handle_exit(signal.SIGINT, None)
    assert not did
    server.handle_exit(signal.SIGTERM, None)
    assert did == [(signal.SIGTERM, signal.SIG_DFL), (os.getpid(), signal.SIGTERM)]


def test_a_connection_that_nobody_has_accepted_yet_is_answered() -> None:
    server, _ = create_server([capitals()[0]])

    async def stop_with_one_waiting() -> bytes:
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        address = server.servers[0].sockets[0].getsockname()
        with socket.create_connection(address, timeout=20) as waiting:  # the loop has no turn to accept it
            waiting.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await server.shutdown()
            return waiting.recv(4096)

    assert asyncio.run(stop_with_one_waiting()).startswith(b"HTTP/1.1 200 ")


def test_to_stop_while_a_model_is_loaded_takes_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    model, loaded = loading(monkeypatch, "slow")
    server, _ = create_server([model])
    try:
        with running(server) as port:
            assert ready(port) == 503
        assert not loaded.is_set()
    finally:
        loaded.set()

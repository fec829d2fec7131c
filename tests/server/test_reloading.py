"""Reload of models: no request is lost, a failure changes nothing, and only operators may do it."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from regard.errors import ModelError
from regard.server.batching.models import ModelRegistry
from regard.server.batching.served import ServedModel
from regard.server.keys import KeyStore, add_key
from regard.server.reloading import Reloader, reload_on_hangup
from regard.server.service import Service
from regard.server.supervisor import hangup_handler

from .conftest import create_server, serving
from .copying import Copying, capitals
from .test_app import until


class Reloading(NamedTuple):
    """A server of a model that says what it reads in capitals; reloaded, it says it in small letters."""

    url: str
    service: Service
    copying: Copying
    opened: list[ServedModel]  # what the next reload opens

    def says(self, text: str = "A dog.") -> str:
        answer = httpx.post(f"{self.url}/v1/translate", json={"text": text}, timeout=30)
        return str(answer.json()["translations"][0]["text"])

    def reload(self, **headers: str) -> int:
        return httpx.post(f"{self.url}/v1/models/reload", headers=headers).status_code


@pytest.fixture
def server() -> Iterator[Reloading]:
    first, copying = capitals("model")
    opened = [capitals("model", read=str.lower)[0]]
    with serving([first], seconds=3.0) as (port, service):
        service.reload = Reloader(service, lambda: ModelRegistry(opened), lambda: None)
        yield Reloading(f"http://127.0.0.1:{port}", service, copying, opened)


def test_requests_that_have_begun_end_with_the_earlier_model(server: Reloading) -> None:
    server.copying.pause = 0.02
    earlier = server.service.models.all[0]
    gone = weakref.ref(server.service.models)
    stop = threading.Event()
    said: list[str] = []

    def ask_on() -> None:
        while not stop.is_set():
            said.append(server.says("A dog. A cat. A cow."))

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask_on) for _ in range(4)]
        until(lambda: earlier.load[1] > 0)
        assert server.reload() == 202
        until(lambda: said.count("a dog. a cat. a cow.") > 4)
        stop.set()
        for client in clients:
            client.result(timeout=30)
    assert set(said) == {"A DOG. A CAT. A COW.", "a dog. a cat. a cow."}
    assert said[: said.index("a dog. a cat. a cow.")], "the earlier model answered, too"
    assert httpx.get(f"{server.url}/v1/models").json()["data"][0]["ready"]
    del earlier
    until(lambda: bool(gc.collect() + 1) and gone() is None)  # its memory is free


def test_a_model_that_cannot_be_loaded_changes_nothing(
    server: Reloading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Any:
        raise ModelError("the weights are damaged")

    monkeypatch.setattr(server.opened[0], "_load_predictor", fail)
    assert server.reload() == 202
    until(lambda: "the earlier ones remain" in caplog.text)
    assert server.says() == "A DOG."
    server.opened.append(capitals("model")[0])  # two runs of one name: refused before anything is loaded
    answer = httpx.post(f"{server.url}/v1/models/reload")
    assert answer.status_code == 409 and "two runs have the name model" in answer.json()["error"]


def test_one_reload_at_a_time(server: Reloading, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = threading.Event(), server.opened[0]._load_predictor
    monkeypatch.setattr(server.opened[0], "_load_predictor", lambda: loaded.wait(30) and load())
    assert [server.reload(), server.reload()] == [202, 409] and server.says() == "A DOG."
    loaded.set()
    until(lambda: server.says() == "a dog.")


def test_only_operators_reload(server: Reloading, tmp_path: Path) -> None:
    assert server.reload(**{"X-Forwarded-For": "127.0.0.1"}) == 403  # it came through a proxy on this machine
    assert server.reload(**{"Sec-Fetch-Site": "cross-site"}) == 403
    file = tmp_path / "keys.json"
    alice, admin = (
        add_key(file, name, requests_per_minute=None, characters=None, admin=name == "admin")
        for name in ("alice", "admin")
    )
    server.service.keys = KeyStore(file)
    assert [server.reload(), server.reload(Authorization=f"Bearer {alice}")] == [401, 403]
    assert server.reload(Authorization=f"Bearer {admin}") == 202
    assert server.reload(Authorization=f"Bearer {admin}", **{"X-Forwarded-For": "10.0.0.1"}) in (202, 409)


def test_sighup_reloads_and_a_closed_terminal_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    server, service = create_server([capitals("model")[0]])
    service.reload = Reloader(service, lambda: ModelRegistry([capitals("model", read=str.lower)[0]]), lambda: None)
    before, earlier = signal.getsignal(signal.SIGHUP), service.models
    try:
        reload_on_hangup(server)
        signal.raise_signal(signal.SIGHUP)
        until(lambda: service.models is not earlier)
    finally:
        signal.signal(signal.SIGHUP, before)
        service.stop()
        earlier.stop()
    did: list[str] = []
    terminal = [True]
    monkeypatch.setattr("os.isatty", lambda descriptor: terminal[0])
    handle = hangup_handler(lambda: did.append("reload"), lambda: did.append("stop"))
    handle(signal.SIGHUP, None)
    terminal[0] = False
    handle(signal.SIGHUP, None)
    hangup_handler(lambda: did.append("reload"), lambda: did.append("stop"))(signal.SIGHUP, None)
    assert did == ["reload", "stop", "reload"]

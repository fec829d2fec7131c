"""Requests that a page of another site makes a browser send, bodies with two lengths, keys in addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from regard.commands.serve import _hosts
from regard.server.api_error import ApiError
from regard.server.keys import KeyStore, add_key
from regard.server.service import MAX_AUXILIARY

from .conftest import Running, create_server, serving
from .copying import capitals

Serve = Callable[..., Running]
FIELDS = {"q": "a dog", "source": "en", "target": "de"}


@pytest.mark.parametrize("order", [0, 1])
def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(serve: Serve, order: int) -> None:
    lengths = ["transfer-encoding: chunked", "content-length: 5"]
    head = ["POST /translate HTTP/1.1", "host: localhost", *(lengths[::-1] if order else lengths), "", ""]
    hidden = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", serve().port), timeout=20) as connection:
        connection.sendall("\r\n".join(head).encode() + b"0\r\n\r\n" + hidden.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until it is closed
    assert answer.startswith(b"HTTP/1.1 400") and b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1") == 1


def test_a_loopback_server_answers_to_its_own_names_alone(serve: Serve) -> None:
    server = serve()
    own = ("localhost", "LOCALHOST:5000", "127.0.0.1", "[::1]:80", "a.localhost")
    foreign = ("rebound.example", "localhost.example", "notlocalhost", "127.0.0.1.example", "10.0.0.1", "[")
    for hosts, status in ((own, 200), (foreign, 421)):
        for host in hosts:
            answer = httpx.get(f"{server.url}/healthz", headers={"host": host})
            assert answer.status_code == status, (host, answer.text)


def test_hosts_may_be_named(serve: Serve) -> None:
    named, any_host, public = (
        serve(hosts=["one.example"]),
        serve(hosts=["*"]),
        serve(public_url="https://two.example/a"),
    )

    def status(server: Running, host: str) -> int:
        return httpx.get(f"{server.url}/healthz", headers={"host": host}).status_code

    assert [status(named, host) for host in ("one.example:80", "localhost", "two.example")] == [200, 200, 421]
    assert [status(any_host, "two.example"), status(public, "two.example"), status(public, "x.example")] == [
        200,
        200,
        421,
    ]


def test_a_server_on_a_network_or_behind_a_proxy_answers_to_any_name() -> None:
    assert _hosts(None, "127.0.0.1", None) is None
    assert _hosts(None, "0.0.0.0", None) == _hosts(None, "127.0.0.1", "10.0.0.1") == ["*"]
    assert _hosts(["A.example"], "0.0.0.0", None) == ["a.example"]


def test_json_must_say_that_it_is_json(serve: Serve) -> None:
    url = serve().url
    body = (
        '{"q": "a", "text": "a", "source": "en", "target": "de", "target_lang": "DE", "inputs": ["a"], "prompt": "a"}'
    )
    for path in ("/v1/translate", "/v1/predict", "/v1/generate", "/translate", "/v2/translate", "/detect"):
        for kind in ("text/plain", "text/plain; a=application/json", None, "application/x-www-form-urlencoded"):
            answer = httpx.post(url + path, content=body, headers={"content-type": kind} if kind else {})
            assert answer.status_code == 415, (path, kind, answer.text)
            assert answer.json().keys() <= {"error", "message"}


def test_a_form_of_another_sites_page_is_refused(serve: Serve) -> None:
    server = serve()

    def status(site: str) -> int:
        return httpx.post(f"{server.url}/translate", data=FIELDS, headers={"sec-fetch-site": site}).status_code

    assert [status(site) for site in ("same-origin", "none", "same-site", "cross-site")] == [200, 200, 403, 403]


def test_a_key_in_the_address_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    secret = add_key(file, "alice", requests_per_minute=None, characters=None)
    with serving([capitals()[0]], keys=KeyStore(file)) as (port, _):
        url = f"http://127.0.0.1:{port}/translate"
        assert httpx.post(url, params={"api_key": secret}, data=FIELDS).status_code == 400
        assert httpx.post(url, json=FIELDS, params={"api_key": secret}).status_code == 400
        assert httpx.post(url, data=FIELDS | {"api_key": secret}).status_code == 200
        assert httpx.post(url, json=FIELDS | {"api_key": secret}).status_code == 200
        assert httpx.post(url, data=FIELDS, headers={"authorization": f"Bearer {secret}"}).status_code == 200


def test_one_client_cannot_take_all_auxiliary_places() -> None:
    _, service = create_server([capitals()[0]])
    gate, done = threading.Event(), list[str]()

    def work(client: str) -> Callable[[], None]:
        def wait() -> None:
            gate.wait(20)
            done.append(client)

        return wait

    async def attack() -> None:
        first = [asyncio.ensure_future(service.run_auxiliary(work("many"), client="many"))]
        while service._auxiliary.load != (0, 1):
            await asyncio.sleep(0.01)
        for _ in range(MAX_AUXILIARY):
            first.append(asyncio.ensure_future(service.run_auxiliary(work("many"), client="many")))
        await asyncio.sleep(0.05)
        with pytest.raises(ApiError, match="Too many requests"):
            await service.run_auxiliary(work("many"), client="many")
        other = asyncio.ensure_future(service.run_auxiliary(work("one"), client="one"))
        await asyncio.sleep(0.05)
        assert not other.done()
        gate.set()
        await other
        await asyncio.gather(*first)

    asyncio.run(attack())
    service.stop()
    assert done.index("one") <= 2 and done.count("many") == MAX_AUXILIARY + 1

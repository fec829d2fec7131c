"""Connections that send slowly, or are many, and headers that say whose server this is."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from pydantic import ValidationError

from regard.server.api.requests import client_network
from regard.server.connections import ConnectionLimits
from regard.server.settings import ServerSettings

from .conftest import Running

Serve = Callable[..., Running]
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as opened:
        yield opened


def said(opened: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    while part := opened.recv(4096):
        found += part
    return found


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, b"GET /" + b"x" * 1000])
def test_half_a_head_does_not_hold_a_connection(serve: Serve, sent: bytes) -> None:
    server = serve(head_seconds=0.1)
    with connected(server) as opened:
        opened.sendall(sent)
        found = said(opened)
    assert found.startswith(b"HTTP/1.1 408 ") and json.loads(found.partition(b"\r\n\r\n")[2])["error"]


def test_bytes_that_trickle_in_do_not_stop_the_clock(serve: Serve) -> None:
    server = serve(head_seconds=0.2)
    with connected(server) as opened:
        opened.settimeout(0.02)
        found = b""
        for number in range(500):  # ten seconds: far more than the limit
            try:
                opened.sendall(b"GET /healthz HTTP/1.1\r\n" if not number else b"x: y\r\n")
                found = opened.recv(4096)
                break
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408 ")


def test_the_clock_runs_again_after_an_answer(serve: Serve) -> None:
    server = serve(head_seconds=0.2)
    with connected(server) as opened:
        opened.sendall(HEAD + b"\r\n" + HEAD)
        found = said(opened)
    assert found.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 408 " in found


def test_a_slow_answer_and_a_slow_body_have_their_own_time(serve: Serve) -> None:
    server = serve(head_seconds=0.05)
    server.copying.pause = 0.05
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": "a dog."}, timeout=30)
    assert answer.json()["translations"][0]["text"] == "A DOG."


def test_an_address_holds_so_many_connections_and_others_are_served(serve: Serve) -> None:
    server = serve(connections=3)
    with ExitStack() as stack:
        open_connections = [stack.enter_context(connected(server)) for _ in range(3)]
        for opened in open_connections:
            opened.sendall(HEAD)
        with connected(server) as fourth:
            found = said(fourth)
        assert found.startswith(b"HTTP/1.1 429 ") and b"Too many connections" in found
        open_connections[0].sendall(b"connection: close\r\n\r\n")
        assert said(open_connections[0]).startswith(b"HTTP/1.1 200 ")
        open_connections[0].close()
        with connected(server) as again:
            again.sendall(HEAD + b"connection: close\r\n\r\n")
            assert said(again).startswith(b"HTTP/1.1 200 ")


def test_a_proxy_holds_as_many_as_it_likes() -> None:
    doors = ConnectionLimits(ServerSettings(), "10.0.0.1, 192.168.0.0/16,proxy")
    assert [doors.is_proxy(host) for host in ("10.0.0.1", "192.168.3.4", "10.0.0.2", "proxy", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert ConnectionLimits(ServerSettings(), "*").is_proxy("1.2.3.4") and not ConnectionLimits(
        ServerSettings()
    ).is_proxy("1.2.3.4")


def test_clients_are_told_apart_by_what_they_cannot_choose() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff") != client_network("2001:db8:1::1")
    assert client_network("::ffff:192.0.2.1") == "192.0.2.1" != client_network("::ffff:192.0.2.2")
    assert client_network("a.unix.socket") == "unknown"


def test_no_answer_names_the_address_that_a_client_made_up(serve: Serve) -> None:
    server = serve(hosts=["*"])
    headers = {"host": "attacker.example", "x-forwarded-host": "attacker.example", "x-forwarded-proto": "https"}
    data = {"source": "en", "target": "de"}
    answer = httpx.post(
        f"{server.url}/translate_file", files={"file": ("a.txt", b"a dog")}, data=data, headers=headers, timeout=30
    )
    url = answer.json()["translatedFileUrl"]
    assert url.startswith(f"{server.url}/download_file/") and httpx.get(url).content == b"A DOG"
    for path in ("/translate/", "/languages/", "/v2/usage/", "/v1/models/"):
        for method in ("GET", "POST"):
            found = httpx.request(method, f"{server.url}{path}", headers=headers, timeout=30)
            assert found.status_code in (404, 405) and "attacker" not in f"{found.headers}{found.text}"


def test_a_public_address_is_told_where_one_is_given(serve: Serve) -> None:
    server = serve(public_url="https://words.example/mt/")
    data = {"source": "en", "target": "de"}
    answer = httpx.post(f"{server.url}/translate_file", files={"file": ("a.txt", b"a")}, data=data, timeout=30)
    assert answer.json()["translatedFileUrl"].startswith("https://words.example/mt/download_file/")
    for wrong in ("words.example", "ftp://words.example", "https://", "https://a b", "https://a?b"):
        with pytest.raises(ValidationError):
            ServerSettings(public_url=wrong)


@pytest.mark.parametrize("body", ["[" * 100_000, '{"text":' * 40 + "1" + "}" * 40, '{"q":' + "[" * 60 + "]" * 60 + "}"])
def test_nested_bodies_are_refused_by_every_interface(serve: Serve, body: str) -> None:
    server = serve()
    for path in (
        "/v1/translate",
        "/v1/score",
        "/v1/inspect",
        "/translate",
        "/detect",
        "/v2/translate",
        "/v2/glossaries",
    ):
        answer = httpx.post(
            f"{server.url}{path}", content=body, headers={"content-type": "application/json"}, timeout=30
        )
        assert answer.status_code in (400, 422), (path, answer.text)

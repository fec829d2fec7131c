"""Ids of requests in responses and log lines, and log lines as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from regard.server import log_lines
from regard.server.keys import KeyStore, add_key
from regard.server.log_lines import JsonLines, TextLines, configure_logs

from .conftest import Running, serving
from .copying import capitals

Serve = Callable[..., Running]
NEW = re.compile("[0-9a-f]{32}")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The JSON lines so far."""
    written, loggers = io.StringIO(), [logging.getLogger(name) for name in ("", "regard.server", "uvicorn")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    monkeypatch.setattr(log_lines._StandardError, "stream", written)
    configure_logs("json", "worker 2")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logging.captureWarnings(False)
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate


def test_a_valid_id_comes_back_and_any_other_is_replaced(serve: Serve) -> None:
    server = serve()

    def returned(sent: str | None, path: str = "/healthz", **options: Any) -> str:
        headers = {} if sent is None else {"X-Request-ID": sent}
        return httpx.request("POST" if options else "GET", server.url + path, headers=headers, **options).headers[
            "x-request-id"
        ]

    assert returned("a-1_b.c~d:e/f+g=h@i") == "a-1_b.c~d:e/f+g=h@i" and returned("x" * 128) == "x" * 128
    first, second = returned(None), returned(None)
    assert NEW.fullmatch(first) and NEW.fullmatch(second) and first != second
    for sent in ("", "x" * 129, "a b", 'a"b', "a\u00e9".encode("latin-1").decode("latin-1")):
        assert NEW.fullmatch(returned(sent.encode("latin-1")))  # type: ignore[arg-type]
    assert returned("a", "/unknown") == "a"  # of errors, too
    assert returned("a", "/v1/translate", json={"text": 3}) == "a"
    assert returned("a", "/v1/translate", content=b"x" * 200_000) == "a"
    assert returned("a", "/v1/translate", json={"text": "a dog.", "stream": True}) == "a"


def test_responses_of_connections_have_an_id(serve: Serve) -> None:
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(b"no HTTP\r\n\r\n")
        answer = client.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 400 ") and re.search("x-request-id: [0-9a-f]{32}\r\n", answer)
    address = f"ws://127.0.0.1:{server.port}/v1/listen"
    with connect(address, additional_headers={"x-request-id": "heard"}) as listening:
        assert listening.response is not None and listening.response.headers["x-request-id"] == "heard"


def test_a_request_is_one_object_with_its_facts_and_without_its_text(lines: Any, tmp_path: Any) -> None:
    secret = add_key(tmp_path / "keys.json", "alice", requests_per_minute=None, characters=None)
    with serving([capitals()[0]], keys=KeyStore(tmp_path / "keys.json")) as (port, _):
        headers = {"Authorization": f"Bearer {secret}", "X-Request-ID": "one"}
        body = {"text": "a secret text. another."}
        response = httpx.post(f"http://127.0.0.1:{port}/v1/translate?query=hidden", json=body, headers=headers)
        assert response.status_code == 200
        httpx.get(f"http://127.0.0.1:{port}/download_file/name-of-a-file", headers=headers)
    (line,) = (line for line in lines() if line.get("path") == "/v1/translate")
    assert line["request_id"] == "one" and line["worker"] == "worker 2" and line["level"] == "info"
    assert (line["method"], line["status"], line["client"], line["key"]) == ("POST", 200, "127.0.0.1", "alice")
    assert line["model"] == "capitals" and line["tokens"] == len("A SECRET TEXT.ANOTHER.") + 2
    assert 0 < line["duration"] < 60 and re.fullmatch(r"[\d-]{10}T[\d:.]{12}\+00:00", line["time"])
    text = json.dumps(lines())
    assert not any(word in text for word in ("SECRET TEXT", "secret text", "hidden", "name-of-a-file", secret))
    assert any(line["message"].startswith("loaded the model") for line in lines())


def test_lines_of_libraries_are_objects_too(lines: Any) -> None:
    logging.getLogger("uvicorn.error").warning("of %s", "uvicorn")
    try:
        raise ValueError("a secret")
    except ValueError:
        logging.getLogger("asyncio").exception("failed")
    first, second = lines()
    assert (first["message"], first["logger"]) == ("of uvicorn", "uvicorn.error")
    assert second["exception"] == "ValueError" and "raise ValueError" in second["traceback"]
    assert "a secret" not in second["traceback"].replace('raise ValueError("a secret")', "")


def test_a_text_line_ends_with_the_id_of_its_request(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server, found = serve(), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: found.append(TextLines("worker 1").format(record))  # type: ignore[method-assign]
    logger = logging.getLogger("regard.server")
    logger.addHandler(handler)
    try:
        with caplog.at_level("INFO", "regard.server"):
            httpx.get(f"{server.url}/healthz", headers={"X-Request-ID": "mine"})
            until = time.monotonic() + 30
            while not any("healthz" in line for line in found) and time.monotonic() < until:
                time.sleep(0.001)  # the client may have its answer before the line is written
            logger.info("outside")
    finally:
        logger.removeHandler(handler)
    asked, outside = (line for line in found if "healthz" in line or "outside" in line)
    assert re.search(r"worker 1: 127.0.0.1 GET /healthz 200 \d\.\d+ s \[mine\]$", asked) and outside.endswith("outside")
    assert "request_id" not in json.loads(JsonLines().format(caplog.records[-1]))

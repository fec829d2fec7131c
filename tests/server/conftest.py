"""A server in a thread of this process, at a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn

from regard.server.app import create_app
from regard.server.batching.metrics import ServerMetrics
from regard.server.batching.models import ModelRegistry
from regard.server.batching.served import ServedModel
from regard.server.connections import limited_protocols
from regard.server.draining_server import DrainingServer
from regard.server.keys import KeyStore
from regard.server.service import Service
from regard.server.settings import ServerSettings

from .copying import Copying, capitals


class Running(NamedTuple):
    """Where the server is, and what is behind it."""

    url: str
    port: int
    model: ServedModel
    copying: Copying
    service: Service


def create_server(
    models: list[ServedModel], *, keys: KeyStore | None = None, preload: bool = False, **settings: Any
) -> tuple[DrainingServer, Service]:
    allowed = ServerSettings(**({"requests_per_minute": 10_000} | settings))
    service = Service(ModelRegistry(models, preload=preload), allowed, ServerMetrics(), keys=keys)
    config = uvicorn.Config(
        create_app(service), host="127.0.0.1", port=0, log_level="warning", access_log=False, server_header=False,
        proxy_headers=False, **limited_protocols(allowed),
    )  # fmt: skip
    return DrainingServer(config, service), service


@contextmanager
def serving(models: list[ServedModel], **options: Any) -> Iterator[tuple[int, Service]]:
    server, service = create_server(models, **options)
    with running(server) as port:
        yield port, service


@contextmanager
def running(server: DrainingServer) -> Iterator[int]:
    """Its port, while it runs in a thread."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < until and thread.is_alive()
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.grace = 0.0
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """``serve(characters=10)``: a server of one model that says what it reads in capitals, with these settings."""
    with ExitStack() as stack:

        def start(limits: dict[str, Any] | None = None, **settings: Any) -> Running:
            model, copying = capitals(**(limits or {}))
            port, service = stack.enter_context(serving([model], **settings))
            return Running(f"http://127.0.0.1:{port}", port, model, copying, service)

        yield start

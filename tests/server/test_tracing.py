"""Spans of requests: they continue a trace, end in order, and contain no text."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from regard.errors import ConfigError
from regard.server.tracing import EXPORTER, Tracing

from .conftest import Running

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Serve = Callable[..., Running]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def traced(serve: Serve) -> tuple[Running, Callable[[str], dict[str, ReadableSpan]]]:
    """A server, and its finished spans by name, once that of a request has ended (clients do not wait for it)."""
    server, exporter = serve(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    server.service.tracing = Tracing(provider)

    def spans(request: str) -> dict[str, ReadableSpan]:
        finished: dict[str, ReadableSpan] = {}
        deadline = time.monotonic() + 30
        while request not in finished and time.monotonic() < deadline:
            finished = {span.name: span for span in exporter.get_finished_spans()}
            time.sleep(0.001)
        return finished

    return server, spans


def test_a_request_continues_a_trace_and_its_spans_follow_each_other(traced: Any) -> None:
    server, spans = traced
    server.copying.pause = 0.002
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine"}
    body = {"text": "a secret dog. another."}
    assert httpx.post(f"{server.url}/v1/translate?q=hidden", json=body, headers=headers).status_code == 200
    found = spans("POST /v1/translate")
    request, queue, batch, generation = (found[name] for name in ("POST /v1/translate", "queue", "batch", "generation"))
    assert f"{request.context.trace_id:032x}" == TRACE and f"{request.parent.span_id:016x}" == PARENT
    assert all(each.parent.span_id == request.context.span_id for each in (queue, batch, generation))
    times = [request.start_time, queue.start_time, queue.end_time, batch.start_time, batch.end_time]
    times += [generation.start_time, generation.end_time, request.end_time]
    assert times == sorted(times) and generation.end_time - generation.start_time > 5e6
    assert generation.attributes["regard.tokens"] == len("A SECRET DOG.ANOTHER.") + 2
    assert request.attributes["regard.request_id"] == "mine" and request.attributes["http.response.status_code"] == 200
    text = " ".join(span.to_json() for span in found.values())
    assert "SECRET" not in text.upper() and "hidden" not in text


def test_failures_and_requests_without_a_parent(traced: Any) -> None:
    server, spans = traced
    assert httpx.get(f"{server.url}/unknown/secret").status_code == 404
    unknown = spans("GET")["GET"]
    assert unknown.parent is None and unknown.status.is_unset and "secret" not in unknown.to_json()
    server.copying.broken = True
    assert httpx.post(f"{server.url}/v1/translate", json={"text": "a"}).status_code == 500
    failed = spans("POST /v1/translate")["POST /v1/translate"]
    assert failed.status.status_code.name == "ERROR" and "this model is broken" not in failed.to_json()


@pytest.mark.parametrize(
    ("variables", "configured"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({EXPORTER: "console"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", EXPORTER: "none"}, False),
        ({EXPORTER: "otlp", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_configure_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], configured: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    tracing = Tracing.from_environment()
    assert (tracing is not None) == configured
    if tracing is not None:
        assert json.loads(tracing._provider.resource.to_json())["attributes"]["service.name"] == "regard"
        tracing.close()


def test_another_exporter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXPORTER, "zipkin")
    with pytest.raises(ConfigError, match="not supported"):
        Tracing.from_environment()
    monkeypatch.setenv(EXPORTER, "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigError, match="not supported") as refused:
        Tracing.from_environment()
    assert "grpc" in str(refused.value.why)


def test_nothing_is_imported_unless_it_is_configured() -> None:
    program = (
        "import sys; from regard.server.tracing import Tracing; assert Tracing.from_environment() is None;"
        "import regard.server.app; print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

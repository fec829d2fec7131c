"""Spans of requests for OpenTelemetry, exported if the standard variables ``OTEL_…`` request it.

A request has a span of the server, which continues the trace of the header ``traceparent``. Each call of a model has
spans below it. ``queue`` ends when the last input leaves the queue, ``batch`` with the first token of a search, and
``generation`` with the last result. Only searches have ``batch``. Spans contain no text. FastAPI's own spans have the
query, which may be a text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

from regard.core import VERSION
from regard.core.installation import extra_command
from regard.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from regard.server.batching.jobs import Progress

EXPORTER = "OTEL_TRACES_EXPORTER"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class Tracing:
    """Tracer of a server."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider, self._tracer = provider, provider.get_tracer("regard", VERSION)

    @classmethod
    def from_environment(cls) -> Tracing | None:
        """Return the tracer that the variables configure; None if they configure none.

        Raises:
            ConfigError: if the libraries are missing, or do not support the exporter.
        """
        name = os.environ.get(EXPORTER, "otlp" if any(map(os.environ.get, ENDPOINTS)) else "none").strip().lower()
        if name == "none" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        protocol = next(filter(None, map(os.environ.get, PROTOCOLS)), "http/protobuf")
        if name not in ("otlp", "console") or (name == "otlp" and protocol != "http/protobuf"):
            why = f"it is {name}" + (f" with the protocol {protocol}" if name == "otlp" else "")
            help = "use otlp with http/protobuf, console or none"
            raise ConfigError("the exporter of traces is not supported", where=EXPORTER, why=why, help=help)
        try:
            return cls(_provider(name))
        except ImportError as error:
            what = "the libraries of OpenTelemetry are not installed"
            raise ConfigError(what, where=EXPORTER, why=str(error), help=extra_command("telemetry")) from error

    @contextmanager
    def request(self, scope: Scope, request_id: str) -> Iterator[RequestTrace]:
        """Open the span of a request while the block runs."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {
            "http.request.method": scope.get("method", "GET"), "client.address": (scope.get("client") or ("",))[0],
            "url.scheme": scope["scheme"], "regard.request_id": request_id,
        }  # fmt: skip
        method = str(attributes["http.request.method"])
        span = self._tracer.start_span(method, extract(headers), SpanKind.SERVER, attributes)
        trace = RequestTrace(self._tracer, span, method)
        try:
            yield trace
        finally:
            span.end()

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()


class RequestTrace:
    """Span of a request, and the spans below it."""

    def __init__(self, tracer: Any, span: Any, method: str) -> None:
        self._tracer, self._span, self._method = tracer, span, method

    @property
    def id(self) -> str:
        """Id of the trace, in hexadecimal digits."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def set_result(self, route: str | None, status: int) -> None:
        """Record the route and the status of the response."""
        from opentelemetry.trace import StatusCode

        if route is not None:
            self._span.update_name(f"{self._method} {route}")
            self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._span.set_status(StatusCode.ERROR)

    def add_work(self, model: str, inputs: int, progress: Progress) -> None:
        """Add the spans of a call of a model, which has ended now."""
        from opentelemetry.trace import set_span_in_context

        context, offset = set_span_in_context(self._span), time.time_ns() - time.monotonic_ns()
        attributes: dict[str, Any] = {"regard.model": model, "regard.inputs": inputs}
        started = progress.first_token or progress.admitted
        times = {"queue": progress.queued, "batch": progress.admitted, "generation": started, "": time.monotonic()}
        names = [name for name in times if name != "batch" or progress.first_token is not None]
        for name, following in pairwise(names):
            if name == "generation" and progress.tokens is not None:
                attributes = attributes | {"regard.tokens": progress.tokens}
            start, end = (round(times[edge] * 1e9) + offset for edge in (name, following))
            self._tracer.start_span(name, context, attributes=attributes, start_time=start).end(max(start, end))


def _provider(exporter: str) -> TracerProvider:
    """Return a provider with an exporter; its sampler and resource obey further variables."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    if exporter == "console":
        exports: SpanExporter = ConsoleSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exports = OTLPSpanExporter()
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = {"service.version": VERSION} | ({} if named else {"service.name": "regard"})
    provider = TracerProvider(resource=Resource.create(resource))
    provider.add_span_processor(BatchSpanProcessor(exports))
    return provider

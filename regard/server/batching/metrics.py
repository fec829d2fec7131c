"""Prometheus metrics: requests by route and status; queue, fill and speed of each model."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.server.batching.scheduler import SchedulerObserver

__all__ = ["ModelMetrics", "ServerMetrics"]

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics:
    """Metrics of one server, in a registry of their own, so that several servers may live in one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "regard_request_seconds", "From a request to its answer", ["route"], buckets=SECONDS, registry=registry
        )
        self.characters = Counter("regard_characters", "Characters of texts translated", registry=registry)
        self.sentences = Counter("regard_sentences", "Sentences translated", registry=registry)
        self.tokens = Counter("regard_tokens", "Tokens of outputs", ["model"], registry=registry)
        self.steps = Counter("regard_steps", "Steps of the running batch", ["model"], registry=registry)
        self.rows = Counter("regard_step_rows", "Rows in all steps: over steps, the fill", ["model"], registry=registry)
        self.waited = Histogram(
            "regard_wait_seconds", "A sentence in the queue", ["model"], buckets=SECONDS, registry=registry
        )
        self.queue = Gauge("regard_waiting", "Sentences in the queue", ["model"], registry=registry)
        self.running = Gauge("regard_running", "Sentences in the running batch", ["model"], registry=registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and its seconds."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def count_translated(self, characters: int, sentences: int) -> None:
        """Count characters and sentences of a translated request."""
        self.characters.inc(characters)
        self.sentences.inc(sentences)

    def set_loads(self, loads: dict[str, tuple[int, int]]) -> None:
        """Set the waiting and running sentences of each model, by name."""
        for model, (waiting, running) in loads.items():
            self.queue.labels(model).set(waiting)
            self.running.labels(model).set(running)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class ModelMetrics(SchedulerObserver):
    """Counts of the events of one model's scheduler."""

    def __init__(self, metrics: ServerMetrics, model: str) -> None:
        self._waited = metrics.waited.labels(model)
        self._steps, self._rows = metrics.steps.labels(model), metrics.rows.labels(model)
        self._tokens = metrics.tokens.labels(model)

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Record the seconds that jobs waited."""
        for seconds in waited:
            self._waited.observe(seconds)

    def on_step(self, rows: int, max_rows: int) -> None:
        """Count a step and its rows."""
        self._steps.inc()
        self._rows.inc(rows)

    def on_finished(self, tokens: int) -> None:
        """Count the tokens of an output."""
        self._tokens.inc(tokens)

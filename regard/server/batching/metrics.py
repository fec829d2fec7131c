"""What is counted, for Prometheus: of requests by route and status, and of each model its queue, fill and speed."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.server.batching.scheduler import Watch

__all__ = ["ModelWatch", "ServerMetrics"]

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics:
    """One registry a server, so that several may live in one process."""

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

    def requested(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def translated(self, characters: int, sentences: int) -> None:
        self.characters.inc(characters)
        self.sentences.inc(sentences)

    def loads(self, loads: dict[str, tuple[int, int]]) -> None:
        for model, (waiting, running) in loads.items():
            self.queue.labels(model).set(waiting)
            self.running.labels(model).set(running)

    def text(self) -> bytes:
        """In the format that Prometheus reads."""
        return generate_latest(self.registry)


class ModelWatch(Watch):
    """What the scheduler of one model tells."""

    def __init__(self, metrics: ServerMetrics, model: str) -> None:
        self._waited = metrics.waited.labels(model)
        self._steps, self._rows = metrics.steps.labels(model), metrics.rows.labels(model)
        self._tokens = metrics.tokens.labels(model)

    def entered(self, waited: Sequence[float]) -> None:
        for seconds in waited:
            self._waited.observe(seconds)

    def stepped(self, rows: int, room: int) -> None:
        self._steps.inc()
        self._rows.inc(rows)

    def found(self, tokens: int) -> None:
        self._tokens.inc(tokens)

"""Prometheus metrics: requests by route and status, and the queue, fill and speed of each model.

If ``PROMETHEUS_MULTIPROC_DIR`` is set before this module is imported, prometheus_client stores them in files of that
folder. Each process of a server then reports the sums over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from regard.server.batching.jobs import SchedulerObserver

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # environment variable that prometheus_client reads

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics:
    """Metrics of one server, in their own registry, because one process may have several servers."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "regard_request_seconds", "Time from request to response", ["route"], buckets=SECONDS, registry=registry
        )
        self.characters = Counter("regard_characters", "Characters of texts translated", registry=registry)
        self.sentences = Counter("regard_sentences", "Sentences translated", registry=registry)
        self.tokens = Counter("regard_tokens", "Tokens of outputs", ["model"], registry=registry)
        self.steps = Counter("regard_steps", "Steps of the running batch", ["model"], registry=registry)
        self.rows = Counter("regard_step_rows", "Rows in all steps: over steps, the fill", ["model"], registry=registry)
        self.waited = Histogram(
            "regard_wait_seconds", "A sentence in the queue", ["model"], buckets=SECONDS, registry=registry
        )
        self.queue, self.running = (
            Gauge(f"regard_{name}", f"Sentences in the {where}", ["model"], registry=registry,
                  multiprocess_mode="livesum")
            for name, where in (("waiting", "queue"), ("running", "running batch"))
        )  # fmt: skip

    @property
    def are_shared(self) -> bool:
        """True if the metrics are sums over several processes."""
        return SHARED_FOLDER in os.environ

    @staticmethod
    def forget(folder: str, process: int) -> None:
        """Remove the queues of a dead process from the sums in a folder; its counts remain."""
        mark_process_dead(process, folder)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and its duration."""
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
        if not self.are_shared:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)


class ModelMetrics(SchedulerObserver):
    """Metrics of the scheduler of one model."""

    def __init__(self, metrics: ServerMetrics, model: str) -> None:
        self._waited = metrics.waited.labels(model)
        self._steps, self._rows = metrics.steps.labels(model), metrics.rows.labels(model)
        self._tokens = metrics.tokens.labels(model)

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Record the waiting times of jobs, in seconds."""
        for seconds in waited:
            self._waited.observe(seconds)

    def on_step(self, rows: int, max_rows: int) -> None:
        """Count a step and its rows."""
        self._steps.inc()
        self._rows.inc(rows)

    def on_finished(self, tokens: int) -> None:
        """Count the tokens of an output."""
        self._tokens.inc(tokens)

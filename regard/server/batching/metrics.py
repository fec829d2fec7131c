"""Prometheus metrics: requests by route and status, and the queue, fill and speed of each model.

If ``PROMETHEUS_MULTIPROC_DIR`` is set before this module is imported, prometheus_client stores them in files of that
folder. Each process of a server then reports the sums over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from regard.server.api_error import ErrorReason
from regard.server.batching.jobs import SchedulerObserver
from regard.server.batching.process_metrics import ProcessMetrics, add_build_info

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # environment variable that prometheus_client reads

TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
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
        self.first_token = Histogram(
            "regard_time_to_first_token_seconds", "Time from the queueing of a search to its first token", ["model"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.token = Histogram(
            "regard_request_time_per_output_token_seconds", "Mean time between the tokens of an output", ["model"],
            buckets=TOKEN_SECONDS, registry=registry,
        )  # fmt: skip
        self.refusals = Counter("regard_refusals", "Refused requests", ["reason"], registry=registry)
        # The second name of each is that of vLLM.
        self.waiting = [
            _load_gauge(name, "queue", registry) for name in ("regard_waiting", "regard_num_requests_waiting")
        ]
        self.running = [
            _load_gauge(name, "running batch", registry) for name in ("regard_running", "regard_num_requests_running")
        ]
        add_build_info(registry)
        self._process = ProcessMetrics(registry, shared=self.are_shared)

    @property
    def are_shared(self) -> bool:
        """True if the metrics are sums over several processes."""
        return SHARED_FOLDER in os.environ

    @staticmethod
    def forget(folder: str, process: int) -> None:
        """Remove the queues of a dead process from the sums in a folder; its counts remain."""
        mark_process_dead(process, folder)

    def refuse(self, reason: ErrorReason) -> None:
        """Count a refused request."""
        self.refusals.labels(reason.replace(" ", "_")).inc()

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
            for gauges, load in ((self.waiting, waiting), (self.running, running)):
                for gauge in gauges:
                    gauge.labels(model).set(load)
        self._process.update()

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        if not self.are_shared:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)


def _load_gauge(name: str, where: str, registry: CollectorRegistry) -> Gauge:
    """Return a gauge of the inputs of each model."""
    return Gauge(name, f"Inputs in the {where}", ["model"], registry=registry, multiprocess_mode="livesum")


class ModelMetrics(SchedulerObserver):
    """Metrics of the scheduler of one model."""

    def __init__(self, metrics: ServerMetrics, model: str) -> None:
        self._waited = metrics.waited.labels(model)
        self._steps, self._rows = metrics.steps.labels(model), metrics.rows.labels(model)
        self._tokens = metrics.tokens.labels(model)
        self._first_token, self._token = metrics.first_token.labels(model), metrics.token.labels(model)

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Record the waiting times of jobs, in seconds."""
        for seconds in waited:
            self._waited.observe(seconds)

    def on_step(self, rows: int, max_rows: int) -> None:
        """Count a step and its rows."""
        self._steps.inc()
        self._rows.inc(rows)

    def on_first_tokens(self, seconds: Sequence[float]) -> None:
        """Record the times to the first tokens of searches."""
        for duration in seconds:
            self._first_token.observe(duration)

    def on_finished(self, tokens: int, seconds: float = 0.0) -> None:
        """Count the tokens of an output, and record the mean time between them."""
        self._tokens.inc(tokens)
        if tokens > 1 and seconds:
            self._token.observe(seconds / (tokens - 1))

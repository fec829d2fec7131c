"""Metrics: refusals by reason, times of tokens, versions, and the processes of a server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families

from regard.core import VERSION
from regard.server.batching.metrics import ModelMetrics, ServerMetrics

from .conftest import Running, serving
from .copying import capitals

Serve = Callable[..., Running]
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(values: Values, name: str, **labels: str) -> float:
    return values.get((name, frozenset(labels.items())), 0.0)


def test_refusals_are_counted_by_reason() -> None:
    model, copying = capitals(waiting=2)
    settings = {"characters": 20, "requests_per_minute": 6, "seconds": 0.5, "body_bytes": 1000}
    with serving([model], **settings) as (port, service), httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:

        def status(text: object) -> int:
            return client.post("/v1/translate", json={"text": text}).status_code

        assert [status("x" * 21), status("x" * 2000), status(3), status("A dog. A cat. A cow")] == [400, 413, 422, 413]
        copying.pause = 1.0
        assert [status("a dog"), client.get("/readyz").status_code] == [503, 200]
        copying.pause = 0.0
        assert [status("a"), status("a"), status("a"), status("a")] == [200, 200, 200, 429]
        service.draining = True
        assert client.get("/readyz").status_code == 503
        values = parsed(client.get("/metrics").text)
        reasons = {dict(labels)["reason"]: count for (name, labels), count in values.items() if "refusals_t" in name}
        assert reasons == {"too_large": 3.0, "invalid": 1.0, "deadline": 1.0, "too_many_requests": 1.0}


def test_times_of_tokens_and_the_earlier_names(serve: Serve) -> None:
    server = serve()
    server.model.start()[1].observer = ModelMetrics(server.service.metrics, "capitals")
    server.copying.pause = 0.002
    assert httpx.post(f"{server.url}/v1/translate", json={"text": "a dog runs."}).status_code == 200
    values = parsed(httpx.get(f"{server.url}/metrics").text)
    first = value(values, "regard_time_to_first_token_seconds_sum", model="capitals")
    mean = value(values, "regard_request_time_per_output_token_seconds_sum", model="capitals")
    for name in ("regard_time_to_first_token_seconds", "regard_request_time_per_output_token_seconds"):
        assert value(values, f"{name}_count", model="capitals") == 1
    tokens = value(values, "regard_tokens_total", model="capitals")
    assert first >= 0.002 and mean >= 0.002 and tokens == len("A DOG RUNS.") + 1
    for name in ("regard_waiting", "regard_running", "regard_num_requests_waiting", "regard_num_requests_running"):
        assert (name, frozenset({("model", "capitals")})) in values
    assert values["process_resident_memory_bytes", frozenset()] > 1e6
    ((labels, one),) = [
        (dict(labels), found) for (name, labels), found in values.items() if name == "regard_build_info"
    ]
    assert labels["version"] == VERSION and labels["torch"] == str(torch.__version__) and one == 1
    assert labels["python"] in sys.version and labels["kernels"]


def test_a_canceled_search_has_no_time_for_each_token() -> None:
    metrics = ServerMetrics()
    model = ModelMetrics(metrics, "a")
    model.on_finished(5)
    model.on_finished(1, 0.5)
    model.on_finished(5, 0.4)
    values = parsed(metrics.exposition().decode())
    assert value(values, "regard_request_time_per_output_token_seconds_count", model="a") == 1
    assert value(values, "regard_request_time_per_output_token_seconds_sum", model="a") == pytest.approx(0.1)
    assert value(values, "regard_tokens_total", model="a") == 11


WORKER = """
import sys
from regard.server.batching.metrics import ServerMetrics
metrics = ServerMetrics()
metrics.refuse("queue full")
metrics.set_loads({"a": (2, 1)})
print(metrics.exposition().decode() if len(sys.argv) > 1 else "")
sys.stdout.flush()
sys.stdin.read(1)
"""


def test_several_processes_report_sums(tmp_path: Path) -> None:
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as first:
        assert first.stdout is not None and first.stdin is not None
        first.stdout.readline()
        text = subprocess.run([*command, "all"], input="", stdout=-1, text=True, env=environment, check=True).stdout
        first.stdin.close()
    values = parsed(text)
    assert value(values, "regard_refusals_total", reason="queue_full") == 2
    assert value(values, "regard_num_requests_waiting", model="a") == value(values, "regard_waiting", model="a") == 4
    assert [found for (name, _), found in values.items() if name == "regard_build_info"] == [1]
    memory, start = (value(values, f"process_{name}") for name in ("resident_memory_bytes", "start_time_seconds"))
    assert memory > 2e7 and 1e9 < start < 1e11  # the memory of both, the start of one

"""Metrics of the processes of a server, and of the versions that it runs."""

from __future__ import annotations

import importlib.metadata
import platform

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.process_collector import ProcessCollector

from regard.core import VERSION
from regard.native.library import library

# How values of the live processes become one: memory, time and open files are sums.
MODES = {
    "process_virtual_memory_bytes": "livesum",
    "process_resident_memory_bytes": "livesum",
    "process_start_time_seconds": "livemin",
    "process_cpu_seconds_total": "livesum",
    "process_open_fds": "livesum",
    "process_max_fds": "livemin",
}


class ProcessMetrics:
    """Memory, processor time and open files of a server, under the names of Prometheus' client libraries.

    prometheus_client has them for one process only. With several, each worker sets gauges, which are combined.

    Args:
        registry: the registry of the metrics.
        shared: whether the server has several processes.
    """

    def __init__(self, registry: CollectorRegistry, *, shared: bool) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._collector = ProcessCollector(registry=None if shared else registry)
        if shared:
            self._gauges = {
                name: Gauge(name, "Of all workers", registry=registry, multiprocess_mode=mode)  # type: ignore[arg-type]
                for name, mode in MODES.items()
            }

    def update(self) -> None:
        """Set the gauges of this process, if there are several."""
        for metric in self._collector.collect() if self._gauges else ():
            for sample in metric.samples:
                if sample.name in self._gauges:
                    self._gauges[sample.name].set(sample.value)


def add_build_info(registry: CollectorRegistry) -> None:
    """Add the metric whose labels are the versions of Regard, Python and torch, and the kernels; its value is 1."""
    kernels = library()
    versions = {
        "version": VERSION, "python": platform.python_version(), "torch": importlib.metadata.version("torch"),
        "kernels": kernels.set if kernels else "none",
    }  # fmt: skip
    info = Gauge("regard_build_info", "Versions", list(versions), registry=registry, multiprocess_mode="max")
    info.labels(**versions).set(1)

"""Idle OpenMP threads: configured to sleep soon, before torch loads the library."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

# Iterations of libgomp's spin loop, about 0.1 ms, after which an idle thread sleeps. The default is 300,000: if another
# program occupies a core, every operation of torch then waits that long for the thread without a core.
SPINS = "5000"
CHOSEN = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}


def wait_briefly(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make idle threads sleep soon, unless the environment configures how they wait."""
    if not CHOSEN & environment.keys():
        environment["GOMP_SPINCOUNT"] = SPINS

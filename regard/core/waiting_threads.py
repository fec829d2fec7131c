"""Threads of OpenMP that have nothing to do: told to sleep soon, before torch loads the library."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

# Rounds of libgomp's loop, some 0.1 ms, after which a thread sleeps until there is work. By default it is 300,000:
# where another program has a core, every operation of torch then waits as long for the thread that has none.
SPINS = "5000"
CHOSEN = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}


def wait_briefly(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let idle threads sleep soon, unless the environment says how they are to wait."""
    if not CHOSEN & environment.keys():
        environment["GOMP_SPINCOUNT"] = SPINS

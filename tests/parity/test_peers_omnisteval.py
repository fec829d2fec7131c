"""Latency measures of OmniSTEval, over random outputs."""

from __future__ import annotations

import json
import math
import random
import subprocess

import pytest

from regard.metrics.latency import MEASURES, Timed, mean_lags

from .peers.asking import PYTHON, ROOT, needs_peers


def outputs() -> list[Timed]:
    draw = random.Random(1)
    drawn = []
    for _ in range(300):
        source = draw.choice([draw.randint(1, 20), draw.uniform(500.0, 20000.0)])
        delays = sorted(draw.uniform(0.0, 1.1 * source) for _ in range(draw.randint(1, 25)))
        if draw.random() < 0.3:
            delays = [min(delay, source) for delay in delays]
        drawn.append(Timed(delays, source, draw.randint(1, 25)))
    return drawn


@needs_peers
@pytest.mark.parametrize("computation_aware", [False, True])
def test_omnisteval(computation_aware: bool) -> None:
    drawn = outputs()
    request = {"computation_aware": computation_aware, "outputs": drawn}
    runner = [str(PYTHON), "-m", "tests.parity.peers.omnisteval"]
    done = subprocess.run(runner, input=json.dumps(request), capture_output=True, text=True, cwd=ROOT, check=True)
    theirs = json.loads(done.stdout)
    for name, measure in MEASURES.items():
        for timed, value in zip(drawn, theirs[name]["each"], strict=True):
            ours = measure(timed)
            assert (ours is None) == (value is None)
            assert ours is None or math.isclose(ours, value, rel_tol=0, abs_tol=1e-9 * max(1.0, timed.source_length))
        assert math.isclose(mean_lags(drawn)[name], theirs[name]["mean"], rel_tol=1e-12)

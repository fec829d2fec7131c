"""Settings of streams: the policy, and its lag. Imports no torch."""

from __future__ import annotations

from typing import Literal

PolicyName = Literal["wait-k", "local-agreement", "alignatt"]
DEFAULT_POLICY: PolicyName = "local-agreement"
DEFAULT_AGREE = 2  # hypotheses of local agreement (Liu et al. 2020)
MOST_AGREE = 8  # a cursor has a count for each hypothesis
RATE = 3.0  # source words per second, as in speech, for latency in milliseconds
DEFAULT_LAG: dict[PolicyName, int] = {"wait-k": 5, "local-agreement": 1, "alignatt": 2}

SOUND_LAG: dict[PolicyName, int] = {"local-agreement": 1, "alignatt": 40}  # in steps, and in frames of 10 ms
SOUND_UNIT: dict[PolicyName, str] = {"local-agreement": "steps", "alignatt": "frames of 10 ms"}

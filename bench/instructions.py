"""Measuring a lesser processor on this one: libraries are told to leave out newer instructions, and asked if they did.

Each has a switch of its own: oneDNN (torch's matrix products), ATen (the rest of torch), MKL and CTranslate2.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LEVELS", "limited", "proof"]

LEVELS: dict[str, dict[str, str]] = {
    "all": {},
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
        "REGARD_NATIVE": "avx2",
    },
}
OURS = """
import torch
print("ATen", torch.backends.cpu.get_cpu_capability())
x = torch.ones(64, 64)
(x @ x).sum(), torch.ops.mkldnn._linear_pointwise(x, x, None, "none", [], "")
"""
THEIRS = """
import sys, ctranslate2
ctranslate2.Translator(sys.argv[1], device="cpu")
"""


def limited(level: str) -> None:
    """From here on this process and those that it starts compute with no more than these instructions."""
    os.environ.update(LEVELS[level])


def proof(peer: Path | None = None, model: Path | None = None) -> list[str]:
    """What the libraries say that they use, one line each, in the environment as it is.

    ``peer`` is the interpreter of CTranslate2's environment and ``model`` any model of its.
    """
    said = _output([sys.executable, "-c", OURS], {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"})
    lines = [line for line in said if line.startswith("ATen")]
    lines += [f"oneDNN {found[1]}" for line in said if (found := re.search(r"cpu,isa:(.*)", line))]
    lines += [
        f"MKL {found[1]}"
        for line in said
        if (found := re.search(r"architecture (.*?)(?: enabled processors)?, Lnx", line))
    ]
    if peer is not None and model is not None:
        said = _output([peer, "-c", THEIRS, model], {"CT2_VERBOSE": "1"})
        lines += _named("CTranslate2's own loops", r"Selected ISA: (\S+)", said)
    return lines


def _named(name: str, pattern: str, lines: list[str]) -> list[str]:
    return [f"{name} {found[1]}" for line in lines if (found := re.search(pattern, line))]


def _output(command: Sequence[str | Path], environment: dict[str, str]) -> list[str]:
    found = subprocess.run(
        command, env=os.environ | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return found.stdout.splitlines()

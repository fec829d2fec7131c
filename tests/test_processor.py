"""Products of the fast engines of torch: which kernels compute them, and whether bfloat16 is in hardware."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
import torch

from regard.core.processor import bfloat16_in_hardware

HERE = "ALL"  # the instructions that this processor has


def test_no_engine_computes_by_a_kernel_that_is_only_for_reference() -> None:
    """oneDNN has a kernel for anything, thousands of times as slow, and says so only if it is asked."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    lesser = ["AVX512_CORE", "AVX2"] if platform.machine() == "x86_64" else []  # those below this processor's
    command = [sys.executable, "-m", "tests.kernels", HERE, *lesser]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2 * (1 + len(lesser))
    assert any(each["kernels"] for each in found), "nothing was heard of oneDNN"
    assert [each for each in found if any("ref" in name for name in each["kernels"])] == []


@pytest.mark.parametrize(
    ("supported", "machine", "avx512_bf16", "amx", "hardware"),
    [
        (False, "x86_64", True, True, False),  # oneDNN was told to leave it
        (True, "x86_64", False, False, False),  # AVX-512 alone
        (True, "x86_64", True, False, True),
        (True, "AMD64", False, True, True),
        (True, "aarch64", False, False, True),
    ],
)
def test_bfloat16_is_in_hardware_or_emulated(
    monkeypatch: pytest.MonkeyPatch, supported: bool, machine: str, avx512_bf16: bool, amx: bool, hardware: bool
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert bfloat16_in_hardware() is hardware

"""Products of the fast engines of torch: which kernels compute them, and whether bfloat16 is in hardware."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import cli
from regard.core import processor
from regard.core.processor import bfloat16_in_hardware, cpu_quota, limit_threads, usable_cores

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


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n", "cpu.max": "max 100000"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "250000 100000\n"}, 2.5),
        ("0::/gone\n", {"cpu.max": "50000 100000\n"}, 0.5),  # a container that sees its group as the root
        (
            "3:cpu,cpuacct:/x\n0::/\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ("1:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, None),
        ("4:memory:/x\n3:cpuset:/\n", {"memory/x/cpu.max": "1 2", "cpuset/cpu.max": "1 2"}, None),
        ("0::/\n", {"cpu.max": "half\n"}, None),
        ("0::/\n", {"cpu.max": "50000 0\n"}, None),
        ("0::/\n", {}, None),
        ("nothing\n", {"cpu.max": "50000 100000\n"}, None),
        ("0::/../..\n", {"cpu.max": "50000 100000\n"}, 0.5),
    ],
)  # fmt: skip
def test_the_quota_is_the_smallest_of_all_groups(own: str, files: dict[str, str], quota: float, tmp_path: Path) -> None:
    root = tmp_path / "a" / "groups"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert cpu_quota(root, tmp_path / "own") == quota
    assert cpu_quota(root, tmp_path / "none") is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.5, 1), (1.0, 1), (2.5, 3), (100.0, 8)])
def test_cores_follow_from_affinity_and_quota(quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_affinity", lambda: 8)
    monkeypatch.setattr(processor, "cpu_quota", lambda: quota)
    assert usable_cores() == cores


def test_threads_obey_a_quota_unless_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before, environment = torch.get_num_threads(), dict[str, str]()
    for module in (processor, cli):
        monkeypatch.setattr(module, "cpu_quota", lambda: 0.5)
    monkeypatch.setattr(cli, "usable_cores", lambda: 1)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    try:
        torch.set_num_threads(4)
        limit_threads()
        assert torch.get_num_threads() == 1
        torch.set_num_threads(4)
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        limit_threads()
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    cli._obey_quota(environment)
    assert environment == {"OMP_NUM_THREADS": "1"}
    environment["OMP_NUM_THREADS"] = "3"
    cli._obey_quota(environment)
    assert environment == {"OMP_NUM_THREADS": "3"}
    monkeypatch.setattr(cli, "cpu_quota", lambda: None)
    cli._obey_quota(other := {})
    assert other == {}

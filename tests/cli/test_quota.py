"""The CPU quota of a container limits the threads of every entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.bulk import run as bulk_run
from regard.cli import run
from regard.commands import serve_workers
from regard.commands.server_plan import ServerPlan
from regard.core import processor
from regard.training import setup

from .conftest import TinyRun

CORES = 8


@pytest.fixture(params=[None, 0.5, 4.0])
def allowed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The cores of a container on a machine with eight; torch begins with eight threads."""
    monkeypatch.setattr(processor, "cpu_quota", lambda: request.param)
    monkeypatch.setattr(processor, "_affinity", lambda: CORES)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    yield {None: CORES, 0.5: 1, 4.0: 4}[request.param]
    torch.set_num_threads(before)


class Stopped(Exception):
    """The part under test was reached."""


def stop(*arguments: Any, **options: Any) -> None:
    raise Stopped


def test_a_loaded_model(allowed: int, tiny_run: TinyRun) -> None:
    regard.load(tiny_run.path)
    assert torch.get_num_threads() == allowed


@pytest.mark.parametrize("entry", ["command", "python"])
def test_a_training(
    entry: str, allowed: int, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "prepare", stop)
    config = tmp_path / "config.toml"
    config.write_text((tiny_run.path / "config.toml").read_text().replace("\nthreads = 1\n", "\n"))
    with pytest.raises(Stopped):
        if entry == "command":
            run(["train", str(config), "--name", "new", "--runs", str(tmp_path)], debug=True)
        else:
            regard.train(config, tmp_path / "new")
    assert torch.get_num_threads() == allowed


@pytest.mark.parametrize("on", ["processes", "ray"])
def test_workers_of_a_bulk_job_share_the_quota(
    on: str, allowed: int, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = []

    def record(order: Any, *arguments: Any, **options: Any) -> None:
        orders.append(order)
        raise Stopped

    monkeypatch.setattr(bulk_run, "run_on_ray" if on == "ray" else "run_processes", record)
    (tmp_path / "in.txt").write_text("a\nb\n")
    command = ["translate", str(tiny_run.path), str(tmp_path / "in.txt"), "-o", str(tmp_path / "out"), "--workers", "2"]
    with pytest.raises(Stopped):
        run([*command, *(["--on", "ray"] if on == "ray" else [])], debug=True)
    assert [order.spec["threads"] for order in orders] == [max(1, allowed // 2)]


def test_workers_of_a_server_share_the_quota(allowed: int) -> None:
    plan = ServerPlan(["run"], "127.0.0.1", 0)
    assert serve_workers._share(plan, 2).opening["threads"] == max(1, allowed // 2)
    assert serve_workers._share(replace(plan, opening={"threads": 3}), 2).opening["threads"] == 3


@pytest.mark.parametrize("command", ["--version", "study", "train"])
def test_every_command_and_its_child_processes(command: str) -> None:
    """Ranks of torchrun run ``python -m regard``, too. OpenMP reads the variable when torch is imported."""
    code = (
        "import os, runpy, sys\nfrom regard.core import processor\nprocessor.cpu_quota = lambda: 0.5\n"
        f"sys.argv = ['regard', {command!r}, '--help']\n"
        "try:\n    runpy.run_module('regard', run_name='__main__')\nexcept SystemExit:\n"
        "    assert 'torch' not in sys.modules\n    print(os.environ['OMP_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "1"

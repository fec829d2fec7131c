"""``regard doctor``: facts, and what is wrong."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.core.installation import Extra, extra_command, extras
from regard.native import build as kernel_builder
from regard.native.build import is_supported
from regard.native.library import CHOICE, find


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_facts(regard, here: Path) -> None:
    found = json.loads(regard("doctor", "--json").stdout)["facts"]
    assert found["torch"] == torch.__version__
    assert found["folder"] == str(here)
    assert found["disk write test"].endswith("MB/s")
    assert list(here.iterdir()) == []


def test_every_extra_is_named_with_what_it_is_for(regard, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(regard("doctor", "--json").stdout)["facts"]
    assert {name for name in found if name.startswith("extra ")} == {f"extra {each.name}" for each in extras()} != set()
    assert found["extra serve"] == "for regard serve and the page of regard inspect: installed"
    lacking = [Extra("plot", "pictures", ["matplotlib"])]
    monkeypatch.setattr("regard.commands.doctor.extras", lambda: lacking)
    told = json.loads(regard("doctor", "--json").stdout)["facts"]["extra plot"]
    assert told == f"for pictures: matplotlib missing; {extra_command('plot')}"


@pytest.mark.parametrize("choice", ["", "off", "nonsense", "plain"])
def test_it_tells_of_the_kernels(regard, choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, reason = find(choice="")
    if kernels is None:
        pytest.skip(f"needs the kernels: {reason}")
    names = ", ".join(kernels.sets)
    told = {
        "": f"for {kernels.sets[0]} (the fastest of {names})",
        "off": f"not available: {CHOICE} is off",
        "nonsense": f"not available: {CHOICE} is nonsense, but this processor supports {names}",
        "plain": f"for plain (set by {CHOICE} of {names})",
    }[choice]
    monkeypatch.setenv(CHOICE, choice)
    find.cache_clear()
    try:
        assert json.loads(regard("doctor", "--json").stdout)["facts"]["kernels in C"] == told
    finally:
        find.cache_clear()


@pytest.mark.parametrize(
    ("hardware", "kernels", "told"),
    [
        (True, SimpleNamespace(set="plain", sets=("plain",)), ("in hardware", "exact, by the C kernels")),
        (False, None, ("emulated (slow)", "not available: they need the C kernels")),
    ],
)
def test_what_the_fast_engines_can_use(
    regard, monkeypatch: pytest.MonkeyPatch, hardware: bool, kernels: Any, told: tuple[str, str]
) -> None:
    """That oneDNN calls bfloat16 supported says nothing: it emulates it."""
    monkeypatch.setattr("regard.core.processor.bfloat16_in_hardware", lambda: hardware)
    monkeypatch.setattr("regard.native.library.find", lambda: (kernels, "not built"))
    found = json.loads(regard("doctor", "--json").stdout)["facts"]
    assert (found["bfloat16 products"], found["8-bit products"]) == told


def test_a_table_to_paste(regard) -> None:
    lines = regard("doctor", "--markdown").stdout.splitlines()
    assert lines[1] == "|---|---|"
    assert any(line.startswith("| torch | ") for line in lines)


def test_a_folder_that_cannot_be_written(regard, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**where: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    result = regard("doctor")
    assert result.exit_code == 6
    assert "is not writable: Read-only file system" in result.stdout


def test_little_room(regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=100 << 20))
    result = regard("doctor")
    assert result.exit_code == 0
    assert "problem: only 0.1 GiB are free" in result.stdout


def test_a_quota_of_the_container_is_printed(regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.commands.doctor.cpu_quota", lambda: 0.5)
    assert "usable by this process, a quota of 0.5" in regard("doctor").stdout


def test_more_threads_than_cores(regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 512)
    assert "torch uses 512 threads" in regard("doctor").stdout


@pytest.mark.parametrize(
    ("cards", "mps", "told"),
    [
        (["A100", "T4"], True, "A100, T4; Regard uses the first"),
        ([], True, "Apple mps (not supported); Regard uses the CPU"),
        ([], False, "none; Regard uses the CPU"),
    ],
)
def test_which_accelerator_computes(
    regard, monkeypatch: pytest.MonkeyPatch, cards: list[str], mps: bool, told: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number=0: cards[number])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert json.loads(regard("doctor", "--json").stdout)["facts"]["accelerators"] == told


@pytest.fixture
def fresh() -> Iterator[None]:
    find.cache_clear()
    yield
    find.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.skipif(not is_supported(), reason="no kernels exist for this machine")
def test_missing_kernels_are_a_problem_with_the_command_that_builds_them(
    regard, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = partial(find.__wrapped__, here / "none.so", choice="")
    monkeypatch.setattr("regard.native.library.find", missing)
    (problem,) = [each for each in json.loads(regard("doctor", "--json").stdout)["problems"] if "kernels" in each]
    assert problem.startswith("the C kernels are missing: not built; ")
    assert "problem: the C kernels are missing" in regard("doctor").stdout
    command = shlex.split(problem.rpartition(": ")[2].rpartition("&& ")[2])
    assert command == ["python", "-m", "regard.native.build"]
    calls = list[object]()
    monkeypatch.setattr(kernel_builder, "is_current", lambda: False)
    monkeypatch.setattr(kernel_builder, "build", lambda: calls.append(None) or Path("kernels.so"))
    kernel_builder.main()  # what the module runs
    assert calls


@pytest.mark.usefixtures("fresh")
@pytest.mark.skipif(not is_supported(), reason="no kernels exist for this machine")
def test_kernels_that_are_switched_off_are_a_problem_until_the_variable_is_unset(
    regard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "off")
    (problem,) = [each for each in json.loads(regard("doctor", "--json").stdout)["problems"] if "kernels" in each]
    assert f"{CHOICE} is off" in problem and problem.endswith(f"unset {CHOICE}")
    monkeypatch.delenv(CHOICE)
    find.cache_clear()
    problems = json.loads(regard("doctor", "--json").stdout)["problems"]
    assert not [each for each in problems if CHOICE in each]

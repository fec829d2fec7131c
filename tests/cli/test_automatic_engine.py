"""``--engine auto``: measured on the run's own lines, told in a sentence, remembered beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import regard as package
from regard.errors import ConfigError
from regard.inference.engine_choice import Judged, candidates
from regard.native.library import library
from regard.runs.run_folder import RunFolder
from regard.tasks import automatic_engine
from regard.tasks.load import load_net
from tests.cli.conftest import TinyRun

pytestmark = pytest.mark.skipif(library() is None, reason="needs the kernels")
FASTEST = "torch"  # of the fakes below


class Fake:
    made: ClassVar[list[str]] = []
    clock = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.made.append(name)

    def judged(self) -> Judged:
        return Judged(torch.zeros(3), torch.zeros(3))

    def run(self) -> None:
        Fake.clock += 0.1 if self.name == FASTEST else 0.2


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that were measured; by a clock of their own."""
    measure = automatic_engine.measure
    monkeypatch.setattr(automatic_engine, "trial_of", lambda net, name, lines: Fake(name))
    monkeypatch.setattr(automatic_engine, "measure", lambda trials, clock: measure(trials, lambda: Fake.clock))
    monkeypatch.setattr(Fake, "made", [])
    return Fake.made


def test_it_is_measured_once_and_told(regard: Any, run: Path, measured: list[str]) -> None:
    first = regard("translate", run, "--engine", "auto", input="a b\n")
    assert first.stdout == "A B\n" and f"engine {FASTEST}: float32 200 ms, torch 100 ms" in first.stderr
    assert measured[:3] == ["float32", "torch", "int8"]
    again = regard("translate", run, "--engine", "auto", input="a b\n")
    assert f"engine {FASTEST}: float32 200 ms" in again.stderr and len(measured) == len(set(measured))
    assert package.load(run, engine="auto").engine == FASTEST
    assert regard("translate", run, input="a b\n").stderr == "", "nobody asked"


def test_other_weights_and_other_threads_are_measured_anew(
    run: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def times() -> int:
        package.load(run, engine="auto", checkpoint="last")
        return measured.count("float32")

    assert (times(), times()) == (1, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert (times(), times()) == (2, 2)
    manifest = RunFolder.open(run).weights_path("last").path / "manifest.json"
    key = automatic_engine._key(manifest.parent)
    manifest.write_text(manifest.read_text() + "\n")
    assert automatic_engine._key(manifest.parent) != key


def test_an_engine_that_this_machine_has_not_is_not_taken_from_the_file(
    run: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package.load(run, engine="auto")
    monkeypatch.setattr(automatic_engine, "candidates", lambda net: ["float32", "int8"])
    assert package.load(run, engine="auto").engine == "float32"
    monkeypatch.setattr(automatic_engine, "candidates", lambda net: [])
    assert package.load(run, engine="auto").engine == "float32"


def test_without_lines_it_is_float32(regard: Any, run: Path, measured: list[str]) -> None:
    for name in ("valid-0", "train-0"):
        shutil.rmtree(run / "data" / name)
    result = regard("translate", run, "--engine", "auto", input="a b\n")
    assert result.stdout == "A B\n" and measured == [] and not (run / "engine.json").exists()
    assert "engine float32:" in result.stderr and "holds no prepared lines" in result.stderr


def test_training_lines_serve_where_there_are_no_others(run: Path) -> None:
    shutil.rmtree(run / "data" / "valid-0")
    net, codecs, folder = load_net(run)
    assert automatic_engine.lines_of(folder, net, codecs) is not None


def test_real_engines_are_measured(run: Path) -> None:
    """Those of the machine, by a clock that adds a second a look: nobody is faster."""
    net, codecs, folder = load_net(run)
    said: list[str] = []
    looks = iter(range(1000))
    chosen = automatic_engine.automatic_engine(
        folder, net, codecs, folder.weights_path().path, said.append, lambda: float(next(looks))
    )
    assert chosen == "float32"
    (choice,) = json.loads((run / "engine.json").read_text())["choices"]
    assert list(choice["engines"]) == candidates(net)
    torch_figures = choice["engines"]["torch"]
    assert torch_figures["difference"] < 1e-4 and torch_figures["agreement"] == 1.0
    assert 1e-7 < choice["engines"]["int8"]["difference"] < 0.5


def test_work_in_bulk_has_one_engine(regard: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b\n")
    out = f"{tmp_path / 'out'}/"
    error = regard("translate", run, tmp_path / "in", "-o", out, "--engine", "auto").exception
    assert isinstance(error, ConfigError) and error.where == "--engine" and "--engine float32" in str(error.help)

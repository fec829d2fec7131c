"""Sizes that a config or a file states are compared before memory is taken for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import torch

import regard
from regard import cli
from regard.core import atomic_files, out_of_memory
from regard.errors import ConfigError, ModelError, TrainingError
from regard.runs import checkpoint, size_check
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import outline, require_fitting
from regard.tasks.translation.task import TASK
from regard.training import setup
from regard.training.setup import require_trainable, set_up

ABSURD = {
    "feed_forward = 32": "feed_forward = 400000",
    "width = 16": "width = 1048576",
    "layers = 1": "layers = 1000",
    'kind = "sinusoidal"': 'kind = "learned"\nlongest = 9999999',
}


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a model built nor a tensor read."""

    def refuse(*given: object, **options: object) -> None:
        pytest.fail("memory was taken before the sizes were compared")

    monkeypatch.setattr(setup, "_build", refuse)
    monkeypatch.setattr(safetensors.torch, "load", refuse)


def say(run: Path, written: str, absurd: str) -> None:
    text = (run / "config.toml").read_text(encoding="utf-8")
    assert written in text
    (run / "config.toml").write_text(text.replace(written, absurd), encoding="utf-8")


def exit_code(*arguments: object) -> int:
    threads = torch.get_num_threads()
    code = cli.run([str(each) for each in arguments])
    torch.set_num_threads(threads)
    return code


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("written", ABSURD)
def test_a_config_that_lies_about_sizes_costs_no_memory(
    received: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], written: str
) -> None:
    run = received
    say(run, written, ABSURD[written])
    with pytest.raises(ModelError, match="do not match the config of the run"):
        regard.load(run)
    for arguments in (
        ["translate", run, received / "in.txt"],
        ["average", run, "--last", 2],
        ["export", run, tmp_path / "given", "--to", "hub"],
        ["inspect", run, "a b", "--html", tmp_path / "page.html"],
    ):
        assert exit_code(*arguments) == 4
        assert "do not match the config of the run" in capfd.readouterr().err


@pytest.mark.usefixtures("no_memory")
def test_a_resume_is_refused_before_a_model_is_built(
    received: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(size_check, "total_memory", lambda: 1 << 50)  # it would fit
    say(received, "feed_forward = 32", "feed_forward = 400000")
    assert exit_code("train", "--resume", received) == 4
    assert "feed_forward" in capfd.readouterr().err


def test_a_new_training_without_room_says_so_at_once(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunFolder.open(received).config
    values = config.model_dump(exclude_none=True)
    absurd = ["model.feed_forward=1048576", "model.width=65536", "model.heads=1"]
    with pytest.raises(TrainingError, match=r"too large for this machine(.|\n)*GiB") as caught:
        require_trainable(load_config(values, absurd))
    assert "lower model.width" in (caught.value.help or "")
    require_trainable(config)
    build = partial(TASK.build, config, TASK.small_spec)
    needed = 16 * sum(tensor.numel() for tensor in outline(build).values())
    monkeypatch.setattr(size_check, "total_memory", lambda: needed)
    require_trainable(config)
    run = RunFolder.open(received)
    monkeypatch.setattr(setup, "_build", lambda *given, **options: pytest.fail("built"))
    with pytest.raises(TrainingError, match="too large"):  # its vocabulary has more than eight pieces
        set_up(run, log=lambda text: None)


def test_the_machine_has_some_memory_and_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        assert out_of_memory.total_memory() > 1 << 30
        return
    whole = out_of_memory.total_memory()
    assert 1 << 28 < whole < 1 << 50
    (tmp_path / "limit").write_text("1000000\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(out_of_memory, "LIMITS", [str(tmp_path / name) for name in ("none", "absent", "limit")])
    assert out_of_memory.total_memory() == 1_000_000
    monkeypatch.setattr(out_of_memory, "LIMITS", [])
    monkeypatch.setattr(out_of_memory.resource, "getrlimit", lambda which: (5_000_000, -1))
    assert out_of_memory.total_memory() == 5_000_000


def test_sizes_that_nothing_can_have_are_an_error_of_the_config() -> None:
    config = load_config({"data": {"train": []}, "model": {"width": 1 << 20, "heads": 1, "share": "none"}})
    with pytest.raises(ConfigError, match="cannot be built"):
        outline(partial(TASK.build, config, {"source_types": 1 << 50, "target_types": 8}))


def reseal(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Other tensors, and a manifest that agrees."""
    file = path / "model.safetensors"
    safetensors.torch.save_file(tensors, file)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][file.name] = {"size": file.stat().st_size, "sha256": atomic_files.sha256(file)}
    atomic_files.write_json(path / "manifest.json", manifest)


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "another shape": lambda tensor: torch.zeros(*tensor.shape, 1),
    "integers": lambda tensor: tensor.int(),
    "bits": lambda tensor: tensor > 0,
}


@pytest.mark.parametrize("how", CHANGES)
def test_tensors_of_another_shape_or_kind_are_named(received: Path, how: str) -> None:
    path = RunFolder.open(received).weights_path().path
    tensors = checkpoint.load(path).groups["model"]
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    own = {key: tensor for key, tensor in tensors.items() if key not in state(path)["shared"]["model"]}
    reseal(path, own | {name: CHANGES[how](tensors[name])})
    with pytest.raises(ModelError, match="do not match the config of the run") as caught:
        regard.load(received)
    assert name in str(caught.value)


def state(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = json.loads((path / "state.json").read_text())
    return found


def test_half_precision_is_no_misfit(received: Path) -> None:
    run = RunFolder.open(received)
    path = run.weights_path().path
    tensors = checkpoint.load(path, only={"model"}).groups["model"]
    own = {key: tensor for key, tensor in tensors.items() if key not in state(path)["shared"]["model"]}
    reseal(path, {name: tensor.bfloat16() for name, tensor in own.items()})
    require_fitting(path, partial(TASK.build, run.config, TASK.open(run).spec), layers=run.config.layers)
    assert regard.load(received)("a b").source == "a b"

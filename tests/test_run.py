"""The run folder and the machine: what is written down of it, and what a resume on another says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ModelError
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder, environment
from regard.training.setup import set_up

from .test_train import Making, Recorder


@pytest.fixture
def making(tmp_path: Path) -> Making:
    return Making(tmp_path)


def test_a_build_of_torch_without_mkldnn_has_an_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Mac: asking for mkldnn's operation raises there."""

    def missing() -> bool:
        raise NotImplementedError("Could not run 'mkldnn::_is_mkldnn_bf16_supported'")

    assert environment()["bfloat16_products"] is torch.ops.mkldnn._is_mkldnn_bf16_supported()
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", missing)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert environment()["bfloat16_products"] is False


@pytest.mark.parametrize(
    ("precision", "hardware", "told"), [("bfloat16", False, True), ("bfloat16", True, False), ("float32", False, False)]
)
def test_training_in_emulated_bfloat16_is_told(
    making: Making, monkeypatch: pytest.MonkeyPatch, precision: str, hardware: bool, told: bool
) -> None:
    monkeypatch.setattr("regard.training.setup.bfloat16_in_hardware", lambda: hardware)
    monkeypatch.setattr("regard.training.setup._device", lambda: torch.device("cpu"))
    run, said = RunFolder.create(making.folder / "run", making.config(precision=precision)), []
    set_up(run, log=said.append)
    assert any("emulates bfloat16" in line for line in said) is told


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("width", [16, 17])
def test_the_number_format_depends_on_the_processor_and_the_width_alone(
    making: Making, monkeypatch: pytest.MonkeyPatch, hardware: bool, width: int
) -> None:
    """The network is 16 wide."""
    monkeypatch.setattr("regard.training.setup.bfloat16_in_hardware", lambda: hardware)
    monkeypatch.setattr("regard.training.setup.BFLOAT16_WIDTH", width)
    monkeypatch.setattr("regard.training.setup._device", lambda: torch.device("cpu"))
    run = RunFolder.create(making.folder / "run", making.config(precision="auto"))
    set_up(run, log=lambda message: None)
    plan = run.read_plan()
    assert plan is not None
    assert plan.precision == ("bfloat16" if hardware and width == 16 else "float32")
    assert plan.seconds_per_update == {plan.precision: 0.0}, "nothing is timed without train.minutes"


@pytest.mark.parametrize(("device", "told"), [("cpu", False), ("cuda", True)])
def test_a_resume_on_an_accelerator_promises_no_bits(making: Making, device: str, told: bool) -> None:
    trainer = making(steps=2, save_every=1)
    trainer.fit()
    again = making.again(trainer.run)
    again.strategy.device = torch.device(device)
    assert again.resume()
    assert isinstance(again.reporter, Recorder)
    assert any("accelerator" in message for message in again.reporter.messages) is told


@pytest.mark.parametrize(("deterministic", "setting"), [(False, None), (True, ":4096:8")])
def test_determinism_asks_cublas_too(
    making: Making, monkeypatch: pytest.MonkeyPatch, deterministic: bool, setting: str | None
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda wanted: None)  # it imports the compiler
    making(deterministic=deterministic)
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == setting


def test_a_damaged_note_of_the_best_stops_neither_resume_nor_save(making: Making) -> None:
    trainer = making(steps=10, valid=True, validate_every=5, save_every=5)
    trainer.budget.first = 5
    trainer.fit()
    best = trainer.run.checkpoints / "best.json"
    whole = checkpoint.read_best(trainer.run.checkpoints)
    assert whole is not None
    for damage in (b'{"step": 5, "met', b"[]", b"\xff"):
        best.write_bytes(damage)
        again = making.again(trainer.run)
        assert again.resume()
        assert checkpoint.read_best(trainer.run.checkpoints) == whole, "it is known, so it is said anew"
    best.write_bytes(b"{")
    again.fit()
    assert checkpoint.list_steps(trainer.run.checkpoints)[-1] == 10
    found = checkpoint.read_best(trainer.run.checkpoints)
    assert found is not None and found.step in (5, 10)


def test_a_best_checkpoint_that_was_removed_is_not_asked_for(making: Making) -> None:
    """As an error about a damaged one advises: the last of the others is then loaded."""
    trainer = making(valid=True, validate_every=2, save_every=2, steps=6)
    trainer.fit()
    run, steps = trainer.run, checkpoint.list_steps(trainer.run.checkpoints)
    shutil.rmtree(checkpoint.step_path(run.checkpoints, trainer.progress.best_step))
    left = [step for step in steps if step != trainer.progress.best_step]
    assert run.weights_path().steps == left[-1:]
    with pytest.raises(ModelError, match="no best checkpoint"):
        run.weights_path("best")


@pytest.mark.parametrize("damage", [
    {"fit": [1, 0, 0]}, {"fit": [-1, 1, 1]}, {"decisions": [[0, 5]]}, {"decisions": [[5, 9], [5, 8]]}, {"most": -1},
    {"fit": [1, 1, 10**400]},
])  # fmt: skip
def test_numbers_of_a_plan_are_those_of_updates(making: Making, damage: dict[str, Any]) -> None:
    trainer = making(steps=2)
    path = trainer.run.path / "plan.json"
    plan = {
        "precision": "float32",
        "steps": 2,
        "threads": 1,
        "seconds_per_update": {},
        "source_types": 9,
        "target_types": 9,
    }
    path.write_text(json.dumps(plan), encoding="utf-8")
    assert trainer.run.read_plan() is not None
    path.write_text(json.dumps(plan | damage), encoding="utf-8")
    with pytest.raises(ModelError, match=r"plan\.json is damaged"):
        trainer.run.read_plan()


def test_files_given_to_evaluation_have_all_that_a_task_asks_of_a_run() -> None:
    """A task prepares them as those of a training: what one of both lacks fails at the first use."""
    from regard.core.task import RunFiles
    from regard.tasks.evaluation import EvaluationFiles

    asked = {name for name in (*vars(RunFiles), *RunFiles.__annotations__) if not name.startswith("_")}
    assert "makes_codecs" in asked
    assert asked <= {*EvaluationFiles._fields}

"""``regard average``: the mean of checkpoints, as a checkpoint."""

from __future__ import annotations

import pytest
import torch

from regard.core import atomic_files
from regard.errors import ConfigError, ModelError, StorageError
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder

from .conftest import TinyRun


def test_the_average_is_the_mean_and_is_what_is_loaded(regard, tiny_copy: TinyRun) -> None:
    result = regard("average", tiny_copy.path, "--last", "2")
    assert result.stdout.startswith("averaged 2 checkpoints: steps 300, 400\n")
    run = RunFolder.open(tiny_copy.path)
    loaded = run.weights()
    assert loaded.path.name == "average"
    assert loaded.state["averaged"] == [300, 400]
    first, second = (run.weights(str(step)).groups["model"] for step in (300, 400))
    for name, tensor in loaded.groups["model"].items():
        assert torch.allclose(tensor, (first[name] + second[name]) / 2, atol=1e-6), name
    assert not torch.equal(loaded.groups["model"]["head.weight"], second["head.weight"])
    told = regard("evaluate", tiny_copy.path, tiny_copy.source, tiny_copy.target, "--metric", "wer")
    assert "checkpoint average (steps 300, 400)" in told.stdout


def test_named_steps_replace_the_average_before(regard, tiny_copy: TinyRun) -> None:
    regard("average", tiny_copy.path)
    regard("average", tiny_copy.path, "--steps", "100,300")
    run = RunFolder.open(tiny_copy.path)
    assert run.weights("average").state["averaged"] == [100, 300]
    assert checkpoint.list_steps(run.checkpoints) == [100, 200, 300, 400]
    assert sorted(path.name for path in tiny_copy.path.iterdir() if path.name.startswith(".")) == []


def test_an_average_from_before_the_last_training_is_used_only_when_named(regard, tiny_copy: TinyRun) -> None:
    run = RunFolder.open(tiny_copy.path)
    assert checkpoint.read_best(run.checkpoints) is not None
    regard("average", tiny_copy.path, "--steps", "100,300")
    assert run.weights_path().name == "average", "older steps were asked for: that makes it no older"
    checkpoint.save(run.checkpoints, 500, checkpoint.load(run.weights_path("400").path).groups, {}, keep=10)
    assert run.weights_path().name == "best"
    assert run.weights_path("average").steps == [100, 300]
    told = regard("evaluate", tiny_copy.path, tiny_copy.source, tiny_copy.target, "--metric", "wer")
    assert "checkpoint best (step " in told.stdout
    regard("average", tiny_copy.path)
    assert str(run.weights_path()) == "average (steps 100, 200, 300, 400, 500)"


def test_an_average_of_an_older_version_is_as_new_as_its_steps(regard, tiny_copy: TinyRun) -> None:
    run = RunFolder.open(tiny_copy.path)
    for steps, name in (([300, 400], "average"), ([100, 300], "best")):
        regard("average", tiny_copy.path, "--steps", ",".join(map(str, steps)))
        mean = run.weights("average")
        made = checkpoint.save(run.path / "made", steps[-1], mean.groups, {"averaged": steps}, keep=1)
        atomic_files.commit_folder(made, run.checkpoints / "average")
        assert run.weights_path().name == name


def test_fewer_than_asked_for_is_said(regard, tiny_copy: TinyRun) -> None:
    result = regard("average", tiny_copy.path, "--last", "99")
    assert result.stdout.startswith("averaged 4 checkpoints (99 requested; the run has no more): steps 100, 200")


def test_a_full_disk_leaves_the_average_before(regard, tiny_copy: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    regard("average", tiny_copy.path, "--last", "1")

    def full(point: str) -> None:
        if point == "writing":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "fault", full)
    result = regard("average", tiny_copy.path)
    assert isinstance(result.exception, StorageError)
    monkeypatch.undo()
    assert RunFolder.open(tiny_copy.path).weights("average").state["averaged"] == [400]
    assert regard("average", tiny_copy.path).exit_code == 0


def test_what_cannot_be_averaged(regard, tiny_copy: TinyRun) -> None:
    assert isinstance(regard("average", tiny_copy.path, "--steps", "150").exception, ModelError)
    assert isinstance(regard("average", tiny_copy.path, "--steps", "last").exception, ConfigError)
    assert isinstance(regard("average", tiny_copy.path, "--steps", "100", "--last", "1").exception, ConfigError)

"""A run killed with SIGKILL, wherever it stood, and resumed ends in the bits of the run that nothing disturbed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.testing import TaskCase

from .conftest import ONE_THREAD, STEPS, Children, Undisturbed, kept, tiny_config, trace

SAVING = {"opened", "writing", "written", "synced", "tensors-written", "state-written", "manifest-written"}
EPOCH = 7  # updates


@pytest.mark.parametrize(("precision", "kills"), [("float32", 12), ("bfloat16", 4)])
def test_kills_at_random_moments(
    children: Children,
    undisturbed: Callable[..., Undisturbed],
    new_run: Callable[[Undisturbed], Path],
    precision: str,
    kills: int,
) -> None:
    """One run, killed again and again; between two checkpoints lie about 60 moments."""
    whole = undisturbed(precision=precision)
    run, draw = new_run(whole), random.Random(precision)
    moments = [children.kill(run, "*", draw.randint(1, 60)) for _ in range(kills)]
    assert SAVING & set(moments), "none inside a save"
    assert kills < 12 or {"validation", "decoding"} & set(moments), "none in validation"
    assert children.finish(run) == whole.kept


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([("vocabulary", 1), ("corpus", 2)], id="in preparation"),
        pytest.param([("update", 1)], id="before the first checkpoint"),
        pytest.param([("tensors-written", 3)], id="inside a save"),
        pytest.param([("manifest-written", 2), ("manifest-written", 1)], id="twice inside the same save"),
        pytest.param([("parent-synced", 4)], id="between a save and pruning"),
        pytest.param([("hidden", 2)], id="while an old checkpoint is removed"),
        pytest.param([("validation", 3)], id="in validation"),
        pytest.param([("decoding", 5)], id="in validation, decoding"),
        pytest.param([("metrics", 2 * EPOCH + 2)], id="exactly at an epoch's end"),
        pytest.param([("update", EPOCH + 2), ("update", 3)], id="twice within one epoch"),
        pytest.param([("manifest-written", 7)], id="in the last save"),
    ],
)
def test_kill_at(
    kills: list[tuple[str, int]],
    children: Children,
    undisturbed: Callable[..., Undisturbed],
    new_run: Callable[[Undisturbed], Path],
) -> None:
    whole = undisturbed()
    run = new_run(whole)
    for point, count in kills:
        assert children.kill(run, point, count) == point
    assert children.finish(run) == whole.kept


def test_what_the_kills_above_assume(undisturbed: Callable[..., Undisturbed]) -> None:
    """An epoch is 7 updates long, the last of them smaller, and 7 saves were made."""
    whole = undisturbed()
    updates = [record for record in whole.kept.metrics if "loss" in record]
    assert [record["step"] for record in updates] == list(range(1, STEPS + 1))
    ends = [a["step"] for a, b in pairwise(updates) if a["epoch"] != b["epoch"]]
    assert all((end + 1) % EPOCH == 0 for end in ends)
    assert trace(whole.path).count("manifest-written") == 7
    assert trace(whole.path).count("metrics") == len(whole.kept.metrics)


def test_resuming_a_finished_run_changes_nothing(
    children: Children, undisturbed: Callable[..., Undisturbed], tmp_path: Path
) -> None:
    whole = undisturbed()
    run = Path(shutil.copytree(whole.path, tmp_path / "run"))
    before = (run / "metrics.jsonl").read_bytes()
    assert children.finish(run) == whole.kept
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_loudly(
    children: Children, undisturbed: Callable[..., Undisturbed], begun: Path
) -> None:
    newest = checkpoint.step_path(begun / "checkpoints", checkpoint.list_steps(begun / "checkpoints")[-1])
    file = newest / "optimizer.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert children.finish(begun) == undisturbed().kept
    said = (begun / "log").read_text()
    assert f"{newest.name} is unusable; trying the previous one" in said
    assert "optimizer.safetensors" in said


def test_damaged_checkpoints_only_are_not_begun_anew(children: Children, begun: Path) -> None:
    """Whether to throw the training away is the user's decision."""
    steps = checkpoint.list_steps(begun / "checkpoints")
    for step in steps:
        os.truncate(checkpoint.step_path(begun / "checkpoints", step) / "model.safetensors", 100)
    metrics = (begun / "metrics.jsonl").read_bytes()
    assert children.train(begun) == 4
    assert "are unusable" in (begun / "log").read_text()
    assert checkpoint.list_steps(begun / "checkpoints") == steps
    assert (begun / "metrics.jsonl").read_bytes() == metrics


def test_a_whole_checkpoint_of_another_run_is_refused(children: Children, begun: Path) -> None:
    folder = begun / "checkpoints"
    found = checkpoint.load(checkpoint.step_path(folder, checkpoint.list_steps(folder)[-1]))
    name = "decoder.layers.0.feed_forward.inner.weight"
    name = name if name in found.groups["model"] else sorted(found.groups["model"])[0]
    wider = found.groups["model"] | {name: found.groups["model"][name].new_zeros(7, 7)}
    foreign = checkpoint.save(folder, 20, found.groups | {"model": wider}, found.state, keep=9)
    assert children.train(begun) == 4
    said = (begun / "log").read_text()
    assert foreign.name in said and "do not match the config of the run" in said


def test_a_vocabulary_that_is_gone_is_not_learned_anew(children: Children, begun: Path) -> None:
    (begun / "tokenizer" / "joint.json").unlink()
    assert children.train(begun) == 4
    assert "joint.json is missing" in (begun / "log").read_text()


def test_going_on_elsewhere_is_said(children: Children, begun: Path) -> None:
    file = begun / "environment.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"processor": "Another Processor"}))
    assert children.train(begun) == 0
    assert "may differ in bits" in (begun / "log").read_text()
    assert "Another Processor" in (begun / "log").read_text()


def test_metrics_that_were_cut_by_somebody_do_not_disturb_the_rest(children: Children, begun: Path) -> None:
    (begun / "metrics.jsonl").unlink()
    children.kill(begun, "update", 8)
    assert children.train(begun) == 0
    steps = [record["step"] for record in kept(begun).metrics if "loss" in record]
    assert steps == list(range(steps[0], STEPS + 1))


def test_a_real_process_killed_from_outside(children: Children, tmp_path: Path) -> None:
    """The command itself, twice: the second takes up what kill -9 left of the first."""
    config = tiny_config(tmp_path, steps=60, save_every=5, validate_every=30)
    whole = RunFolder.create(tmp_path / "whole", load_config(config)).path
    run = RunFolder.create(tmp_path / "run", load_config(config)).path
    command = [sys.executable, "-c", "from regard.cli import main; main()", "train", "--resume", str(run)]
    environment = {**os.environ, **ONE_THREAD}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while len(checkpoint.list_steps(run / "checkpoints")) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resuming at step" in done.stderr
    assert kept(run) == children.finish(whole)


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "translation"])
def test_every_kind_is_killed_and_ends_in_the_same_bits(children: Children, tmp_path: Path, kind: str) -> None:
    """Inside of a save, and after an update."""
    case = TaskCase(find_task(kind), kind)  # the sample goes with it
    whole, killed = (RunFolder.create(tmp_path / name, load_config(case.tables)).path for name in ("whole", "killed"))
    for point, count in (("tensors-written", 2), ("update", 1)):
        children.kill(killed, point, count)
    assert children.finish(killed) == children.finish(whole)

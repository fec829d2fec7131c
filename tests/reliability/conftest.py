"""Tiny runs with everything switched on that a resume could forget, and children to train and kill them in."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder

STEPS, SAVE_EVERY, VALIDATE_EVERY = 28, 5, 7
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def write_pairs(folder: Path, name: str, count: int, seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) for _ in range(count)]
    source, target = folder / f"{name}.lower", folder / f"{name}.upper"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    target.write_text("".join(f"{line.upper()}\n" for line in lines), encoding="utf-8")
    return {"source": str(source), "target": str(target)}


def tiny_config(folder: Path, **train: Any) -> dict[str, Any]:
    """Dropout, a mixture, accumulation, clipping, a moving average, validation by decoding; 7 updates an epoch."""
    corpora = [
        write_pairs(folder, "one", 100, 1) | {"weight": 2.0},
        write_pairs(folder, "two", 50, 2) | {"weight": 1.5},
    ]
    return {
        "data": {"train": corpora, "valid": [write_pairs(folder, "valid", 80, 3)], "tokenizer": {"kind": "word"}},
        "model": {
            "layers": 1, "width": 16, "feed_forward": 32, "heads": 2, "dropout": 0.1,
        },
        "train": {
            "steps": STEPS, "save_every": SAVE_EVERY, "validate_every": VALIDATE_EVERY, "keep": 2, "best_by": "wer",
            "batch_tokens": 64, "accumulate": 2, "learning_rate": 0.01, "warmup": 15, "clip_norm": 1.0, "ema": 0.9,
            "precision": "float32", "threads": 1,
        } | train,
    }  # fmt: skip


class Kept(NamedTuple):
    """All that a run leaves, but for what a clock says."""

    digest: str
    state: dict[str, Any]
    metrics: list[dict[str, Any]]
    checkpoints: list[int]
    best: checkpoint.Best | None


def kept(run: Path) -> Kept:
    def fail(problem: str) -> None:
        pytest.fail(problem)

    found = checkpoint.load_latest(run / "checkpoints", fail)
    assert found is not None
    state = {key: value for key, value in found.state.items() if key not in ("seconds", "metrics_size")}
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = [{key: value for key, value in record.items() if key != "seconds"} for record in records]
    folder = run / "checkpoints"
    return Kept(
        checkpoint.digest(found.groups), state, metrics, checkpoint.list_steps(folder), checkpoint.read_best(folder)
    )


class Children:
    """``children.train(run, signal, point, count)``: its exit code, or minus the signal that killed it.

    The signal is sent at the ``count``-th ``point``, and again where it next comes to ``then``.
    """

    def __init__(self) -> None:
        file = Path(__file__).with_name("forkserver.py")
        environment = {**os.environ, **ONE_THREAD, "COLUMNS": "200"}
        self.server = subprocess.Popen(
            [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def train(
        self, run: Path, signal: int = signal.SIGKILL, point: str = "", count: int = 0, then: str | None = None
    ) -> int:
        assert self.server.stdin is not None and self.server.stdout is not None
        job = {
            "arguments": ["train", "--resume", str(run)], "log": str(run / "log"), "trace": str(run / "trace"),
            "signal": signal, "point": point, "count": count, "then": then,
        }  # fmt: skip
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def kill(self, run: Path, point: str, count: int) -> str:
        """Train until killed there; returns the moment it was killed at."""
        assert self.train(run, signal.SIGKILL, point, count) == -signal.SIGKILL, f"never came to {point}, {count} times"
        return trace(run)[-1]

    def finish(self, run: Path) -> Kept:
        """Train undisturbed to the end; returns what the run then holds."""
        code = self.train(run)
        assert code == 0, (run / "log").read_text()
        return kept(run)


def trace(run: Path) -> list[str]:
    """The moments that all sittings of a run have passed."""
    return (run / "trace").read_text().splitlines()


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    children = Children()
    yield children
    assert children.server.stdin is not None and children.server.stdout is not None
    children.server.stdin.close()
    children.server.wait()
    children.server.stdout.close()


class Undisturbed(NamedTuple):
    """A run that nothing disturbed: what it left, where, and its config."""

    kept: Kept
    path: Path
    config: dict[str, Any]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, children: Children) -> Callable[..., Undisturbed]:
    """``undisturbed(precision="bfloat16")``: such a run, trained once a session for each config."""
    done: dict[str, Undisturbed] = {}

    def find(**train: Any) -> Undisturbed:
        key = json.dumps(train)
        if key not in done:
            folder = tmp_path_factory.mktemp("undisturbed")
            config = tiny_config(folder, **train)
            run = RunFolder.create(folder / "run", load_config(config))
            done[key] = Undisturbed(children.finish(run.path), run.path, config)
        return done[key]

    return find


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[[Undisturbed], Path]:
    """A new run of the same config, not begun."""

    def create(like: Undisturbed) -> Path:
        return RunFolder.create(tmp_path / "run", load_config(like.config)).path

    return create


@pytest.fixture
def begun(tmp_path: Path, children: Children, undisturbed: Callable[..., Undisturbed]) -> Iterator[Path]:
    """A run killed between the checkpoints of steps 10 and 14, to be damaged."""
    run = RunFolder.create(tmp_path / "begun", load_config(undisturbed().config)).path
    children.kill(run, "update", 13)
    yield run
    shutil.rmtree(run)


class Silent:
    """Hears how training goes and says nothing."""

    def updated(self, place: object, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, place: object, validation: object, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


def small_run(folder: Path, **changes: Any) -> Path:
    """A run of two updates, with every file that a run folder has, and a text ``in.txt`` to translate."""
    from regard.runs.averaging import average_run
    from regard.training.setup import set_up
    from regard.training.trainer import Trainer

    config = tiny_config(folder, steps=2, save_every=1, validate_every=1, best_by="loss", ema=None)
    for key, value in changes.items():
        config[key] = config[key] | value
    run = RunFolder.create(folder / "run", load_config(config))
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=Silent(),
        interrupted=lambda: False,
    )  # fmt: skip
    trainer.fit()
    average_run(run, last=2)
    (run.path / "in.txt").write_text("a b c\n", encoding="utf-8")
    return run.path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("small"))


@pytest.fixture
def received(small: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(small, tmp_path / "run"))

"""One tiny run, trained in seconds, that every test of the command line shares; treat it as read-only."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from typer.testing import CliRunner, Result

import regard as package
from regard import cli
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.testing import TaskCase

from .other_runs import OWN, train_language_model, train_means

LETTERS = "abcdefgh"


class TinyRun(NamedTuple):
    """A run that maps ``c a b`` to ``C A B``, and its test set."""

    path: Path
    source: Path
    target: Path


def write_pairs(folder: Path, name: str, count: int, seed: int) -> tuple[Path, Path]:
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(LETTERS, k=draw.randint(2, 5))) for _ in range(count)]
    source, target = folder / f"{name}.lower", folder / f"{name}.upper"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    target.write_text("".join(f"{line.upper()}\n" for line in lines), encoding="utf-8")
    return source, target


class Silent:
    def updated(self, place: object, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, place: object, validation: object, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.training.setup import set_up
    from regard.training.trainer import Trainer

    folder = tmp_path_factory.mktemp("tiny")
    train = write_pairs(folder, "train", 2000, seed=1)
    test = write_pairs(folder, "test", 40, seed=2)
    corpora = [{"source": str(source), "target": str(target)} for source, target in (train, test)]
    config = load_config(
        {
            "name": "tiny",
            "data": {"train": corpora[:1], "valid": corpora[1:], "tokenizer": {"kind": "word"}, "joint": False},
            "model": {
                "layers": 1, "width": 32, "feed_forward": 64, "heads": 2,
                "dropout": 0.0, "norm": "pre", "share": "target",
            },
            "train": {
                "steps": 400, "batch_tokens": 256, "learning_rate": 0.01, "warmup": 50, "validate_every": 100,
                "save_every": 100, "precision": "float32", "threads": 1,
            },
        }
    )  # fmt: skip
    run = RunFolder.create(folder / "run", config)
    threads = torch.get_num_threads()
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=Silent(),
        interrupted=lambda: False,
    )  # fmt: skip
    trainer.fit()
    torch.set_num_threads(threads)
    return TinyRun(run.path, *test)


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on ``the cat sat on the mat``."""
    threads = torch.get_num_threads()
    run = train_language_model(tmp_path_factory.mktemp("book"))
    torch.set_num_threads(threads)
    return run


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a user's own task, which learns the mean of a line of numbers."""
    monkeypatch.setenv("REGARD_TASKS", OWN)
    threads = torch.get_num_threads()
    run = train_means(tmp_path)
    torch.set_num_threads(threads)
    return run


@pytest.fixture
def tiny_copy(tiny_run: TinyRun, tmp_path: Path) -> TinyRun:
    """A copy that a test may change."""
    return TinyRun(Path(shutil.copytree(tiny_run.path, tmp_path / "run")), tiny_run.source, tiny_run.target)


@pytest.fixture
def regard() -> Iterator[Callable[..., Result]]:
    """``regard("translate", run, input="a b\\n")`` in this process; failures are raised where they are not exits."""

    def call(*arguments: object, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments], input=input)

    threads = torch.get_num_threads()
    yield call
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A run of each task, on the sample of the task; treat it as read-only."""
    trained = {}
    cases = [TaskCase(find_task(kind), kind) for kind in TASKS]  # their files are removed with them
    for kind, case in zip(TASKS, cases, strict=True):
        tables = case.tables | {"train": case.tables["train"] | {"steps": 2, "shards": 1}}
        trained[kind] = package.train(tables, tmp_path_factory.mktemp("tasks") / kind)
    yield trained


@pytest.fixture(scope="session")
def address(runs: dict[str, Path]) -> Iterator[str]:
    """The address of a server of these runs."""
    pytest.importorskip("fastapi")
    from .test_serve import serving

    with serving(*map(str, runs.values()), "--threads", "1") as (url, _):
        yield url

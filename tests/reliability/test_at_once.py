"""Two processes that begin the same thing at one moment: one of them has it, and the other one is told.

The second one runs inside the first, at each moment of it that a kill is tried at (``atomic_files.fault_point``): so
every order of the two is tried, and none depends on a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.commands import train as train_command
from regard.core import atomic_files
from regard.errors import ConfigError, ModelError
from regard.runs.averaging import average_run
from regard.runs.config import load_config
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.training import start

from .conftest import tiny_config


def config(folder: Path, seed: int) -> RunConfig:
    return load_config(tiny_config(folder) | {"seed": seed})


def moments(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """The number of moments of some work."""
    count = 0

    def counted(point: str) -> None:
        nonlocal count
        count += 1

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", counted)
        work()
    return count


def at(monkeypatch: pytest.MonkeyPatch, number: int, other: Callable[[], object]) -> None:
    """Run ``other`` at the moment of that number, from 0."""
    seen = 0

    def fault(point: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number + 1:
            other()

    monkeypatch.setattr(atomic_files, "fault", fault)


def test_a_run_folder_belongs_to_one_of_two_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [config(tmp_path, seed) for seed in (1, 2)]
    outcomes = set[tuple[bool, bool]]()
    for number in range(moments(monkeypatch, lambda: RunFolder.create(tmp_path / "counted", configs[0]))):
        path, made = tmp_path / f"run-{number}", [False, False]

        def create(which: int, path: Path = path, made: list[bool] = made) -> None:
            try:
                RunFolder.create(path, configs[which])
                made[which] = True
            except ConfigError as error:
                assert "already exists" in error.what

        with monkeypatch.context() as patch:
            at(patch, number, lambda: create(1))
            create(0)
        assert sum(made) == 1, f"moment {number}: {made}"
        assert RunFolder.open(path).config == configs[made.index(True)]
        RunFolder.open(path).read_environment()
        outcomes.add((made[0], made[1]))
    assert (True, False) in outcomes


def test_a_folder_taken_after_it_was_looked_at_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other training begins between the look at the folder and the first write."""
    configs, path, mkdir = [config(tmp_path, seed) for seed in (1, 2)], tmp_path / "run", Path.mkdir

    def late(self: Path, *arguments: int, **options: bool) -> None:
        monkeypatch.setattr(Path, "mkdir", mkdir)
        RunFolder.create(path, configs[1])
        mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(ConfigError, match="already exists"):
        RunFolder.create(path, configs[0])
    assert RunFolder.open(path).config == configs[1]


def test_threads_that_look_at_one_moment_do_not_both_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen an empty folder before either writes."""
    configs, barrier, made = [config(tmp_path, seed) for seed in (1, 2)], threading.Barrier(2), list[int]()
    publish = atomic_files.publish_first

    def together(*arguments: object, **options: object) -> bool:
        barrier.wait()
        return publish(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic_files, "publish_first", together)

    def create(which: int) -> None:
        try:
            RunFolder.create(tmp_path / "run", configs[which])
            made.append(which)
        except ConfigError:
            pass

    threads = [threading.Thread(target=create, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and RunFolder.open(tmp_path / "run").config == configs[made[0]]


def test_a_run_that_another_process_trains_is_not_removed(tmp_path: Path) -> None:
    """A training that cannot begin removes its folder, but not under one that was quicker to lock it."""
    run = RunFolder.create(tmp_path / "run", config(tmp_path, 1))

    def no_display(path: Path) -> None:
        pytest.fail("training began")

    with run.training(), pytest.raises(ModelError, match="another process is training this run"):
        start.train_new(run, no_display)  # type: ignore[arg-type]
    assert RunFolder.open(tmp_path / "run").config == run.config


def test_a_name_that_nobody_asked_for_is_another_one_where_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs, trained = [config(tmp_path, seed) for seed in (1, 2)], list[Path]()
    wanted = train_command._NewRun(["corpus.tsv"], [], [], None, tmp_path / "runs")
    monkeypatch.setattr(train_command._NewRun, "config", lambda self: configs[0])
    monkeypatch.setattr(start, "train_new", lambda run, display: trained.append(run.path) or 0)
    taken = [False]

    def at_once(runs: Path, name: str, new_folder: Callable[..., Path] = train_command.new_folder) -> Path:
        folder = new_folder(runs, name)
        if not taken[0]:
            taken[0] = True
            RunFolder.create(folder, configs[1])
        return folder

    monkeypatch.setattr(train_command, "new_folder", at_once)
    assert train_command._train(wanted, None) == 0  # type: ignore[arg-type]
    assert trained == [tmp_path / "runs" / "corpus-2"]
    assert RunFolder.open(tmp_path / "runs" / "corpus").config == configs[1]


def test_an_average_is_made_by_one_process_at_a_time(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, refused = RunFolder.open(received), 0
    count = moments(monkeypatch, lambda: average_run(run))
    for number in range(0, count, max(1, count // 12)):

        def other() -> None:
            nonlocal refused
            try:
                average_run(run, last=1)
            except ModelError as error:
                assert error.what == "another process is averaging this run"
                refused += 1

        with monkeypatch.context() as patch:
            at(patch, number, other)
            used = average_run(run)
        assert run._average(0)[0] == used
        run.weights("average")
    assert refused > 0
    assert not list(run.path.glob(".*.tmp"))


def test_an_average_waits_for_nobody(received: Path) -> None:
    run, before = RunFolder.open(received), sorted(received.rglob("*"))
    with atomic_files.locked(run.checkpoints), pytest.raises(ModelError, match="another process is averaging"):
        average_run(run)
    assert sorted(received.rglob("*")) == before, "the lock is the folder itself"

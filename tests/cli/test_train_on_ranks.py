"""``regard train`` as one of several ranks: here the only one, so that no process need be started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard import cli
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.training import ranks
from tests.several_ranks import free_port


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(free_port()))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six\n" * 40)
    settings = ("model.preset=tiny", "model.width=8", "model.feed_forward=8", "train.steps=2", "train.save_every=1")
    return [
        "train",
        str(text),
        "--runs",
        str(tmp_path / "runs"),
        *(part for key in settings for part in ("--set", key)),
    ]


def updates(run: Path) -> list[int]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["step"] for record in records if "loss" in record]


@pytest.mark.usefixtures("alone")
def test_the_same_command_goes_on_with_the_run_that_it_began(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(command) == 0
    run = tmp_path / "runs" / "text"
    assert updates(run) == [1, 2]
    for step in (run / "checkpoints").glob("*2"):
        step.rename(tmp_path / "lost")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    assert cli.run(command) == 0
    assert updates(run) == [1, 2] and [each.name for each in run.parent.iterdir()] == ["text"]
    assert len(list((run / "checkpoints").glob("*2"))) == 1


@pytest.mark.usefixtures("alone")
def test_another_config_of_the_same_name_is_refused(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    assert cli.run(command) == 0
    before = (tmp_path / "runs" / "text" / "config.toml").read_bytes()
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    assert cli.run([*command, "--set", "seed=7"]) != 0
    assert "exists" in capsys.readouterr().err
    assert (tmp_path / "runs" / "text" / "config.toml").read_bytes() == before


@pytest.mark.usefixtures("alone")
def test_resume_takes_the_folder_on_ranks_too(command: list[str], tmp_path: Path, monkeypatch) -> None:
    assert cli.run(command) == 0
    run = tmp_path / "runs" / "text"
    for step in (run / "checkpoints").glob("*2"):
        step.rename(tmp_path / "lost")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    assert cli.run(["train", "--resume", str(run)]) == 0
    assert RunFolder.open(run) and len(list((run / "checkpoints").glob("*2"))) == 1


@pytest.mark.usefixtures("alone")
def test_the_patience_of_ranks_is_the_one_that_was_asked_for(command: list[str], monkeypatch, capsys) -> None:
    @contextmanager
    def joined(patience: float) -> Iterator[None]:
        raise ConfigError(f"a patience of {patience:g} seconds")
        yield

    monkeypatch.setattr(ranks, "joined", joined)
    assert cli.run([*command, "--rank-timeout", "7"]) != 0
    assert "a patience of 7 seconds" in capsys.readouterr().err

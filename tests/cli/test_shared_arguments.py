"""Options shared by verbs: a command gets them together, typer and Python see each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from regard.commands.setting_options import SharedOption, option_group
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder

COLOR = SharedOption(Annotated[str, typer.Option(metavar="NAME", help="A color.")], "red")
LOUD = SharedOption(Annotated[bool, typer.Option("--loud", help="Loudly.")], False)


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def app(seen: list[Any]) -> typer.Typer:
    def gather(**given: Any) -> dict[str, Any]:
        return given

    @option_group("paint", {"color": COLOR, "loud": LOUD}, gather)
    def command(
        name: str, *, first: int = 1, paint: Any, last: Annotated[int, typer.Option(help="The end.")] = 2
    ) -> None:
        """Paint."""
        seen.append((name, first, paint, last))

    app = typer.Typer()
    app.command()(command)
    return app


def test_a_command_gets_them_together(app: typer.Typer, seen: list[Any]) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["x", "--loud", "--last", "5"]).exit_code == 0
    assert runner.invoke(app, ["y", "--color", "blue", "--first", "3"]).exit_code == 0
    assert seen == [("x", 1, {"color": "red", "loud": True}, 5), ("y", 3, {"color": "blue", "loud": False}, 2)]


def test_they_stand_in_the_help_where_the_argument_was(app: typer.Typer) -> None:
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).stdout
    assert told.index("--first") < told.index("--color") < told.index("--loud") < told.index("--last")
    assert "paint" not in told


@pytest.mark.parametrize("verb", ["classify", "fill", "graphs", "links", "nodes", "recommend", "tag"])
def test_a_run_of_another_task_is_refused_with_its_verb(regard, tmp_path: Path, verb: str) -> None:
    """Before weights are read: here there are none."""
    run = RunFolder.create(tmp_path / "run", load_config({"data": {"train": [{"source": "a.en", "target": "a.de"}]}}))
    refused = regard(verb, run.path, input="x\n").exception
    assert isinstance(refused, ConfigError) and "regard translate" in str(refused.help)

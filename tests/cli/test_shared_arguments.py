"""Options shared by verbs: a command gets them together, typer and Python see each of them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from regard.commands.shared_arguments import SharedOption, taken_together

COLOUR = SharedOption(Annotated[str, typer.Option(metavar="NAME", help="A colour.")], "red")
LOUD = SharedOption(Annotated[bool, typer.Option("--loud", help="Loudly.")], False)


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def app(seen: list[Any]) -> typer.Typer:
    def gather(**given: Any) -> dict[str, Any]:
        return given

    @taken_together("paint", {"colour": COLOUR, "loud": LOUD}, gather)
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
    assert runner.invoke(app, ["y", "--colour", "blue", "--first", "3"]).exit_code == 0
    assert seen == [("x", 1, {"colour": "red", "loud": True}, 5), ("y", 3, {"colour": "blue", "loud": False}, 2)]


def test_they_stand_in_the_help_where_the_argument_was(app: typer.Typer) -> None:
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).stdout
    assert told.index("--first") < told.index("--colour") < told.index("--loud") < told.index("--last")
    assert "paint" not in told

"""Options of ``regard serve`` from the command line, from variables and from a file, in this order of priority."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from regard.cli import VERBS, build_app, run
from regard.commands import serve
from regard.commands.server_plan import ServerPlan


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ServerPlan, int]]:
    """The plans of the servers that commands would have run, each with its number of workers."""
    found: list[tuple[ServerPlan, int]] = []
    monkeypatch.setattr(serve, "_run", lambda plan, workers: found.append((plan, workers)))
    return found


def written(folder: Path, text: str) -> str:
    path = folder / "serve.toml"
    path.write_text(text)
    return str(path)


def test_an_option_precedes_a_variable_which_precedes_the_file(
    plans: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, 'runs = ["a=b"]\nport = 1\nworkers = 2\nchar_limit = 3\npreload = true\ndrain = 2.5')
    monkeypatch.setenv("REGARD_SERVE_PORT", "4")
    monkeypatch.setenv("REGARD_SERVE_WORKERS", "5")
    assert run(["serve", "--config", path, "--port", "6"]) == 0
    ((plan, workers),) = plans
    assert (plan.runs, plan.port, workers, plan.settings["characters"]) == (["a=b"], 6, 5, 3)
    assert (plan.preload, plan.grace, plan.host) == (True, 2.5, "127.0.0.1")


def test_all_of_it_can_be_variables(plans: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_SERVE_CONFIG", written(tmp_path, 'allow-host = ["x", "y"]'))
    monkeypatch.setenv("REGARD_SERVE_RUNS", "a=b c")
    monkeypatch.setenv("REGARD_SERVE_PRELOAD", "1")
    assert run(["serve"]) == 0
    plan = plans[0][0]
    assert plan.runs == ["a=b", "c"] and plan.preload and plan.settings["hosts"] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prot = 1", "did you mean port?"),
        ("config = 'other'", "unknown key 'config'"),
        ("[serve]\nport = 1", "unknown key 'serve'"),
        ("port = [1]", "'port' has a value of a wrong type"),
        ("runs = 'a'", "expected a list of texts"),
        ("port = 1.5", "Invalid value for '--port'"),
        ("port = true", "Invalid value for '--port'"),
        ("port =", "cannot read the config of the server"),
    ],
)
def test_a_wrong_file_is_refused(
    plans: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    assert run(["serve", "--config", written(tmp_path, text), "run"]) == 2 and not plans
    assert reason in capsys.readouterr().err


def test_every_option_has_the_variable_and_the_key_of_its_name() -> None:
    command: Any = typer.main.get_command(build_app(VERBS))
    for parameter in command.commands["serve"].params:
        if parameter.param_type_name == "option":
            assert parameter.opts == [f"--{parameter.name.replace('_', '-')}"]

"""Start-up is cheap and free of effects; failures become one clear block and a documented exit code."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import typer

import regard
from regard.cli import VERBS, build_app, run
from regard.errors import ConfigError, DataError, ModelError, RegardError, StorageError, TrainingError

from .conftest import TinyRun


def python(code: str) -> str:
    """The standard output of a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


HELP = """
import os, sys
from regard.cli import run
heavy = ("torch", "numpy", "sentencepiece", "tokenizers", "sacrebleu")
assert not [name for name in heavy if name in sys.modules]  # a child has what its parent imported
for verb in {verbs}:
    sys.stdout.flush()
    if os.fork() == 0:
        code = run([verb, "--help"] if verb else ["--help"])
        print()
        print(f"of {{verb or 'regard'}}:", code, *(name for name in heavy if name in sys.modules), flush=True)
        os._exit(0)
    os.wait()
"""


def test_help_imports_nothing_heavy() -> None:
    """The help of each verb, each in a process that has imported no other verb's modules."""
    verbs = ["", *(verb.__name__.rpartition(".")[2].rstrip("_") for verb in VERBS)]
    printed = python(HELP.format(verbs=verbs)).splitlines()
    assert [line for line in printed if line.startswith("of ")] == [f"of {verb or 'regard'}: 0" for verb in verbs]


def test_help_imports_the_command_line_s_library_and_no_other() -> None:
    """That is what makes it quick: pydantic alone would cost as much again."""
    code = """
import sys
from regard.cli import run
assert run(["--help"]) == 0
own = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print()
print(sorted(name for name in own if name[0] != "_"))
"""
    allowed = {
        "annotated_doc",
        "attr",
        "click",
        "markdown_it",
        "mdurl",
        "pygments",
        "regard",
        "rich",
        "shellingham",
        "typer",
    }
    assert set(ast.literal_eval(python(code).splitlines()[-1])) <= allowed


def test_importing_has_no_effects() -> None:
    code = """
import json, logging, random, signal, sys, threading, warnings
def snapshot():
    return [threading.active_count(), sorted(logging.root.manager.loggerDict), len(logging.root.handlers),
            [str(signal.getsignal(number)) for number in signal.valid_signals()], hash(random.getstate()),
            len(warnings.filters), sys.excepthook is sys.__excepthook__]
before = snapshot()
import regard
after = snapshot()
print(json.dumps([before == after, "torch" in sys.modules, "pydantic" in sys.modules]))
"""
    assert json.loads(python(code)) == [True, False, False]


def test_public_names_are_sorted_and_there() -> None:
    assert regard.__all__ == sorted(regard.__all__)
    assert all(getattr(regard, name) is not None for name in regard.__all__)
    with pytest.raises(AttributeError, match="laod"):
        _ = regard.laod


def test_a_command_line_made_again_has_the_same_commands() -> None:
    """A library calls ``run`` more than once; what a group keeps from before would make each call slower."""

    def commands(app: typer.Typer) -> list[Any]:
        groups = [commands(each.typer_instance) for each in app.registered_groups if each.typer_instance]
        return [[each.callback for each in app.registered_commands], *groups]

    assert commands(build_app()) == commands(build_app())


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_verb_is_named_as_its_module(verb: ModuleType) -> None:
    """A command thus builds its own verb alone."""
    commands = typer.main.get_command(build_app([verb])).commands  # type: ignore[attr-defined]
    assert verb.__name__.rpartition(".")[2].removesuffix("_") in commands


def test_the_version_needs_no_torch() -> None:
    code = "import sys; from regard.cli import run; run(['--version']); print('torch' in sys.modules)"
    version, torch_imported = python(code).splitlines()
    assert version.startswith(f"regard {regard.__version__} (Python 3.")
    assert torch_imported == "False"


@pytest.mark.parametrize("verb", ["info", "check"])
def test_a_model_is_read_and_outlined_without_torch_s_compiler(tiny_run: TinyRun, verb: str) -> None:
    """Its import takes longer than all else; drawing numbers for tensors without data would import it."""
    path = tiny_run.path / "config.toml" if verb == "check" else tiny_run.path
    code = f"import sys; from regard.cli import run; print(run([{verb!r}, {str(path)!r}]), 'sympy' in sys.modules)"
    assert python(code).splitlines()[-1] == "0 False"


@pytest.mark.parametrize("module", ["regard", "regard.cli"])
def test_a_module_runs_as_the_command_line(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "tran"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "No such command 'tran'" in done.stderr


def verbs(raised: BaseException | None = None) -> list[ModuleType]:
    """Two toy verbs, of which ``train`` fails as told."""

    def register(app: typer.Typer) -> None:
        @app.command()
        def train(*, steps: int = 1) -> None:
            """Train a toy."""
            if raised is not None:
                raise raised

        @app.command()
        def translate() -> None:
            """Translate a toy."""

    module = ModuleType("toys")
    module.register = register  # type: ignore[attr-defined]
    return [module]


@pytest.mark.parametrize(
    "kind, code",
    [(RegardError, 1), (ConfigError, 2), (DataError, 3), (ModelError, 4), (TrainingError, 5), (StorageError, 6)],
)
def test_a_failure_is_one_block_and_an_exit_code(
    kind: type[RegardError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error = kind("it failed", where="a.txt:3", why="it is\ntwo lines", help="try this")
    assert run(["train"], verbs=verbs(error)) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "error: it failed",
        "  --> a.txt:3",
        "  = why: it is",
        "         two lines",
        "  = help: try this",
    ]


def test_debug_raises_instead() -> None:
    with pytest.raises(DataError, match="it failed"):
        run(["train"], verbs=verbs(DataError("it failed")), debug=True)


def test_interruption_exits_with_130() -> None:
    assert run(["train"], verbs=verbs(KeyboardInterrupt())) == 130


def test_interruption_while_the_command_is_built_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    def register(app: typer.Typer) -> None:
        raise KeyboardInterrupt

    module = ModuleType("toy")
    module.register = register  # type: ignore[attr-defined]
    assert run(["train"], verbs=[module]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_interruption_anywhere_else_is_no_defect() -> None:
    code = """
import sys
import regard.cli
def interrupt(*arguments, **options):
    raise KeyboardInterrupt
regard.cli.run = interrupt
sys.argv = ["regard"]
regard.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGINT  # which a shell calls 130
    assert done.stderr == "interrupted\n"


def test_a_verb_may_choose_its_exit_code() -> None:
    assert run(["train"], verbs=verbs(typer.Exit(7))) == 7
    assert run(["train"], verbs=verbs()) == 0


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["trian"], "Did you mean 'train'"),
        (["train", "--stpes", "3"], "--steps"),
        (["train", "--steps", "many"], "'--steps'"),
    ],
)
def test_wrong_usage_names_what_was_probably_meant(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, verbs=verbs()) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and told in message and "--help" in message


def test_a_reader_that_goes_away_is_no_failure() -> None:
    code = """
import sys, types, typer
from regard.cli import run
module = types.ModuleType("toy")
def register(app):
    @app.command()
    def talk():
        for number in range(100_000):
            print("line", number)
module.register = register
sys.exit(run(["talk"], verbs=[module]))
"""
    talking = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert talking.stdout is not None and talking.stderr is not None
    talking.stdout.readline()
    talking.stdout.close()
    assert talking.stderr.read() == b""
    talking.stderr.close()
    assert talking.wait(timeout=60) == 141


def test_a_defect_shows_no_traceback_unless_asked() -> None:
    code = """
import sys
import regard.cli
def fail(*arguments, **options):
    raise KeyError("a defect")
regard.cli.run = fail
sys.argv = ["regard"{debug}]
regard.cli.main()
"""
    for debug, shown in (("", False), (", 'train', '--debug'", True)):
        done = subprocess.run([sys.executable, "-c", code.format(debug=debug)], capture_output=True, text=True)
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) is shown
        assert "KeyError" in done.stderr and "a defect" in done.stderr


@pytest.mark.parametrize(
    ("given", "kept"), [({}, "5000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_idle_threads_sleep_soon_unless_it_is_said_how_they_wait(given: dict[str, str], kept: str | None) -> None:
    """Told before torch loads the library that reads it."""
    code = (
        "import os, sys\nfrom regard import cli\nassert 'torch' not in sys.modules\n"
        "sys.argv = ['regard', '--version']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    ran = subprocess.run([sys.executable, "-c", code], env=clean | given, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == str(kept)

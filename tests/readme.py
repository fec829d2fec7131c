"""Runs the commands of a Markdown page and writes their real output below them.

A block fenced with ```console holds commands behind ``$ `` (a ``\\`` at the end goes on in the next line) and, below
each, what it printed. ``scripts/demo`` runs as ``regard demo``; what sets up the machine is left as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Failed", "Ran", "commands_of", "refreshed", "run_all"]

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_SET_UP = ("git ", "pip ", "scripts/check", "scripts/test")


class Ran(NamedTuple):
    command: str
    output: str


class Failed(Exception):
    """A command of the page exits with an error."""


def commands_of(text: str) -> list[str]:
    """All commands of the page that can be run, in order."""
    found = [match[1] for block in _BLOCK.finditer(text) for match in _COMMAND.finditer(block[1])]
    return [command for command in found if not command.startswith(_SET_UP)]


def run_all(commands: Iterable[str], folder: Path, environment: Mapping[str, str]) -> list[Ran]:
    """Run each in ``folder`` with this interpreter's ``regard`` first on the path. Raises Failed on the first error."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", **environment}
    ran = []
    for command in commands:
        line = re.sub(r"^scripts/demo\b", "regard demo", command)
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            raise Failed(f"$ {command}\n{done.stdout}\nexit code {done.returncode}")
        ran.append(Ran(command, done.stdout))
    return ran


def refreshed(text: str, ran: Iterable[Ran]) -> str:
    """The page with the output of each command that was run, in the order of the page."""
    outputs = iter(ran)

    def command(match: re.Match[str]) -> str:
        if match[1].startswith(_SET_UP):
            return match[0]
        output = "".join(f"{line.rstrip()}\n" for line in next(outputs).output.strip("\n").splitlines())
        gap = "\n" if match[2].endswith("\n\n") else ""
        return f"$ {match[1]}\n{output}{gap}"

    def block(match: re.Match[str]) -> str:
        return f"```console\n{_COMMAND.sub(command, match[1])}```"

    return _BLOCK.sub(block, text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a page's commands and write their real output into it.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("README.md"))
    parser.add_argument("--folder", type=Path, help="where to run them; a temporary folder unless given")
    options = parser.parse_args()
    text = options.page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        ran = run_all(commands_of(text), options.folder or Path(temporary), {})
    options.page.write_text(refreshed(text, ran), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Runs the commands of a Markdown page as a reader would and writes their real output below them.

A block fenced with ```console holds commands behind ``$ `` (a ``\\`` at the end goes on in the next line) and, below
each, what it printed. All run in one shell, in a folder that looks like a fresh clone after ``scripts/demo`` has made
its environment: ``regard`` is found only if the page says how. What sets up the machine is left as it is.

Where a page shows a line ``…``, the new output is shortened there, too. The last line of a refreshed page is a digest
of all its blocks, so that outputs of different runs cannot be mixed by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["ENVIRONMENT", "Failed", "Ran", "commands_of", "digest_of", "refreshed", "run_all", "written_digest"]

ENVIRONMENT = Path(sys.prefix)  # of this interpreter: what stands for .venv

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_DIGEST = re.compile(r"\n*<!-- all output above is of one run of scripts/readme: (\w+) -->\n*\Z")
_SET_UP = ("git ", "pip ", "scripts/check", "scripts/test")
_DEMO = '#!/bin/sh\nexec .venv/bin/regard demo "$@"\n'  # what scripts/demo comes to


class Ran(NamedTuple):
    command: str
    output: str


class Failed(Exception):
    """A command of the page exits with an error, or its output does not fit where the page shows a part of it."""


def commands_of(text: str) -> list[str]:
    """All commands of the page that can be run, in order."""
    found = [match[1] for block in _BLOCK.finditer(text) for match in _COMMAND.finditer(block[1])]
    return [command for command in found if not command.startswith(_SET_UP)]


def run_all(commands: Iterable[str], folder: Path, environment: Mapping[str, str]) -> list[Ran]:
    """Run all in one shell, in ``folder``. Raises Failed on the first error."""
    commands = list(commands)
    _make_clone(folder)
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    variables |= {"PATH": _path_without_regard(), "COLUMNS": "100", "NO_COLOR": "1", **environment}
    with tempfile.TemporaryDirectory() as temporary:
        outputs = [Path(temporary, str(number)) for number in range(len(commands))]
        script = Path(temporary, "script")
        script.write_text("".join(map(_noted, commands, outputs)), encoding="utf-8")
        done = subprocess.run(["sh", script], cwd=folder, env=variables, stdin=subprocess.DEVNULL)
        texts = [path.read_text(encoding="utf-8") for path in outputs if path.exists()]
    ran = [Ran(command, text) for command, text in zip(commands, texts, strict=False)]
    if done.returncode:
        raise Failed(f"$ {ran[-1].command}\n{ran[-1].output}\nexit code {done.returncode}")
    return ran


def refreshed(text: str, ran: Iterable[Ran]) -> str:
    """The page with the output of each command that was run, in the order of the page, and their digest."""
    outputs = iter(ran)

    def command(match: re.Match[str]) -> str:
        if match[1].startswith(_SET_UP):
            return match[0]
        lines = [line.rstrip() for line in next(outputs).output.strip("\n").splitlines()]
        shown = "".join(f"{line}\n" for line in _shortened(lines, match[2].rstrip("\n").splitlines()))
        gap = "\n" if match[2].endswith("\n\n") else ""
        return f"$ {match[1]}\n{shown}{gap}"

    def block(match: re.Match[str]) -> str:
        return f"```console\n{_COMMAND.sub(command, match[1])}```"

    page = _DIGEST.sub("\n", _BLOCK.sub(block, text))
    return f"{page}\n<!-- all output above is of one run of scripts/readme: {digest_of(page)} -->\n"


def digest_of(text: str) -> str:
    """Of all commands and outputs of a page."""
    return hashlib.sha256("".join(_BLOCK.findall(text)).encode()).hexdigest()[:16]


def written_digest(text: str) -> str | None:
    """The digest that ``refreshed`` wrote, if it did."""
    match = _DIGEST.search(text)
    return match[1] if match else None


def _make_clone(folder: Path) -> None:
    """What the page's commands find in a clone once ``scripts/demo`` has made the environment."""
    (folder / "scripts").mkdir(exist_ok=True)
    demo = folder / "scripts" / "demo"
    if not demo.exists():  # in a real clone its own one runs
        demo.write_text(_DEMO, encoding="utf-8")
        demo.chmod(0o755)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(ENVIRONMENT, target_is_directory=True)


def _path_without_regard() -> str:
    """The path of a reader who has activated nothing."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not Path(each, "regard").exists())


def _noted(command: str, output: Path) -> str:
    """Lines of a script that run ``command`` with all it prints in ``output``, and end where it fails."""
    return f"exec >{shlex.quote(str(output))} 2>&1\n{command}\ncode=$?; [ $code = 0 ] || exit $code\n"


def _shortened(output: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """``output`` with lines left out where the page shows ``…``: each part begins where one like it did before."""
    parts = _parts(before)
    begin = 0
    for number, part in enumerate(parts):
        if number:
            yield "…"
            begin = _find(part[:2], output, begin)
        end = len(output) if number == len(parts) - 1 else begin + len(part)
        yield from output[begin:end]
        begin = end


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _find(part: Sequence[str], output: Sequence[str], begin: int) -> int:
    """Where lines stand that are like those of ``part`` in their first words; numbers differ from run to run."""
    looked_for = list(map(_first_word, part))
    for place in range(begin, len(output) - len(part) + 1):
        if list(map(_first_word, output[place : place + len(part)])) == looked_for:
            return place
    raise Failed("no such lines after …:\n" + "\n".join(part) + "\nin\n" + "\n".join(output))


def _first_word(line: str) -> str:
    word = re.search(r"\b[a-z]{3,}\b", line)
    return word[0] if word else ""


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

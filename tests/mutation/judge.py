"""Whether tests notice a changed file: reads mutants, one JSON object a line, and prints those that survive.

Each mutant is put into a copy of the tree and meets its tests in a forked child, which shares with its parent what
takes long to import and nothing else. A child has so many seconds of the processor's time, so a busy machine kills no
mutant. A test that fails under a mutant must pass on the code as it is.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import itertools
import json
import os
import re
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["judge"]

COPIED = ("regard", "tests", "docs", "pyproject.toml")
DAYS = itertools.count(1)
MEMORY = 8 << 30  # bytes of data of a child
PLUGINS = ("-p", "pytest_timeout", "-p", "no:cacheprovider")  # each child would load all others anew


def copied(root: Path, folder: Path) -> Path:
    """The tree to change."""
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "page"))
        elif (root / name).exists():
            shutil.copy2(root / name, folder / name)
    return folder


def passes(tree: Path, arguments: Sequence[str], log: Path, *, seconds: int) -> bool | None:
    """Whether these tests pass in ``tree``; None where the time is over. What they print goes to ``log``.

    LookupError where there is no such test.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _run(tree, arguments, log, seconds)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return None
    if (code := os.waitstatus_to_exitcode(status)) in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise LookupError(f"no test was run by: pytest {' '.join(arguments)}\n{log.read_text()}")
    return code == 0


def _run(tree: Path, arguments: Sequence[str], log: Path, seconds: int) -> int:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # a loop that never ends may fill a list
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    sys.dont_write_bytecode = False  # the next child compiles less
    return int(pytest.main([*arguments, "-x", "-q", *PLUGINS, "--tb=short"]))


class Baseline:
    """That the test which fails under a mutant passes on the code as it is; each is asked once."""

    def __init__(self, tree: Path, seconds: int) -> None:
        self.tree, self.seconds = tree, seconds
        self.passed: set[tuple[str, ...]] = set()

    def require(self, stage: Sequence[str], printed: str) -> None:
        """The first test that failed is found in what pytest ``printed``; the whole stage where there is none."""
        failed = re.search(r"^(FAILED|ERROR) (.+?)(?: - .*)?$", printed, re.MULTILINE)
        whole = ["--collect-only"] if failed and failed[1] == "ERROR" else []
        wanted = (failed[2], *whole) if failed else tuple(stage)
        if wanted in self.passed:
            return
        log = self.tree / "log"
        try:
            passed = passes(self.tree, wanted, log, seconds=self.seconds)
        except LookupError:  # a test that only the mutant has
            passed = passes(self.tree, stage, log, seconds=self.seconds)
        if not passed:
            sys.exit(f"error: this fails on the code as it is: pytest {' '.join(wanted)}\n{log.read_text()}")
        self.passed.add(wanted)


def judge(tree: Path, mutant: dict[str, Any], baseline: Baseline, *, seconds: int) -> str:
    """``killed``, ``ran too long`` or ``survived``."""
    for stage in mutant["stages"]:
        passed = passes_changed(tree, mutant, stage, seconds=seconds)
        if passed is None:
            return "ran too long"
        if not passed:
            baseline.require(stage, (tree / "log").read_text())
            return "killed"
    return "survived"


def passes_changed(tree: Path, mutant: dict[str, Any], stage: Sequence[str], *, seconds: int) -> bool | None:
    """``passes`` with the mutant in its place; the file is afterwards what it was, its time of change included.

    That of a mutant is a day of its own to come: compiled code is kept by that time and the size of the source.
    """
    path = tree / mutant["path"]
    original, stat = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutant["source"], encoding="utf-8")
    moment = int(stat.st_mtime) + 86_400 * next(DAYS)
    os.utime(path, (moment, moment))
    try:
        return passes(tree, stage, tree / "log", seconds=seconds)
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def difference(tree: Path, mutant: dict[str, Any]) -> str:
    """The lines that a mutant changes, without those around them."""
    before = (tree / mutant["path"]).read_text(encoding="utf-8").splitlines()
    lines = difflib.unified_diff(before, mutant["source"].splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the tree with regard and tests")
    parser.add_argument("--seconds", type=int, default=240, help="of the processor's time, for a mutant's tests")
    parser.add_argument("--preload", default="", help="modules to import once, with commas between them")
    options = parser.parse_args()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in filter(None, options.preload.split(",")):
        importlib.import_module(name)
    mutants = [json.loads(line) for line in sys.stdin]
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(options.root, Path(folder))
        baseline, counts = Baseline(tree, options.seconds), Counter[str]()
        for number, mutant in enumerate(mutants, 1):
            verdict = judge(tree, mutant, baseline, seconds=options.seconds)
            counts[verdict] += 1
            say(f"{number}/{len(mutants)} {mutant['path']}:{mutant['line']} {mutant['operator']}: {verdict}")
            if verdict != "killed":
                shown = f"{mutant['path']}:{mutant['line']} {mutant['operator']} {verdict}"
                sys.stdout.write(f"{shown}\n{difference(tree, mutant)}\n\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{len(mutants)} mutants: {', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}\n"
    )


def say(message: str) -> None:
    """Progress, apart from the list of survivors."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()

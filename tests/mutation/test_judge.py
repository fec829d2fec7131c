"""The runner itself, on a project of one function: a mutant is killed, an equivalent one survives, a loop is ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = "def absolute(x):\n    while x < 0:\n        x = -x\n    return x\n"
TESTS = "from regard.one import absolute\n\n\ndef test_it():\n    assert absolute(-3) == absolute(3) == 3\n"
MUTANTS = {
    "killed": SOURCE.replace("-x", "x * -2"),
    "survived": SOURCE.replace("x < 0", "x <= -1"),
    "ran too long": SOURCE.replace("-x", "+x"),
}


def project(folder: Path, test: str = TESTS) -> Path:
    for name, text in (("regard/one.py", SOURCE), ("regard/__init__.py", ""), ("tests/test_one.py", test)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def judged(root: Path) -> subprocess.CompletedProcess[str]:
    common = {"path": "regard/one.py", "line": 2, "operator": "by hand", "stages": [["tests/test_one.py"]]}
    lines = "".join(json.dumps(common | {"source": source}) + "\n" for source in MUTANTS.values())
    command = [sys.executable, "-m", "tests.mutation.judge", "--root", str(root), "--seconds", "2"]
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, input=lines, text=True, capture_output=True, env=os.environ | path, cwd=ROOT)


def test_what_tests_notice_is_killed_and_what_nobody_could_notice_survives(tmp_path: Path) -> None:
    found = judged(project(tmp_path))
    assert found.returncode == 0, found.stderr
    assert "3 mutants: 1 killed, 1 ran too long, 1 survived" in found.stdout
    survived = "regard/one.py:2 by hand survived\n-    while x < 0:\n+    while x <= -1:\n"
    assert survived in found.stdout and "killed\n" not in found.stdout
    assert (tmp_path / "regard/one.py").read_text(encoding="utf-8") == SOURCE, "a copy is changed, never the tree"


def test_tests_that_fail_on_the_code_as_it_is_kill_nothing(tmp_path: Path) -> None:
    found = judged(project(tmp_path, TESTS.replace("== 3", "== 4")))
    assert found.returncode == 1 and "fails on the code as it is" in found.stderr and not found.stdout


def test_what_is_drawn_is_the_same_for_a_seed_and_changes_code_alone(tmp_path: Path) -> None:
    """Annotations are code to a parser, and no test could see a change to one."""
    python = ROOT / ".envs/mutation/bin/python"
    if not python.exists():
        pytest.skip("needs cosmic-ray: scripts/mutation makes its environment")
    shutil.copytree(ROOT / "tests/mutation", tmp_path / "tests/mutation", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "regard/core").mkdir(parents=True)
    (tmp_path / "regard/core/state.py").write_text(
        "def f(x: int | None = None) -> int | None:\n    return x or 2 + 1\n"
    )
    command = [str(python), "-m", "tests.mutation.draw", "--sample", "9", "--seed", "2", "regard/core/state.py"]
    once, again = (subprocess.check_output(command, text=True, cwd=tmp_path) for _ in range(2))
    drawn = [json.loads(line) for line in once.splitlines()]
    assert once == again and {mutant["line"] for mutant in drawn} == {2} and len(drawn) == 4
    assert {mutant["operator"] for mutant in drawn} >= {"NumberReplacer", "ReplaceOrWithAnd"}

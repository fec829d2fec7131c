"""A machine without the C kernels and without a compiler: everything works, and the reason is printed once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.native.build import is_supported
from regard.native.library import CHOICE

from .conftest import TinyRun

pytestmark = pytest.mark.skipif(not is_supported(), reason="no kernels exist for this machine")
PACKAGE = Path(regard.__file__).parent


def test_a_build_without_a_compiler_prints_one_line(tmp_path: Path) -> None:
    """Python starts without its installed packages, of which the compiler is one."""
    copy = shutil.copytree(PACKAGE / "native", tmp_path / "native", ignore=shutil.ignore_patterns("kernels.*"))
    command = [sys.executable, "-I", "-S", str(Path(copy) / "build.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    why = "the compiler is missing: pip install ziglang"
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"the kernels were not built, so torch computes everything: {why}\n"


def test_a_package_without_the_library_translates_and_doctor_reports_one_problem(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    shutil.copytree(PACKAGE, tmp_path / "regard", ignore=shutil.ignore_patterns("kernels.*", "__pycache__", "page"))
    code = (
        "import sys\nfrom regard.cli import run\nassert run(['doctor']) == 0\nprint('--', flush=True)\n"
        f"assert run(['translate', {str(tiny_run.path)!r}]) == 0"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="c a b\n", capture_output=True, text=True, cwd=tmp_path, timeout=200,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/nowhere", "HOME": str(tmp_path)}, check=True,
    )  # fmt: skip
    report, translation = done.stdout.split("--\n")
    (problem,) = [line for line in report.splitlines() if "C kernels are missing" in line]
    assert problem.startswith("problem: ") and problem.endswith("python -m regard.native.build")
    assert translation == "C A B\n" and "kernels" not in done.stderr

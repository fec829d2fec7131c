"""What pip installs: a wheel with the page in it, or no wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regard.inspection.page import FOLDER

pytest.importorskip("hatchling", reason="hatchling is not installed")
ROOT = Path(__file__).parents[1]


def build(clone: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=clone, capture_output=True,
        text=True, env=os.environ | {"PATH": "/nowhere"}, timeout=120,
    )  # fmt: skip


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a wheel is made of, without what was built in it."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("regard", "web"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "page")
        )
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.skipif(not (FOLDER / "built-from").is_file(), reason="the page was not built: scripts/page")
def test_a_wheel_has_the_page(clone: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, clone / "regard" / "inspection" / "page")  # of the same sources: no Node is asked for
    done = build(clone, tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert {f"regard/inspection/page/{name}" for name in ("index.html", "app.js", "app.css")} <= set(
            file.namelist()
        )


def test_without_node_and_without_the_page_there_is_no_wheel(clone: Path, tmp_path: Path) -> None:
    done = build(clone, tmp_path)
    assert done.returncode and not list(tmp_path.glob("*.whl")), done.stdout
    assert "Node" in done.stderr

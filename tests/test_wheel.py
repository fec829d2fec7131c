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
from regard.native.build import LIBRARY, is_current

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
            ROOT / name,
            folder / name,
            ignore=shutil.ignore_patterns("node_modules", "__pycache__", "page", "kernels.*"),
        )
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def page(clone: Path) -> None:
    """The page of the same sources: no Node is asked for."""
    if not (FOLDER / "built-from").is_file():
        pytest.skip("the page was not built: scripts/page")
    shutil.copytree(FOLDER, clone / "regard" / "inspection" / "page")


@pytest.mark.usefixtures("page")
def test_a_wheel_has_the_page_and_the_kernels(clone: Path, tmp_path: Path) -> None:
    if not is_current():
        pytest.skip("the kernels were not built: python regard/native/build.py")
    shutil.copy2(LIBRARY, clone / "regard" / "native")  # of the same sources: no compiler is asked for
    done = build(clone, tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert {f"regard/inspection/page/{name}" for name in ("index.html", "app.js", "app.css", "microphone.js")} <= names
    assert f"regard/native/{LIBRARY.name}" in names
    assert "-py3-none-" in wheel.name and not wheel.name.endswith("-any.whl")


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("why", ["off", "no compiler"])
def test_a_wheel_without_kernels_is_one_for_all_machines(
    why: str, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "off":
        monkeypatch.setenv("REGARD_NATIVE", "off")
    else:
        source = clone / "regard" / "native" / "source" / "kernel.c"
        source.write_text("this is no C")
    done = build(clone, tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("computes with torch alone" in done.stdout + done.stderr) == (why != "off")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as file:
        assert f"regard/native/{LIBRARY.name}" not in file.namelist()


def test_without_node_and_without_the_page_there_is_no_wheel(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "off")  # the kernels take time, and are not what is missing
    done = build(clone, tmp_path)
    assert done.returncode and not list(tmp_path.glob("*.whl")), done.stdout
    assert "Node" in done.stderr

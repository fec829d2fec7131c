"""The page's own tests of its pure functions, and its size."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.inspection.page import FOLDER, offline

WEB = Path(__file__).parents[1] / "web"
built = pytest.mark.skipif(not (FOLDER / "app.js").is_file(), reason="the page was not built: scripts/page")


@pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules").is_dir(), reason="no Node, or scripts/page has not run"
)
def test_what_the_page_computes() -> None:
    done = subprocess.run(["npm", "test", "--silent"], cwd=WEB, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@built
def test_the_page_is_small_and_fetches_nothing() -> None:
    files = [FOLDER / name for name in ("index.html", "app.js", "app.css")]
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) <= 100 * 1024
    assert not any(b"https://" in file.read_bytes() and b"cdn" in file.read_bytes() for file in files)


@built
def test_what_is_put_into_a_page_cannot_leave_its_place() -> None:
    html = offline({"main": {"text": "</script><script>alert(1)</script>"}})
    assert html.count("alert(1)") == 1 and "<script>alert" not in html and "\\u003cscript>alert(1)" in html

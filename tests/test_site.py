"""The docs site: every page is in its navigation, no link leaves it, and it builds strictly with the extra docs."""

from __future__ import annotations

import itertools
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import regard

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = ROOT / "zensical.toml"
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))

pytestmark = pytest.mark.skipif(not SETTINGS.is_file(), reason="zensical.toml is not in this distribution")
needs_builder = pytest.mark.skipif(
    not (find_spec("zensical") and find_spec("mkdocstrings_handlers")), reason="the extra docs is not installed"
)

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


def pages_of(navigation: Any) -> Iterator[str]:
    """The pages of a navigation, in order, whatever its depth."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for each in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_of(each)


def outside(page: Path, docs: Path) -> list[str]:
    """Links and pictures of a page that are not in the site: files outside of ``docs``, or files that are not there."""
    targets = [target for target in _TARGET.findall(_FENCE.sub("", page.read_text("utf-8"))) if "://" not in target]
    paths = {target: (page.parent / target).resolve() for target in targets}
    return [target for target, path in paths.items() if not path.is_relative_to(docs) or not path.is_file()]


def swallowed_lists(text: str) -> list[str]:
    """First items of lists that follow a paragraph without an empty line: the site shows them as part of it."""
    lines = _FENCE.sub("", text).splitlines()
    return [
        line
        for before, line in itertools.pairwise(lines)
        if _ITEM.match(line) and before.strip() and not _ITEM.match(before) and not before.startswith((" ", "#"))
    ]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_every_page_is_in_the_navigation_once() -> None:
    counted = Counter(pages_of(tomllib.loads(SETTINGS.read_text("utf-8"))["project"]["nav"]))
    assert sorted(counted) == PAGES
    assert [page for page, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_link_or_picture_is_outside_of_the_site(page: str) -> None:
    assert outside(DOCS / page, DOCS) == []


@pytest.mark.parametrize("page", PAGES)
def test_lists_are_lists_on_the_site_too(page: str) -> None:
    assert swallowed_lists((DOCS / page).read_text("utf-8")) == []


def test_faults_are_found(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    (tmp_path / "code.py").touch()
    page.write_text("[a](page.md#x) ![b](gone.svg) [c](../code.py) [d](https://example.org)\n\n```\n[e](f)\n```\n")
    assert outside(page, page.parent) == ["gone.svg", "../code.py"]
    assert swallowed_lists("text\n- item\n- item\n\n- item\n  more\n- item\n\n```\ntext\n- item\n```\n") == ["- item"]
    assert list(pages_of([{"A": "a.md"}, {"B": ["b.md", {"C": "c.md"}]}])) == ["a.md", "b.md", "c.md"]


@needs_builder
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    shutil.copy(SETTINGS, tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    (tmp_path / "regard").symlink_to(ROOT / "regard")  # whose docstrings are the Python reference
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "build" / "site"
    assert [page for page in PAGES if not (site / page).with_suffix(".html").is_file()] == []
    assert 'id="regard.load"' in (site / "reference" / "python.html").read_text("utf-8")
    errata = (site / "evidence" / "errata.html").read_text("utf-8")
    assert "python runnable" not in errata  # a block, not a paragraph


@needs_builder
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "small"\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Small\n\n[nowhere](gone.md)\n")
    done = build(tmp_path)
    assert done.returncode and "gone.md" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def test_what_is_cited_is_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^(?:cff-)?version: (.+)$", text, re.MULTILINE) == ["1.2.0", regard.__version__]


def test_the_drawings_are_those_of_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = runpy.run_path(str(DOCS / "pictures" / "draw.py"))
    monkeypatch.setitem(source["Drawing"].save.__globals__, "FOLDER", tmp_path)
    for draw in source["ALL"]:
        draw()
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (DOCS / "pictures").glob("*.svg")}, "run draw.py there"


def test_the_pictures_show_the_present_page() -> None:
    record = runpy.run_path(str(DOCS / "pictures" / "record.py"))
    recorded = record["recorded"]()
    files = {path.stem for path in (DOCS / "pictures").glob("*.png")} - {"alarms"}  # of a command
    assert files == recorded.keys()
    assert record["outdated"]() == [], "web/ has changed since: docs/pictures/make.py says how to take them again"


def test_every_page_of_a_task_has_a_picture() -> None:
    nav = tomllib.loads(SETTINGS.read_text("utf-8"))["project"]["nav"]
    (use,) = (group["Use"] for group in nav if "Use" in group)
    pages = [page for group in use for name in ("Texts", "Other data") for page in pages_of(group.get(name, []))]
    assert len(pages) >= 16
    without = [page for page in pages if "](../pictures/" not in (DOCS / page).read_text("utf-8")]
    assert without == []


@pytest.mark.parametrize("drawing", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_is_small_and_says_what_it_shows(drawing: Path) -> None:
    picture = ElementTree.parse(drawing).getroot()
    title = picture.find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text
    assert drawing.stat().st_size < 20_000


def test_every_tutorial_says_what_its_reader_will_have_and_how_long_it_takes() -> None:
    for page in sorted((DOCS / "tutorials").glob("*.md")):
        beginning = page.read_text("utf-8").split("\n\n")[1]
        assert beginning.startswith("**At the end you have**") and "**Time:**" in beginning, page.name

"""Hints name the place an installation came from, never the bare name on an index, which may be a stranger's."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from regard.core import installation
from regard.core.installation import PURPOSES, extra_command, extras, package_command, upgrade_advice

ROOT = Path(__file__).parents[1]
METADATA = (
    "Metadata-Version: 2.4\nName: regard\nVersion: 0.1.0\nProvides-Extra: plot\nProvides-Extra: made-up\n"
    "Requires-Dist: numpy>=2\nRequires-Dist: fancyplots>=3.9; extra == 'plot'\n"
    "Requires-Dist: typer[all]>=0.2 ; (sys_platform != 'none') and extra == \"plot\"\n"
)
REVISION = {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"}

# How it was installed, what adds the extra plot to it, and what replaces it by a newer one.
KINDS = {
    "editable": (
        {"url": "file:///src/my%20regard", "dir_info": {"editable": True}},
        "pip install -e '/src/my regard[plot]'",
        "git -C '/src/my regard' pull",
    ),
    "clone": ({"url": "file:///src/r", "dir_info": {}}, "pip install '/src/r[plot]'", "in place of file:///src/r"),
    "wheel": (
        {"url": "file:///w/regard-0.1.0-py3-none-any.whl", "archive_info": {}},
        "pip install '/w/regard-0.1.0-py3-none-any.whl[plot]'",
        "in place of file:///w/regard-0.1.0-py3-none-any.whl",
    ),
    "wheel far away": (
        {"url": "https://a.b/regard.whl", "archive_info": {}},
        "pip install 'regard[plot] @ https://a.b/regard.whl'",
        "in place of https://a.b/regard.whl",
    ),
    "git": (
        {"url": "https://a.b/r.git", "vcs_info": REVISION, "subdirectory": "x"},
        "pip install 'regard[plot] @ git+https://a.b/r.git@v1#subdirectory=x'",
        "pip install --upgrade 'regard @ git+https://a.b/r.git@v1#subdirectory=x'",
    ),
    "index": (None, "pip install 'fancyplots>=3.9' 'typer[all]>=0.2'", "from the origin of this installation"),
}  # fmt: skip


def install(folder: Path, origin: object, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = folder / "regard-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(METADATA)
    if origin is not None:
        (metadata / "direct_url.json").write_text(origin if isinstance(origin, str) else json.dumps(origin))
    monkeypatch.setattr(installation, "_distribution", lambda: PathDistribution(metadata))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_installation(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, extra, newer = KINDS[kind]
    install(tmp_path, origin, monkeypatch)
    assert extra_command("plot").endswith(f" -m {extra}")
    assert upgrade_advice().endswith(newer)
    for command in (extra_command("plot"), upgrade_advice()):
        assert not re.search(r"install( --upgrade)? '?regard(\[\w+\])?'?$", command)


@pytest.mark.parametrize("note", ["", "no JSON", "[]", '{"url": 3}'])
def test_a_note_that_says_nothing(note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, note, monkeypatch)
    assert "fancyplots" in extra_command("plot")
    assert "extra 'unheard-of'" in extra_command("unheard-of")


def test_a_clone_that_was_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_distribution", lambda: None)
    assert extra_command("plot").endswith(shlex.join(["-m", "pip", "install", "-e", f"{ROOT}[plot]"]))
    assert extras() == []


def test_extras_and_what_they_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, None, monkeypatch)
    assert [(each.name, each.missing) for each in extras()] == [("made-up", []), ("plot", ["fancyplots"])]


def test_every_extra_says_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(PURPOSES) == set(project["optional-dependencies"])
    assert {each.name for each in extras()} == set(PURPOSES)


def test_a_command_begins_with_the_python_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert package_command("some thing") == ".venv/bin/python -m pip install 'some thing'"


def test_nobody_is_sent_to_an_index() -> None:
    """No command that a stranger's package of this name would answer stands anywhere."""
    files = [
        file
        for part in ("regard", "docs", "tests", "scripts", ".")
        for file in (ROOT / part).glob("*" if part == "." else "**/*")
    ]
    wrong = re.compile(r"pip install( -\S+)* ['\"]?regard\b(?! @)")
    found = [
        file.name
        for file in files
        if file.suffix in (".py", ".md", ".toml", ".ipynb") and file.name != Path(__file__).name
        if wrong.search(file.read_text(encoding="utf-8"))
    ]
    assert found == []

"""Files for continuous integration build a wheel for each platform that wheels are tagged for."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

from .documented import ROOT

yaml: Any = pytest.importorskip("yaml")
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
UNSERVED = {"macosx_11_0_x86_64"}  # no runner is asked for; such a wheel is built by hand


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_ends(path: Any) -> None:
    found = yaml.safe_load(path.read_text())
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
            assert "${{ github." not in step.get("run", ""), "what others write is no part of a command"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_scripts_that_it_calls_are_there(path: Any) -> None:
    called = re.findall(r"\bscripts/\w+", path.read_text())
    assert called and all((ROOT / name).stat().st_mode & 0o100 for name in called)


def test_there_is_a_wheel_for_each_platform_of_the_kernels() -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    specification = importlib.util.spec_from_file_location("regard_hatch_build", ROOT / "hatch_build.py")
    assert specification is not None and specification.loader is not None
    hook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hook)
    built = {each["tag"] for each in jobs("wheels.yml")["wheel"]["strategy"]["matrix"]["include"]}
    assert built == set(hook.TAGS.values()) - UNSERVED
    assert set(hook.TAGS) == set(hook._kernel_builder().TARGETS)

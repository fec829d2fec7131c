"""Files for continuous integration build a wheel for each platform that wheels are tagged for."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from typing import Any

import pytest

from .documented import ROOT

yaml: Any = pytest.importorskip("yaml")
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
UNSERVED = {"macosx_11_0_x86_64"}  # no runner is asked for; such a wheel is built by hand


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
    return found


PINNED = re.compile(r"uses: (?:actions|pypa)/[a-z-]+@[0-9a-f]{40} # v\d+(?:\.\d+)*")
EVENTS = {"push", "pull_request", "schedule", "workflow_dispatch", "workflow_call", "release"}  # no pull_request_target


def faults(text: str) -> list[str]:
    """Return the rules that a workflow breaks: pinned actions, minimal permissions, limits of time."""
    workflow, broken = yaml.safe_load(text), list[str]()
    events = workflow[True]  # YAML reads the key "on" as a boolean
    if not set(events if isinstance(events, dict) else [events]) <= EVENTS:
        broken.append("an event that gives strangers more rights")
    if workflow.get("permissions") != {"contents": "read"}:
        broken.append("permissions of the workflow are not only to read")
    broken += [f"not pinned: {line.strip()}" for line in text.splitlines() if re.search(r"\buses:", line)
               and not PINNED.search(line) and "uses: ./.github/workflows/" not in line]  # fmt: skip
    if "secrets." in text:
        broken.append("a secret")
    for name, job in workflow["jobs"].items():
        publishes = any("pypi-publish" in step.get("uses", "") for step in job.get("steps", ()))
        if job.get("permissions") != ({"id-token": "write"} if publishes else None):
            broken.append(f"{name}: permissions")
        if "uses" not in job and not job.get("timeout-minutes", 61) <= 60:
            broken.append(f"{name}: no limit of time")
        for step in job.get("steps", ()):
            if ("uses" in step) == ("run" in step):
                broken.append(f"{name}: a step either uses an action or runs a command")
            if "${{ github." in step.get("run", "") or "${{ inputs." in step.get("run", ""):
                broken.append(f"{name}: a command with text that others write")
            if "checkout" in step.get("uses", "") and step.get("with", {}).get("persist-credentials") is not False:
                broken.append(f"{name}: the token stays in the clone")
    return broken


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_is_pinned_and_may_only_read(path: Any) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "not pinned: - uses: actions/checkout@v7"),
        ("90b1 # v7.0.1", "90b1", "not pinned: - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"),
        ("contents: read", "contents: write", "permissions of the workflow are not only to read"),
        ("  check:\n", "  check:\n    permissions: {contents: write}\n", "check: permissions"),
        ("    timeout-minutes: 20\n", "", "check: no limit of time"),
        ("run: scripts/check", "run: echo ${{ github.head_ref }}", "check: a command with text that others write"),
        ("persist-credentials: false", "fetch-depth: 1", "check: the token stays in the clone"),
        ("  pull_request:\n", "  pull_request_target:\n", "an event that gives strangers more rights"),
        ("run: scripts/check", "run: echo ${{ secrets.KEY }}", "a secret"),
    ],
)
def test_a_fault_is_found(before: str, after: str, fault: str) -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert fault in faults(text.replace(before, after))


def test_an_action_has_one_version() -> None:
    versions = {each for path in FILES for each in re.findall(r"uses: (\S+@\S+ # \S+)", path.read_text())}
    assert len({version.partition("@")[0] for version in versions}) == len(versions) >= 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_scripts_that_it_calls_are_there(path: Any) -> None:
    text = path.read_text()
    called = re.findall(r"(?<!/)\bscripts/\w+", text)
    assert all((ROOT / name).stat().st_mode & 0o100 for name in called)
    reused = re.findall(r"uses: \./(\S+)", text)
    assert called or (reused and all("workflow_call" in (ROOT / name).read_text() for name in reused))


def test_every_push_is_checked_on_each_python_version_of_the_package() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert {"push", "pull_request", "schedule"} <= set(workflow[True])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    for name in ("suite", "wheel"):
        assert workflow["jobs"][name]["strategy"]["matrix"]["python"] == versions


def test_there_is_a_wheel_for_each_platform_of_the_kernels() -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    specification = importlib.util.spec_from_file_location("regard_hatch_build", ROOT / "hatch_build.py")
    assert specification is not None and specification.loader is not None
    hook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hook)
    built = {each["tag"] for each in jobs("wheels.yml")["wheel"]["strategy"]["matrix"]["include"]}
    assert built == set(hook.TAGS.values()) - UNSERVED
    assert set(hook.TAGS) == set(hook._kernel_builder().TARGETS)

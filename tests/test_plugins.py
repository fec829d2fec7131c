"""Plugins: parts of another distribution train, are recorded, and are never imported unasked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from regard.runs import plugins
from regard.runs.plugins import Plugin

PART = '''
print("the plugin is imported")
from regard.attention.mechanisms.dot import Dot

class HalfDot(Dot):
    """Dot with half the energy."""
    def energy(self, *arguments, **options):
        return super().energy(*arguments, **options) / 2
'''
MODULE = (
    "from regard.attention.catalog import MECHANISMS\nfrom half_dot import HalfDot\nMECHANISMS['own-dot'] = HalfDot\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with a distribution ``half-dot``, which has a mechanism and a mixer."""
    site = tmp_path / "site"
    about = site / "half_dot-1.2.dist-info"
    about.mkdir(parents=True)
    (site / "half_dot.py").write_text(PART)
    (site / "own_parts.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: Half_Dot\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(
        "[regard.mechanisms]\nhalf-dot = half_dot:HalfDot\ndot = half_dot:HalfDot\n"
    )
    for language, change in (("en", str), ("de", str.upper)):
        draws = random.Random(0)
        lines = [change(" ".join(draws.choices("abcd", k=3))) for _ in range(40)]
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    return site


def regard(site: Path, *arguments: str, plugins: str = "", input: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(Path(__file__).parents[1])])}
    environment = {**environment, "REGARD_PLUGINS": plugins, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, cwd=site.parent, env=environment, input=input, capture_output=True, text=True)


def train(site: Path, kind: str, name: str, plugins: str = "") -> subprocess.CompletedProcess[str]:
    settings = (
        "train.steps=2",
        "train.minutes=",
        f"model.cross_attention.kind={kind}",
        "model.width=16",
        "model.heads=2",
    )
    options = [option for setting in settings for option in ("--set", setting)]
    return regard(site, "train", "train.en", "train.de", "--name", name, *options, plugins=plugins)


def test_an_entry_point_trains_and_is_not_imported_unasked(site: Path) -> None:
    trained = train(site, "half-dot", "run")
    assert trained.returncode == 0, trained.stderr
    assert "the plugin is imported" in trained.stdout
    run = site.parent / "runs" / "run"
    assert json.loads((run / "environment.json").read_text())["plugins"] == {"half-dot": "1.2"}

    refused = regard(site, "translate", "runs/run", input="a b\n")
    assert refused.returncode == 2 and "the plugin is imported" not in refused.stdout
    assert "REGARD_PLUGINS=half-dot" in refused.stderr and "'half-dot'" in refused.stderr

    trusted = regard(site, "translate", "runs/run", plugins="half-dot", input="a b\n")
    assert trusted.returncode == 0, trusted.stderr
    (site.parent / "in.txt").write_text("a b\n" * 40)
    bulk = regard(
        site, "translate", "runs/run", "in.txt", "-o", "out/", "--workers", "2", "--block", "8", plugins="half-dot"
    )
    assert bulk.returncode == 0, bulk.stderr
    assert (site.parent / "out" / "in.txt").read_text() == trusted.stdout.replace("the plugin is imported\n", "") * 40

    (site / "half_dot-1.2.dist-info" / "METADATA").unlink()
    (site / "half_dot-1.2.dist-info" / "entry_points.txt").unlink()
    missing = regard(site, "translate", "runs/run", input="a b\n")
    assert missing.returncode == 2 and "the run needs the plugin half-dot 1.2" in missing.stderr


def test_a_module_registers_its_parts_itself(site: Path) -> None:
    unknown = train(site, "own-dot", "other")
    assert unknown.returncode == 2 and "own-dot" in unknown.stderr
    trained = train(site, "own-dot", "other", plugins="own_parts")
    assert trained.returncode == 0, trained.stderr
    assert regard(site, "translate", "runs/other", plugins="own_parts", input="a b\n").returncode == 0


def test_a_plugin_replaces_no_part_of_regard(site: Path) -> None:
    trained = train(site, "dot", "plain")
    assert trained.returncode == 0, trained.stderr
    assert "the plugin is imported" not in trained.stdout


def test_a_run_with_the_name_of_a_plugin_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin("half-dot", "1.2", "regard.mechanisms", EntryPoint("half-dot", "half_dot:HalfDot", ""))
    monkeypatch.setattr(plugins, "installed", lambda: (plugin,))
    tables: dict[str, Any] = {"model": {"encoder": {"from": "half-dot", "mixer": "dot"}, "from": "half-dot"}}
    assert plugins.needed_plugins(tables) == []
    tables["model"]["encoder"]["mixer"] = "half-dot"
    assert plugins.needed_plugins(tables) == [plugin]


def test_a_plugin_that_fails_is_named(site: Path) -> None:
    (site / "broken.py").write_text("raise RuntimeError('it is broken')\n")
    failed = train(site, "dot", "plain", plugins="broken")
    assert failed.returncode == 2
    assert "the plugin broken cannot be imported" in failed.stderr and "it is broken" in failed.stderr


def test_doctor_lists_plugins_and_imports_none(site: Path) -> None:
    shown = regard(site, "doctor").stdout
    assert "1.2, with dot, half-dot; for new configs only; REGARD_PLUGINS=half-dot adds saved runs" in shown
    assert "the plugin is imported" not in shown
    assert (
        "1.2, with dot, half-dot; also for saved runs" in regard(site, "doctor", plugins="own_parts, Half_Dot").stdout
    )

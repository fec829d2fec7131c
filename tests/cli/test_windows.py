"""Long texts in windows on the command line, in Python and on a server, from the automatic choice to the export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import regard as package
from tests.test_windows import written

from .test_serve import serving

TEXT = "the a film it is was of and to in fine it"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A run whose deciding word is in the second window, its test file, and the output of its training."""
    from click.testing import Result
    from typer.testing import CliRunner

    from regard import cli

    folder = tmp_path_factory.mktemp("windows")
    train, test = written(folder, 120, words=12), written(folder, 40, words=12, seed=1)
    settings = ["data.max_length=6", "train.epochs=6", "train.threads=1", "train.baseline=false", "model.wide=false"]
    command = ["train", str(train), "--runs", str(folder / "runs")]
    done: Result = CliRunner().invoke(cli.build_app(), command + [part for key in settings for part in ("--set", key)])
    assert done.exit_code == 0, done.output
    return folder / "runs" / train.stem, test, done.output


def test_the_automatic_choice_learns_from_windows(regard: Callable[..., Any], trained: tuple[Path, Path, str]) -> None:
    run, test, output = trained
    assert "100% of the texts are longer than 6 pieces → read in windows" in output
    assert " of them in windows" in output and "truncated" not in output
    assert json.loads(regard("evaluate", run, test, "--json").stdout)["figures"]["accuracy"] == 1
    assert "up to 8 windows of 6 pieces" in regard("info", run).stdout
    assert "up to 8 windows of 6 pieces" in (run / "README.md").read_text(encoding="utf-8")


def test_all_interfaces_read_the_same_windows(regard: Callable[..., Any], trained: tuple[Path, Path, str]) -> None:
    run, _, _ = trained
    (line,) = regard("classify", run, "--json", input=f"{TEXT}\n").stdout.splitlines()
    output = json.loads(line)
    assert output["label"] == "good"
    model = package.load(run)
    assert json.loads(model.write(model([TEXT])[0], json=True)) == output
    with serving(str(run), "--threads", "1") as (address, _):
        body = httpx.post(f"{address}/v1/predict", json={"inputs": [TEXT]}, timeout=60).json()
    assert body["outputs"] == [output]


def test_a_text_in_windows_is_inspected(regard: Callable[..., Any], trained: tuple[Path, Path, str]) -> None:
    run, _, _ = trained
    document = json.loads(regard("inspect", run, TEXT, "--json", "--influence").stdout)
    (influence,), (surface,) = document["influences"], document["surfaces"]
    assert surface["pieces"] == ["<s>", *TEXT.split()[:6], "</s>", "<s>", *TEXT.split()[6:], "</s>"]
    assert max(influence["values"]) == influence["values"][surface["pieces"].index("fine")]


def test_exports_write_a_run_or_refuse(
    regard: Callable[..., Any], trained: tuple[Path, Path, str], tmp_path: Path
) -> None:
    run, _, _ = trained
    assert regard("export", run, tmp_path / "hub", "--to", "hub").exit_code == 0
    assert package.load(tmp_path / "hub")([TEXT])[0] == package.load(run)([TEXT])[0]
    refused = regard("export", run, tmp_path / "out", "--to", "transformers").exception
    assert "it reads long texts in windows" in str(refused) and not (tmp_path / "out").exists()

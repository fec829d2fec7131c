"""``regard export`` of a language model to ``transformers``."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from regard.errors import ConfigError
from tests.shape_checks import unchecked

from .conftest import TinyRun


def test_an_export_says_the_same(language_model: Path, regard: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    folder = tmp_path / "exported"
    with unchecked():
        done = regard("export", language_model, folder, "--to", "transformers", "--sentences", "3")
    assert done.exit_code == 0, done.output
    assert "equal pieces for 3 of 3 texts, equal greedy continuations for 3" in done.output
    written = json.loads((folder / "parity.json").read_text())
    assert written["difference"] < 1e-4 and (written["texts"], written["to"]) == (3, "transformers")
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in folder.iterdir()} == names | {"parity.json"}


def test_it_is_written_without_transformers_and_not_compared(
    language_model: Path, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.share.export_format.find_spec", lambda name: None)
    done = regard("export", language_model, tmp_path / "exported", "--to", "transformers")
    assert "not compared: transformers is not installed" in done.output
    assert (tmp_path / "exported" / "model.safetensors").is_file()


def test_formats_are_of_a_task(
    language_model: Path, tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    for run, to, help in (
        (language_model, "marian", "--to gguf, transformers"),
        (tiny_run.path, "transformers", "--to ct"),
    ):
        done = regard("export", run, tmp_path / "exported", "--to", to)
        assert isinstance(done.exception, ConfigError) and help in str(done.exception)
        assert not (tmp_path / "exported").exists()


def test_any_run_goes_to_a_folder_to_share(language_model: Path, regard: Callable[..., Result], tmp_path: Path) -> None:
    """Without data and history, with its weights bit for bit, a card, and checksums."""
    folder, lines = tmp_path / "shared", tmp_path / "lines.txt"
    lines.write_text("the\na\n")
    done = regard("export", language_model, folder, "--to", "hub", "--source", lines)
    assert done.exit_code == 0 and "equal outputs for 2 of 2 lines" in done.output, done.output
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"README.md", "SHA256SUMS", "config.toml", "parity.json", "plan.json"} <= names
    assert not [name for name in names if name.startswith("data/") or "optimizer" in name or name == "environment.json"]
    assert 'regard.load("FOLDER")' in (folder / "README.md").read_text(encoding="utf-8")
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    config = tomllib.loads((folder / "config.toml").read_text())
    assert config["data"]["train"] == [] and "valid" not in config["data"]
    (weights,) = (folder / "checkpoints").glob("step-*/model.safetensors")
    assert weights.read_bytes() == (language_model / weights.relative_to(folder)).read_bytes()
    again = regard("export", folder, tmp_path / "twice", "--to", "hub")
    assert again.exit_code == 0 and "equal outputs for" in again.output, again.output

"""``regard export`` of a language model to ``transformers``."""

from __future__ import annotations

import json
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
    assert "of 3 texts 3 have the same pieces, 3 the same greedy continuation" in done.output
    written = json.loads((folder / "parity.json").read_text())
    assert written["difference"] < 1e-4 and (written["texts"], written["to"]) == (3, "transformers")
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in folder.iterdir()} == names | {"parity.json"}


def test_it_is_written_without_transformers_and_not_compared(
    language_model: Path, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = regard("export", language_model, tmp_path / "exported", "--to", "transformers")
    assert "not compared: transformers is not installed" in done.output
    assert (tmp_path / "exported" / "model.safetensors").is_file()


def test_formats_are_of_a_task(
    language_model: Path, tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    for run, to, help in ((language_model, "marian", "--to transformers"), (tiny_run.path, "transformers", "--to ct")):
        done = regard("export", run, tmp_path / "exported", "--to", to)
        assert isinstance(done.exception, ConfigError) and help in str(done.exception)
        assert not (tmp_path / "exported").exists()

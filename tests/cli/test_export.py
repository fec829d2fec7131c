"""``regard export``: a folder that is whole or absent, and what was compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from .conftest import TinyRun


def test_an_export_stands_by_itself_and_says_the_same(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "exported"
    done = regard("export", tiny_run.path, folder, "--to", "ctranslate2", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert "40 of 40 sentences the same" in done.output
    written = json.loads((folder / "parity.json").read_text())
    assert (written["sentences"], written["differing"]) == (40, 0)
    names = {path.name for path in folder.iterdir()}
    assert {"model.bin", "config.json", "tokenizer", "parity.json"} <= names
    again = regard("export", tiny_run.path, folder, "--to", "ctranslate2")
    assert again.exit_code == 2 or again.exception is not None
    assert [path.name for path in tmp_path.iterdir()] == ["exported"], "nothing half made is left"

"""``regard export`` of models that read vectors: formats of text models are refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError

OF_TEXTS = ("ctranslate2", "marian", "transformers")
REFUSED = [("recognition", "onnx"), *((kind, name) for kind in ("forecasting", "recognition") for name in OF_TEXTS)]


@pytest.mark.parametrize(("kind", "format"), REFUSED)
def test_formats_of_text_models_are_refused(
    kind: str, format: str, runs: dict[str, Path], regard: Callable[..., Any], tmp_path: Path
) -> None:  # fmt: skip
    refused = regard("export", runs[kind], tmp_path / "out", "--to", format).exception
    assert isinstance(refused, ConfigError) and kind in str(refused) and str(refused.help).endswith("hub")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["forecasting", "recognition"])
def test_a_folder_to_share_has_a_card_and_no_paths(
    kind: str, runs: dict[str, Path], regard: Callable[..., Any], tmp_path: Path
) -> None:  # fmt: skip
    assert regard("export", runs[kind], tmp_path / "out", "--to", "hub").exit_code == 0
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    task = {"forecasting": "time-series-forecasting", "recognition": "automatic-speech-recognition"}[kind]
    assert f"pipeline_tag: {task}" in card and str(tmp_path.parent) not in card

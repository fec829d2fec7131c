"""Decoding while training validates: by the run's own search settings, but greedily, and in its language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.config import load_config
from regard.tasks.translation import task
from regard.tasks.translation.codecs import Codecs


def test_validation_decodes_greedily_by_the_search_settings_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n", encoding="utf-8")
    corpus = {"source": str(tmp_path / "pairs.tsv")}
    search = {"max_extra": 3, "max_length": 9, "batch_sentences": 7, "beam": 5, "nbest": 2, "temperature": 1.0}
    data = {"train": [corpus], "valid": [corpus], "target_language": "ja"}
    config = load_config({"data": data, "train": {"best_by": "bleu", "steps": 1}, "search": search})
    seen: list[tuple[Any, dict[str, Any]]] = []

    def measure(translator: Any, *arguments: Any, **options: Any) -> dict[str, float]:
        seen.append((translator.search, options))
        return {"bleu": 1.0}

    monkeypatch.setattr(task, "validation_metrics", measure)
    model = build(ModelConfig(layers=1, width=4, heads=1), source_types=8, target_types=8)
    nothing: Any = Codecs(None, None)  # type: ignore[arg-type]
    predictor = task.TASK.predictor(model, nothing, config)
    assert task.TASK.decode(predictor, config, ["bleu"], lambda: False) == {"bleu": 1.0}
    ((used, options),) = seen
    assert (used.beam, used.nbest, used.temperature) == (1, 1, None)
    assert (used.max_extra, used.max_length, used.batch_sentences) == (3, 9, 7)
    assert options["language"] == "ja"

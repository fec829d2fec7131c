"""The study of newer parts: each row is what it says, finished rows are kept, and the verdict can be either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.studies import modern
from regard.studies.modern import ROWS, RowFigures, Size
from regard.studies.study import Findings, ignore_report
from regard.tasks.language_model.task import TASK

TEXT = Path(__file__)
LOSSES = {
    "AdamW 0.001": 2.2, "AdamW 0.003": 2.0, "AdamW 0.006": 2.1, "Muon 0.003": 1.9, "Muon 0.006": 1.8,
    "parts, AdamW": 1.9, "parts, Muon": 1.7,
}  # fmt: skip


def judged(monkeypatch: pytest.MonkeyPatch, spread: float, **changed: float) -> Findings:
    """The study where the rows end with these losses, each seed ``spread`` / 2 from the last."""
    config_of = modern._config

    def trained(config: Mapping[str, Any]) -> RowFigures:
        seed = config["seed"]
        (name,) = (name for name, row in ROWS.items() if config == config_of(row, TEXT, Size(), seed))
        return RowFigures(({**LOSSES, **changed}).get(name, 1.85) + spread / 2 * (seed - 2), 10, 5.0 + seed)

    monkeypatch.setattr(modern, "_train", trained)
    return modern.run(seed=1, minimal=False, report=ignore_report, text=TEXT)


def test_gains_are_on_the_best_rate_and_against_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, 0.09)
    assert [row[0] for row in found.rows] == list(ROWS)
    assert found.columns[3] == "gain over AdamW 0.003"
    assert found.rows[4][1:] == pytest.approx((1.8, 0.09, 0.2, 10, 7.0))
    assert [each.value for each in found.criteria] == pytest.approx([0.2, 0.1, 0.1, 0.2])
    assert [each.threshold for each in found.criteria] == pytest.approx([0.09] * 4)
    assert found.holds


def test_it_fails_where_the_spread_is_as_large_as_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.holds for each in judged(monkeypatch, 0.15).criteria] == [True, False, False, True]


def test_it_fails_where_a_rate_of_adamw_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not judged(monkeypatch, 0.01, **{"AdamW 0.001": 1.8}).criteria[0].holds


def test_rows_differ_from_the_plain_model_in_what_they_name() -> None:
    nets = {}
    for name, row in ROWS.items():
        config = load_config(modern._config(row, TEXT, modern.MINIMAL, 1))
        assert (config.train.optimizer, config.train.learning_rate) == (row.optimizer, row.rate)
        nets[name] = TASK.build(config, {"types": 11})
    layers = {}
    for name, net in nets.items():
        assert isinstance(net, LanguageModel)
        layers[name] = net.layers[0]
    mixers = {name: layer.mixer for name, layer in layers.items()}
    assert [name for name, mixer in mixers.items() if mixer.value_mix is not None] == ["… + value embeddings"]
    assert [name for name, mixer in mixers.items() if mixer.attention.gate is not None] == ["… + gate"]
    assert [name for name, mixer in mixers.items() if mixer.forget is not None] == ["… + forgetting, no rotary"]
    assert [name for name, mixer in mixers.items() if mixer.attention.heads == 2] == ["… + differential"]
    plain, parts = list(ROWS)[:6], list(ROWS)[6:]
    for name in parts:
        assert mixers[name].attention.query_norm is not None and layers[name].start_mix is not None
        assert (mixers[name].rotary is None) == (mixers[name].forget is not None)
        assert not layers[name].feed_forward.down.weight.any()
    assert all(mixers[name].attention.query_norm is None and mixers[name].rotary is None for name in plain)


def test_finished_rows_are_kept_until_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def trained(config: Mapping[str, Any]) -> RowFigures:
        calls.append(config)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return RowFigures(float(len(calls)), 1, 1.0)

    monkeypatch.setattr(modern, "_train", trained)
    text = tmp_path / "text"
    text.write_text("some text")
    rows = {name: ROWS[name] for name in LOSSES}

    def study(seed: int = 1) -> Findings:
        return modern.run(seed=seed, minimal=False, report=ignore_report, text=text, folder=tmp_path, rows=rows)

    with pytest.raises(KeyboardInterrupt):
        study()
    assert len(calls) == 8
    whole = study()
    runs = 3 * len(rows)
    assert len(calls) == 8 + runs - 7, "seven rows were done"
    assert study().rows == whole.rows and len(calls) == 1 + runs, "all are there"
    study(seed=2)
    assert len(calls) == 1 + runs + len(rows), "two of its seeds are"
    text.write_text("another text")
    study()
    assert len(calls) == 1 + runs + len(rows) + runs


def test_a_row_is_a_run_validated_at_its_end(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("to be or not to be, that is the question: " * 40)
    found = modern._train(modern._config(ROWS["… + value embeddings"], text, modern.MINIMAL, 1))
    assert 0 < found.nats < 4 and found.parameters > 0 and found.milliseconds > 0


def test_without_a_text_it_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match="requires a text") as refused:
        modern.run(seed=1, minimal=False, report=ignore_report)
    assert refused.value.help is not None and "--text" in refused.value.help

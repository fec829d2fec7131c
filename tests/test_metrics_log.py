"""``metrics.jsonl`` read back: updates and validations, torn and damaged lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import ModelError
from regard.runs.metrics_log import MetricsLog, MetricsRecord, read_updates, read_validations


def test_updates_and_validations_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.write({"step": 1, "epoch": 0, "loss": 2.5, "tokens": 10})
    log.write({"step": 2, "skipped": "not finite", "pairs": ["a:1"]})
    log.write({"step": 2, "validation": {"loss": 2.0, "bleu": 1}})
    log.write({"step": 3, "epoch": 0, "loss": 2.25, "tokens": 12})
    assert log.sync() == path.stat().st_size
    assert list(read_updates(path)) == [
        MetricsRecord(1, {"step": 1.0, "epoch": 0.0, "loss": 2.5, "tokens": 10.0}),
        MetricsRecord(3, {"step": 3.0, "epoch": 0.0, "loss": 2.25, "tokens": 12.0}),
    ]
    assert list(read_validations(path, strict=True)) == [MetricsRecord(2, {"loss": 2.0, "bleu": 1.0})]


DAMAGED = {
    "no step": b'{"validation": {"loss": 1}}',
    "a negative step": b'{"step": -1, "loss": 1, "validation": {"loss": 1}}',
    "a step too large to draw": b'{"step": 1' + b"0" * 40 + b', "loss": 1, "validation": {"loss": 1}}',
    "no table": b'{"step": 1, "validation": 5}',
    "a list": b'["loss", "validation"]',
    "no number": b'{"step": 1, "loss": "x", "validation": {"loss": "x"}}',
    "no JSON": b'{"step": 1, "loss": 1, "validation"',
    "not UTF-8": b'\xff "loss" "validation"',
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_left_out_or_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "validation": {"loss": 1}}\n' + line + b'\n{"step": 2, "validation": {"loss": 2}}\n')
    assert [record.step for record in read_validations(path)] == [1, 2]
    assert list(read_updates(path)) == []
    with pytest.raises(ModelError) as caught:
        list(read_validations(path, strict=True))
    assert caught.value.where == f"{path}:2"


def test_a_torn_last_line_and_a_missing_file_have_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert list(read_updates(path)) == list(read_validations(path, strict=True)) == []
    path.write_bytes(b'{"step": 1, "loss": 1, "validation": {"loss": 1}}')
    assert list(read_updates(path)) == list(read_validations(path, strict=True)) == []

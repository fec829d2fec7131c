"""``regard info``: parameters by formula, and what a run folder says."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest

from regard.core.figure import can_draw
from regard.errors import ConfigError, DataError, ModelError
from regard.inspection.curve_figure import draw_curves, panels
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.checkpoint import read_best
from regard.runs.metrics_log import read_validations
from regard.runs.parameter_counts import parameters_by_part
from regard.runs.run_folder import RunFolder

from .conftest import TinyRun


@pytest.mark.parametrize(("preset", "d", "ff", "layers"), [("tiny", 128, 256, 4), ("base", 512, 2048, 6)])
def test_parameters_of_a_preset_by_formula(regard, preset: str, d: int, ff: int, layers: int) -> None:
    found = json.loads(regard("info", preset, "--types", "1000", "--json").stdout)["parameters"]
    attention, feed_forward = layers * 4 * d * d, layers * (2 * d * ff + ff + d)
    assert found["embeddings"] == 1000 * d  # one matrix for all three
    assert found["encoder self-attention"] == found["decoder self-attention"] == attention
    assert found["decoder source attention"] == attention
    assert found["encoder feed-forward"] == found["decoder feed-forward"] == feed_forward
    assert found["encoder norms"] == layers * 2 * 2 * d
    assert found["decoder norms"] == layers * 3 * 2 * d
    assert found["all"] == sum(count for part, count in found.items() if part != "all")


def test_matrices_that_are_not_shared_count_each() -> None:
    config = ModelConfig(width=8, heads=2, feed_forward=4, layers=1, share="none")
    assert parameters_by_part(partial(build, config, source_types=10, target_types=20))["embeddings"] == 8 * (
        10 + 20 + 20
    )


def test_a_run_says_what_it_is(regard, tiny_run: TinyRun) -> None:
    lines = regard("info", tiny_run.path).stdout.splitlines()
    said = {line.split()[0]: line for line in lines}
    assert "transformer, 1+1 layers, width 32" in said["model"]
    assert "12 pieces" in said["vocabulary"]
    assert said["train-0"].endswith("train.lower: 2,000 pairs")
    assert said["plan"] == "plan        float32, 400 updates"
    assert said["checkpoints"] == "checkpoints 4, steps 100 to 400"
    assert said["best"].startswith("best        step ")
    assert said["validation"].startswith("validation  step 400: loss ")


def test_a_run_as_json(regard, tiny_run: TinyRun) -> None:
    import safetensors.torch

    found = json.loads(regard("info", tiny_run.path, "--json").stdout)
    saved = safetensors.torch.load_file(tiny_run.path / "checkpoints" / "step-000400" / "model.safetensors")
    assert found["parameters"]["all"] == sum(tensor.numel() for tensor in saved.values())
    assert found["config"]["model"]["encoder"]["width"] == 32
    assert found["corpora"]["valid-0"]["pairs"] == 40
    assert found["average"] is False


def test_a_run_whose_token_arrays_were_deleted(regard, tiny_copy: TinyRun) -> None:
    shutil.rmtree(tiny_copy.path / "data")
    assert regard("info", tiny_copy.path).exit_code == 0


@pytest.mark.parametrize("torn", ['{"step": 500, "validation": {"lo', '{"step": 500', "\0\0\0"])
def test_a_torn_last_line_of_the_metrics_is_left_out(regard, tiny_copy: TinyRun, torn: str) -> None:
    """What a power failure may leave; training cuts it off when it goes on."""
    with (tiny_copy.path / "metrics.jsonl").open("a") as file:
        file.write(torn)
    assert json.loads(regard("info", tiny_copy.path, "--json").stdout)["last_validation"]["step"] == 400


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", b'{"step": 1, "validation": {\n{"step": 2}\n'),
        ("metrics.jsonl", b'"validation"\n{"step": 2}\n'),
        ("metrics.jsonl", b'{"validation": 5}\n{"step": 2}\n'),
        ("metrics.jsonl", b'\xff\xfe "validation"\n{"step": 2}\n'),
        ("environment.json", b'{"regard": "0.1'),
        ("environment.json", b'{"regard": "0.1"}'),
        ("environment.json", b"\xff"),
        ("environment.json", b"[]"),
    ],
)
def test_a_damaged_file_is_named(regard, tiny_copy: TinyRun, name: str, content: bytes) -> None:
    (tiny_copy.path / name).write_bytes(content)
    error = regard("info", tiny_copy.path).exception
    assert isinstance(error, ModelError)
    assert name in error.what and error.where is not None and str(tiny_copy.path / name) in error.where


def test_neither_run_nor_preset(regard, tmp_path) -> None:
    assert isinstance(regard("info", "bass").exception, ConfigError)
    assert isinstance(regard("info", tmp_path / "none").exception, ModelError)
    assert isinstance(regard("info", tmp_path).exception, ModelError)


@pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed")
def test_training_curves_are_panels_with_every_validation(regard, tiny_run: TinyRun, tmp_path) -> None:
    from matplotlib.figure import Figure

    run, figure = RunFolder.open(tiny_run.path), Figure()
    draw_curves(figure, run)
    curves = {axes.get_title(): axes for axes in figure.axes if axes.get_visible()}
    assert next(iter(curves)) == "loss" and list(curves)[-1] == "learning rate"
    validations = list(read_validations(run.path / "metrics.jsonl"))
    (validated,) = [line for line in curves["loss"].lines if line.get_label() == "validation"]
    expected = [[validation.step, validation.figures["loss"]] for validation in validations]
    assert validated.get_xydata().tolist() == [pytest.approx(point) for point in expected]
    best = read_best(run.checkpoints)
    assert best is not None and f"best: {best.step}" in {line.get_label() for line in curves["loss"].lines}
    assert regard("info", tiny_run.path, "--draw", tmp_path / "a.svg").exit_code == 0
    assert "training · run · translation" in (tmp_path / "a.svg").read_text()
    for wrong in ("a.pdf", "a"):
        assert isinstance(regard("info", tiny_run.path, "--draw", tmp_path / wrong).exception, ConfigError)


def test_a_run_without_updates_has_no_curves(tiny_copy: TinyRun) -> None:
    (tiny_copy.path / "metrics.jsonl").unlink()
    with pytest.raises(DataError, match="no training curves"):
        panels(RunFolder.open(tiny_copy.path))

"""Networks with a fixed forward pass have equal outputs in ONNX, for every task and input, on other sizes than traced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")

import onnxruntime

from regard.core.task import Task, find_task
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.share.export_format import EXPORT_FORMATS, export_format
from regard.share.onnx_net import FILE, FORMAT, compare, obstacles, part_of, write
from regard.training.setup import prepare
from tests.laws import frames_task, images_task, sounds_task

SMALL = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8, "wide": False}
WINDOWS = {"long_texts": "windows", "max_length": 2}
LAYERS = {"blocks": [[8, 3, 1]], "position": "none", "width": 8}


class Case(NamedTuple):
    """A run: its task, changed sections of the sample of ``task``, and a task with another sample."""

    kind: str
    model: Mapping[str, Any] = {}
    data: Mapping[str, Any] = {}
    task: Task | None = None

    def prepared(self, folder: Path) -> tuple[Any, torch.nn.Module, Any]:
        """Return config, an untrained network whose weights are not 0, and codecs."""
        task = self.task or find_task(self.kind)
        sample = dict(task.sample(folder))
        tables = {"task": self.kind, "data": sample["data"] | self.data, "train": sample["train"]}
        config = load_config(tables | {"model": sample["model"] | {"wide": False} | self.model})
        data = prepare(RunFolder.create(folder / "run", config), log=lambda line: None)
        torch.manual_seed(1)
        net = task.build(config, data.spec).eval()
        with torch.no_grad():
            for weight in net.parameters():
                weight.add_(torch.randn_like(weight), alpha=0.1)
        return config, net, data.codecs

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple((self.task or find_task(self.kind)).sample_lines)


def two_series(folder: Path) -> dict[str, Any]:
    """Return the sample of forecasts with a second file, whose values are greater, and with a known covariate."""
    sample = find_task("forecasting").sample(folder)
    first = Path(sample["data"]["train"][0]["source"])
    header, *rows = first.read_text().splitlines()
    for name, factor in (("one", 1), ("two", 100)):
        lines = [
            ",".join([row.split(",")[0], *(str(factor * float(cell or 1)) for cell in row.split(",")[1:]), str(step % 5)])
            for step, row in enumerate(rows)
        ]
        (folder / f"{name}.csv").write_text("\n".join([f"{header},day", *lines]) + "\n")
    files = [str(folder / f"{name}.csv") for name in ("one", "two")]
    parts = {part: [{"source": file, "period": part} for file in files] for part in ("train", "valid")}
    return {**sample, "data": {**sample["data"], **parts, "known": ["day"]}}


CASES = {
    "text, mean": Case("classification", SMALL | {"pooling": "mean", "position": "rotary", "norm": "pre"}),
    "text, convolutional": Case("classification", {"encoder": {"kind": "convolutional", **LAYERS}}),
    "text, recurrent": Case(
        "classification", {"pooling": "last", "encoder": {"kind": "recurrent", "width": 8, "layers": 1}}
    ),
    "text in windows": Case("classification", SMALL, WINDOWS),
    "frames": Case("classification", {"encoder": {"input": {"patch": 3, "stride": 2}}}, task=frames_task.TASK),
    "sounds": Case("classification", task=sounds_task.TASK),
    "images": Case("classification", task=images_task.TASK),
    "tagging": Case("tagging", SMALL | {"affixes": 0}),
    "masked": Case("masked"),
    "next-item": Case("next-item"),
    "graphs": Case("graphs"),
    "nodes": Case("nodes"),
    "links": Case("links"),
    "forecasting": Case("forecasting"),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    config, net, codecs = case.prepared(tmp_path)
    form: Any = FORMAT.form_of(config)
    assert obstacles(form, config) == [] and FORMAT.fits(config)
    folder = tmp_path / "exported"
    write(form, net, codecs, folder)
    parity = compare(form, net, codecs, folder, case.lines)
    assert parity is not None and parity.same and parity.largest > 0, parity
    described = json.loads((folder / "config.json").read_text())
    session = onnxruntime.InferenceSession(str(folder / FILE))
    assert described["inputs"] == [tensor.name for tensor in session.get_inputs()] == list(described["shapes"])
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1.5)
    changed = compare(form, net, codecs, folder, case.lines)
    assert changed is not None and not changed.same, "the comparison can fail"

"""Networks with a fixed forward pass have equal outputs in ONNX, for every task, on other sizes than were traced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")

import onnxruntime

import regard
from regard.core.task import Task, find_task
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
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
        tables = {"task": self.kind, "data": sample["data"] | self.data, "train": sample.get("train", {})}
        without_wide = {} if self.kind == "forecasting" else {"wide": False}
        config = load_config(tables | {"model": sample["model"] | without_wide | self.model})
        data = prepare(RunFolder.create(folder / "run", config), log=lambda line: None)
        torch.manual_seed(1)
        net = task.build(config, data.spec).eval()
        with torch.no_grad():
            for weight in net.parameters():
                weight.add_(torch.randn_like(weight), alpha=0.1)
        return config, net, data.codecs

    def lines(self, form: Any) -> list[str]:
        """Return the lines of the task, and a few inputs of its data."""
        return [*(self.task or find_task(self.kind)).sample_lines, *islice(form.texts(), 3)]


def pairs(folder: Path) -> dict[str, Any]:
    """Return a sample of pairs of texts."""
    (folder / "pairs.tsv").write_text("a b\ta\tyes\nb a c\tb c\tno\nc\ta b c\tyes\n")
    corpus = [{"source": str(folder / "pairs.tsv")}]
    return {"data": {"train": corpus, "valid": corpus, "text": [1, 2], "label": 3}, "model": {}}


PAIRS = replace(find_task("classification"), sample=pairs, sample_lines=("a\tb c", "b a c\ta", "a b c\tb"))


def two_series(folder: Path) -> dict[str, Any]:
    """Return the sample of forecasts with a second file, whose values are greater, and with a known covariate."""
    sample = find_task("forecasting").sample(folder)
    first = Path(sample["data"]["train"][0]["source"])
    header, *rows = first.read_text().splitlines()
    for name, factor in (("one", 1), ("two", 100)):
        lines = [
            ",".join(
                [row.split(",")[0], *(str(factor * float(cell or 1)) for cell in row.split(",")[1:]), str(step % 5)]
            )
            for step, row in enumerate(rows)
        ]
        (folder / f"{name}.csv").write_text("\n".join([f"{header},day", *lines]) + "\n")
    files = [str(folder / f"{name}.csv") for name in ("one", "two")]
    parts = {part: [{"source": file, "period": part} for file in files] for part in ("train", "valid")}
    return {**sample, "data": {**sample["data"], **parts, "known": ["day"]}}


TWO_SERIES = replace(find_task("forecasting"), sample=two_series, sample_lines=())
TRACED = {
    "text": Case("classification", SMALL | {"pooling": "mean", "position": "rotary", "norm": "pre"}),
    "text, recurrent": Case(
        "classification", {"pooling": "last", "encoder": {"kind": "recurrent", "width": 8, "layers": 1}}
    ),
    "text in windows": Case("classification", SMALL, WINDOWS),
    "images": Case("classification", task=images_task.TASK),
    "masked": Case("masked"),
    "next-item": Case("next-item"),
    "graphs": Case("graphs"),
    "links": Case("links"),
    "forecasting": Case("forecasting", task=TWO_SERIES),
}
COMPUTED = TRACED | {
    "pairs apart": Case("classification", SMALL | {"pairs": "apart", "pooling": "mean"}, task=PAIRS),
    "tagging": Case("tagging", SMALL | {"affixes": 0}),
    "frames": Case("classification", {"encoder": {"input": {"patch": 3, "stride": 2}}}, task=frames_task.TASK),
    "frames, subsampled": Case("classification", {"encoder": {"input": {"subsample": 2}}}, task=frames_task.TASK),
    "sounds": Case("classification", task=sounds_task.TASK),
    "nodes": Case("nodes"),
    "numbers of graphs": Case("graphs", {"pooling": "max", "kind": "gcn"}),
    "one series": Case("forecasting", {"output": "gaussian", "channels": "together"}),
    "points": Case("forecasting", {"output": "point", "skip": "average"}, task=TWO_SERIES),
}


@pytest.mark.parametrize("name", TRACED)
def test_outputs_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    case = TRACED[name]
    config, net, codecs = case.prepared(tmp_path)
    form: Any = FORMAT.form_of(config)
    assert obstacles(form, config) == [] and FORMAT.fits(config)
    folder = tmp_path / "exported"
    write(form, net, codecs, folder)
    parity = compare(form, net, codecs, folder, case.lines(form))
    assert parity is not None and parity.same and parity.largest > 0, parity
    described = json.loads((folder / "config.json").read_text())
    session = onnxruntime.InferenceSession(str(folder / FILE))
    assert described["inputs"] == [tensor.name for tensor in session.get_inputs()] == list(described["shapes"])
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1.5)
    changed = compare(form, net, codecs, folder, case.lines(form))
    assert changed is not None and not changed.same, "the comparison can fail"


FACTS = {
    "TokenPart": {"pad", "unknown", "begin", "end", "types", "pieces_per_text"}, "MaskPart": {"types", "mask"},
    "ItemPart": {"types", "longest", "never"}, "FramePart": {"longest", "channels", "lengths"},
    "SoundPart": {"channels", "lengths", "sound"}, "PixelPart": {"height", "width", "channels"},
    "SeriesPart": {"back", "ahead", "columns", "numbers"}, "GraphPart": {"width", "nodes"},
    "NodePart": {"width", "id2label"}, "LinkPart": {"width"},
}  # fmt: skip


def require_described(part: Any, first: torch.Tensor) -> None:
    """``config.json`` describes the sizes and the numbers of the first input."""
    facts, shape = part.facts(), first.shape
    assert facts.keys() >= FACTS[type(part).__name__]
    if getattr(getattr(part, "field", None), "window", None) is not None:
        assert shape[2] == facts["window"] + 2 and shape[1] <= facts["windows"]  # and the symbols around a window
    if "types" in facts:
        assert int(first.max()) < facts["types"]
    if "lengths" in facts:
        assert shape[1] % facts["lengths"]["step"] == facts["lengths"]["first"] % facts["lengths"]["step"]
    sizes = {name: facts[name] for name in ("height", "width", "back", "channels") if name in facts}
    places = {"height": 1, "width": -1 if "height" not in facts else 2, "back": 1, "channels": -1}
    assert {name: shape[places[name]] for name in sizes} == sizes
    assert facts.get("never", [0, 1, 2, 3]) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", COMPUTED)
def test_steps_of_the_graph_are_those_of_the_fields(name: str, tmp_path: Path) -> None:
    """Standardization, patches, windows and padding of the graph give the outputs of rows that the field pads."""
    case = COMPUTED[name]
    config, net, codecs = case.prepared(tmp_path)
    form: Any = FORMAT.form_of(config)
    part = part_of(form, net, codecs)
    with torch.no_grad():
        comparisons = list(part.comparisons(case.lines(form)))
        assert any(float(expected.abs().max()) > 1e-3 for _, expected, _ in comparisons)
        for inputs, expected, answered in comparisons:
            require_described(part, inputs[0])
            assert [*map(torch.Tensor.dim, inputs)] == [*map(torch.Tensor.dim, part.example(0))]
            outputs = part(*inputs)
            outputs = outputs if answered is None else outputs[answered]
            torch.testing.assert_close(outputs, expected.to(outputs.dtype), rtol=1e-4, atol=1e-5)


def test_obstacles_name_the_settings() -> None:
    config: Any = load_config({
        "task": "classification", "data": {"train": []}, "model": SMALL | {"wide": True, "affixes": 100},
    })  # fmt: skip
    text = "; ".join(FORMAT.obstacles(config))
    assert "model.wide=false" in text and "model.affixes=0" in text
    for task, share in (("graphs", {}), ("next-item", {"share": "none"}), ("nodes", {}), ("links", {})):
        wide: Any = load_config({"task": task, "data": {"train": []}, "model": {"wide": True} | share})
        assert "model.wide=false" in "; ".join(FORMAT.obstacles(wide))


def test_fields_without_steps_are_refused(tmp_path: Path) -> None:
    class Other:
        pass

    config, net, codecs = Case("tagging", SMALL | {"affixes": 0}).prepared(tmp_path)
    form: Any = FORMAT.form_of(config)
    with pytest.raises(ConfigError, match=r"its inputs are Other"):
        part_of(form, net, codecs._replace(fields={"other": Other()}))


def test_a_run_is_exported_and_compared_on_its_own_data(tmp_path: Path) -> None:
    sample = frames_task.TASK.sample(tmp_path)
    model = sample["model"] | {"encoder": {"input": {"patch": 3, "stride": 2}}}
    training = {"steps": 1, "warmup": 0, "baseline": False}
    tables = {**sample, "task": "classification", "train": training, "model": model}
    run = regard.train(tables, folder=tmp_path / "run", reporter=())
    report = regard.export(run, tmp_path / "exported", to="onnx", sentences=5)
    assert report.message.startswith("outputs of 5 rows differ by at most"), report.message
    assert json.loads((tmp_path / "exported" / "parity.json").read_text())["rows"] == 5
    assert {path.name for path in (tmp_path / "exported").iterdir()} == {
        "config.json", FILE, "parity.json", "tokenizer",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="its input is frames"):
        regard.export(run, tmp_path / "other", to="transformers")

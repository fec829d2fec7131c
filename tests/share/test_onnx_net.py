"""Classifiers, taggers and masked models in ONNX have the logits of the run, for every encoder and pooling."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")

from regard.core.task_table import locate
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.config import load_config
from regard.share.onnx_net import FORMAT, compare, obstacles, write

SMALL = {"layers": 1, "width": 12, "heads": 2, "feed_forward": 16}
LAYERS = {"blocks": [[12, 3, 1]], "position": "none", "width": 12}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "classifier": ("classification", SMALL | {"pooling": "mean", "position": "rotary", "norm": "pre"}),
    "classifier, convolutional": ("classification", {"encoder": {"kind": "convolutional", **LAYERS}}),
    "classifier, recurrent": (
        "classification", {"pooling": "last", "encoder": {"kind": "recurrent", "width": 12, "layers": 1}}
    ),
    "tagger": ("tagging", SMALL),
    "masked": ("masked", SMALL),
}  # fmt: skip
LINES = ["the cat", "dog runs over a mat"]


def config_of(task: str, model: dict[str, Any]) -> Any:
    return load_config({"task": task, "model": model | {"wide": False}, "data": {"train": []}})


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    task, model = MODELS[name]
    config, tokenizer = config_of(task, model), train_tokenizer(LINES, TokenizerConfig(kind="word"))
    form: Any = FORMAT.form_of(config)
    assert obstacles(form, config) == []
    declared = locate(task).task()
    sizes = {key: len(tokenizer) if "types" in key else size for key, size in declared.small_spec.items()}
    torch.manual_seed(1)
    net = declared.build(config, sizes).eval()
    names = [f"label {number}" for number in range(9)]
    answer = SimpleNamespace(output_scale=(0.5, 0.25), class_names=names)
    codecs = SimpleNamespace(tokenizer=tokenizer, answer=answer)
    write(form, net, codecs, tmp_path)
    parity = compare(form, net, codecs, tmp_path, LINES)
    assert parity.same and parity.texts == 2 and parity.largest > 0, parity
    with torch.no_grad():
        next(iter(net.parameters())).mul_(3.0)
    assert not compare(form, net, codecs, tmp_path, LINES).same, "the comparison can fail"
    described = json.loads((tmp_path / "config.json").read_text())
    assert described["inputs"] == ["tokens", "valid"] and described["begin"] == 2
    assert json.loads((tmp_path / "pieces.json").read_text())[:4] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_obstacles_name_the_settings() -> None:
    config: Any = load_config({
        "task": "classification", "data": {"train": [], "long_texts": "windows"},
        "model": SMALL | {"wide": True, "affixes": 100, "pooling": "mean"},
    })  # fmt: skip
    text = "; ".join(FORMAT.obstacles(config))
    for setting in ("model.wide=false", "model.affixes=0", "data.long_texts=cropped"):
        assert setting in text

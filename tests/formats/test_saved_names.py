"""Checkpoints under the tensor names of format 1 load, resume and translate as those under the present names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.models.saved_names import RENAMED, current_name, current_names, format_1_name
from regard.runs import checkpoint, checkpoint_files
from regard.runs.averaging import average_run
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.setup import set_up
from regard.training.trainer import Trainer

from .make import Silent

MODELS: dict[str, dict[str, Any]] = {
    "gated": {"width": 8, "heads": 2, "feed_forward": 8, "activation": "swiglu", "encoder_layers": 1,
              "decoder_layers": 1},
    "convolutional": {"kind": "convolutional", "width": 8, "encoder_layers": 1, "decoder_layers": 1},
    "fixed-context": {"kind": "recurrent", "width": 8, "encoder_layers": 1, "decoder_layers": 1,
                      "decoder": {"order": "none"}},
}  # fmt: skip
each_model = pytest.mark.parametrize("name", MODELS)


def config(name: str, folder: Path) -> dict[str, Any]:
    train = {"steps": 4, "batch_tokens": 64, "learning_rate": 0.01, "warmup": 2, "save_every": 2, "threads": 1,
             "precision": "float32"}  # fmt: skip
    data = {"train": [{"source": str(folder / "a.tsv")}], "tokenizer": {"kind": "word"}}
    return {"model": MODELS[name] | {"dropout": 0.1}, "data": data, "train": train, "seed": 3}


def trained(run: RunFolder, *, resume: bool, until: int) -> Trainer:
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=Silent(),
        interrupted=lambda: trainer.progress.step == until,
    )  # fmt: skip
    assert trainer.resume() == resume
    trainer.fit()
    return trainer


def write_format_1(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint again as format 1 had it."""
    found = checkpoint.load(path)
    old = {group: {format_1_name(name): x for name, x in tensors.items()} for group, tensors in found.groups.items()}
    assert old["model"].keys() != found.groups["model"].keys(), "this model has no renamed tensor"
    shutil.rmtree(path)
    with monkeypatch.context() as earlier:
        earlier.setattr(checkpoint_files, "FORMAT", 1)
        checkpoint.save(path.parent, found.step, old, found.state, keep=9)
    assert json.loads((path / "manifest.json").read_bytes())["format"] == 1


@each_model
def test_a_run_of_format_1_goes_on_with_the_same_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"a{n % 7} b{n % 5}\tB{n % 5} A{n % 7}\n" for n in range(40)))
    run = RunFolder.create(tmp_path / "new", load_config(config(name, tmp_path)))
    trained(run, resume=False, until=2)
    old = RunFolder.open(shutil.copytree(run.path, tmp_path / "old"))
    write_format_1(checkpoint.step_path(old.checkpoints, 2), monkeypatch)
    average_run(old, last=1)
    shapes = [checkpoint.shapes(checkpoint.step_path(each.checkpoints, 2), "model") for each in (run, old)]
    assert shapes[0] == shapes[1]
    models = [trained(each, resume=True, until=9).net.state_dict() for each in (run, old)]
    for key, tensor in models[0].items():
        assert torch.equal(tensor, models[1][key]), key
    one, other = (regard.load(each.path, checkpoint="last")("a1 b2") for each in (run, old))
    assert one.text == other.text and one.score == other.score
    assert regard.load(old.path, checkpoint="2").model.state_dict().keys() == models[0].keys()


def test_names_are_translated_once_and_back() -> None:
    assert current_name("exp_avg.decoder.layers.0.feed_forward.enter.weight") == (
        "exp_avg.decoder.layers.0.feed_forward.up.weight"
    )
    assert current_name("decoder.entered.weight") == "decoder.entered.weight", "whole components alone"
    for old, new in RENAMED.items():
        assert current_name(f"{old}.bias") == f"{new}.bias" == current_name(f"{new}.bias")
        assert format_1_name(f"{new}.bias") == f"{old}.bias"
    assert current_names({"decoder.gist.weight": 1, "encoder.norm.weight": 2, "exp_avg.output_bias": 3}) == {
        "decoder.summary_proj.weight": 1, "encoder.norm.weight": 2, "exp_avg.head.bias": 3,
    }  # fmt: skip

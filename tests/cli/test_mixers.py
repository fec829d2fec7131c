"""Mixers in the place of self-attention through the command line: train, evaluate, generate, resume; and bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import ConfigError

TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 12
MEMORY = {"memory": 8, "segment": 8}
MIXERS: dict[str, dict[str, Any]] = {
    "hashed": {"kind": "hashed", "buckets": 4, "chunk": 4, "rounds": 2},
    "segment-memory": {"kind": "segment-memory", **MEMORY},
    "compressive": {"kind": "compressive", **MEMORY, "compressed": 4, "rate": 2},
    "global-local": {"kind": "global-local", "radius": 3, "first": 2},
    "linear": {"kind": "linear", "chunk": 4},
    "mamba2": {"kind": "mamba2", "state": 4, "chunk": 4},
    "sinks": {"kind": "dot", "neighborhood": 3, "sinks": 2},
}
REMEMBER = ("segment-memory", "compressive")


def config(folder: Path, mixer: dict[str, Any]) -> Path:
    """A config file over a text of a few lines."""
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    inline = ", ".join(f"{key} = {json.dumps(value)}" for key, value in mixer.items())
    source = json.dumps(str(folder / "book.txt"))
    order = 'order = "lanes"' if mixer["kind"] in REMEMBER else ""
    file = folder / "tiny.toml"
    file.write_text(
        f"""
name = "tiny"
task = "language-model"
[[data.train]]
source = {source}
share = [0.0, 0.8]
[[data.valid]]
source = {source}
share = [0.8, 1.0]
[data]
context = 8
{order}
[data.tokenizer]
kind = "character"
[model]
layers = 1
width = 8
heads = 2
feed_forward = 8
dropout = 0.0
mixer = {{ {inline} }}
[train]
steps = 4
batch_tokens = 32
threads = 1
shards = 1
precision = "float32"
save_every = 2
validate_every = 4
keep = 9
""",
        encoding="utf-8",
    )
    return file


def trained(regard: Any, folder: Path, mixer: dict[str, Any]) -> Any:
    return regard("train", "--runs", folder / "runs", config(folder, mixer))


def weights(run: Path) -> dict[str, Any]:
    return load_file(run / "checkpoints" / "step-000004" / "model.safetensors")


@pytest.mark.parametrize("name", MIXERS)
def test_train_evaluate_generate_and_resume(regard, tmp_path: Path, name: str) -> None:
    """A run that lost its last checkpoint ends in the same bits; what it generates goes by the seed."""
    assert trained(regard, tmp_path, MIXERS[name]).exit_code == 0
    run = tmp_path / "runs" / "tiny"
    measured = json.loads(regard("evaluate", run, tmp_path / "book.txt", "--json").stdout)
    assert 1 < measured["figures"]["perplexity"] < 40
    texts = [regard("generate", run, "--prompt", "the ", "--length", 6, "--seed", seed).stdout for seed in (1, 1)]
    assert texts[0].startswith("the ") and texts[0] == texts[1]
    whole = weights(run)
    shutil.rmtree(run / "checkpoints" / "step-000004")
    assert regard("train", "--resume", run).exit_code == 0
    again = weights(run)
    assert whole.keys() == again.keys() and all(torch.equal(whole[each], again[each]) for each in whole)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "hashed": ({"buckets": 3}, "buckets must be even numbers"),
    "segment-memory": ({"segment": 0}, "segment ≥ 1"),
    "compressive": ({"rate": 3}, "rate must divide segment = 8, got 3"),
    "global-local": ({"random": 1}, "radius and first only"),
    "linear": ({"chunk": 0}, "chunk must be at least 1"),
    "mamba2": ({"state": 0}, "expand, state, kernel and chunk must be 1 or more"),
    "sinks": ({"neighborhood": None}, "sinks require a neighborhood"),
}


@pytest.mark.parametrize("name", MIXERS)
def test_bad_options_are_told_before_anything_is_read(regard, tmp_path: Path, name: str) -> None:
    options, told = REFUSED[name]
    mixer = {key: value for key, value in (MIXERS[name] | options).items() if value is not None}
    refused = trained(regard, tmp_path, mixer).exception
    assert isinstance(refused, ConfigError) and told in f"{refused.what} {refused.why}"
    assert not (tmp_path / "runs" / "tiny" / "checkpoints").exists()
    unknown = trained(regard, tmp_path, MIXERS[name] | {"bucketz": 4}).exception
    assert isinstance(unknown, ConfigError) and "bucketz" in str(unknown)


def test_more_memory_than_was_trained_is_taken_in_whole_segments(regard, tmp_path: Path) -> None:
    """And a model without a memory says that it has none."""
    assert trained(regard, tmp_path, MIXERS["compressive"]).exit_code == 0
    run, text = tmp_path / "runs" / "tiny", tmp_path / "book.txt"
    assert regard("evaluate", run, text, "--memory", 16).exit_code == 0
    refused = regard("evaluate", run, text, "--memory", 12).exception
    assert isinstance(refused, ConfigError) and refused.why == "memory must be a multiple of segment = 8, got 12"
    shutil.rmtree(run)
    assert trained(regard, tmp_path, MIXERS["linear"]).exit_code == 0
    refused = regard("evaluate", run, text, "--memory", 16).exception
    assert isinstance(refused, ConfigError) and refused.what == "`memory` does not apply to this model"

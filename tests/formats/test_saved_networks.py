"""Configs of format 1, as runs of every kind saved them, still mean the same network: names, shapes and outputs.

``networks_v1.jsonl`` was written by the last version that saved format 1: what its config had beside the defaults, how
many parameters the network had, and logits of one column after each parameter was filled by its present name.
"""

from __future__ import annotations

import json
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.core.task import find_task
from regard.runs.config import dump_config, load_config
from regard.runs.run_config import RunConfig

CASES = list(map(json.loads, Path(__file__).with_name("networks_v1.jsonl").read_text().splitlines()))
# A saved config had every key: those of all kinds of sides, whatever kinds there were.
WRITTEN: dict[str, dict[str, Any]] = {
    "translation": {
        "kind": "transformer", "encoder": {"kind": "transformer"}, "decoder": {"kind": "transformer"},
        "encoder_layers": 6, "decoder_layers": 6, "width": 512, "feed_forward": 2048, "activation": "relu", "heads": 8,
        "attention_bias": False, "dropout": 0.1, "attention_dropout": 0.0, "feed_forward_dropout": 0.0, "norm": "post",
        "normalisation": "layer", "longest": 1024, "share": "all", "output_bias": False,
        "position": {"kind": "sinusoidal"}, "self_attention": {"kind": "dot"}, "cross_attention": {"kind": "dot"},
    },
    "language-model": {
        "activation": "gelu", "dropout": 0.0, "attention_dropout": 0.0, "feed_forward_dropout": 0.0, "norm": "pre",
        "normalisation": "layer", "share": "all", "init_std": 0.02,
        "position": {"kind": "rotary", "layout": "interleaved", "base": 10000.0}, "self_attention": {"kind": "dot"},
    },
}  # fmt: skip
SOURCE, TARGET = torch.tensor([[4, 5, 6, 7, 3], [8, 4, 3, 0, 0]]), torch.tensor([[2, 7, 8], [2, 4, 5]])


def saved(case: dict[str, Any]) -> RunConfig:
    data = {"train": [{"source": "a.tsv"}]} | ({"context": 40} if case["kind"] == "language-model" else {})
    model = WRITTEN[case["kind"]] | case["model"]
    return load_config({"format": 1, "task": {"kind": case["kind"]}, "data": data, "model": model}, saved=True)


def built(config: RunConfig) -> Any:
    """The network in float64, each parameter filled by its name alone."""
    sizes = ("types",) if config.task.kind == "language-model" else ("source_types", "target_types")
    net: nn.Module = find_task(config.task.kind).build(config, dict.fromkeys(sizes, 9)).double().eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            numbers = torch.arange(parameter.numel(), dtype=torch.float64) + zlib.crc32(name.encode()) % 1000
            parameter.copy_(numbers.sin().mul(0.5).reshape(parameter.shape))
    return net


def last_logits(net: Any, kind: str) -> Tensor:
    with torch.no_grad():
        if kind == "language-model":
            return net.head(net(TARGET, Span.without_padding(TARGET)).features)[1, -1, -3:]
        features = net(SOURCE, Span.of(SOURCE > 0), TARGET, Span.without_padding(TARGET))
        return net.head(features)[1, -1, -3:]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_config_of_format_1_means_the_same_network(case: dict[str, Any]) -> None:
    config = saved(case)
    again = load_config(tomllib.loads(dump_config(config)), saved=True)
    for each in (config, again):
        net = built(each)
        assert len(list(net.parameters())) == case["parameters"]
        assert sum(parameter.numel() for parameter in net.parameters()) == case["values"]
        assert last_logits(net, case["kind"]).tolist() == pytest.approx(case["logits"], abs=2e-4)

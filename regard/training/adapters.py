"""Low-rank adapters of a network that starts from trained weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from torch import nn

from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.models.lora import LowRankLinear
from regard.models.lora_config import LoraConfig
from regard.runs.run_config import RunConfig
from regard.training.reading_part import AFFIXES, ENCODER

IN_LAYERS = re.compile(r"(?:^|\.)layers\.\d+\.")
ALL, ATTENTION = "all", "attention"  # names of groups of linear layers
OF_ATTENTION = re.compile(r"\.(?:mixer|reader)\.")


def add_adapters(config: RunConfig, net: nn.Module) -> None:
    """Freeze the weights that ``net`` starts with, and add an adapter to each target, if the config has ``lora``.

    Raises ConfigError if no linear layer is a target, or one is smaller than the rank.
    """
    lora, start = config.lora, config.start
    if lora is None or start is None:
        return
    prefix = ENCODER if start.part == "encoder" else ""
    targets = _targets(net, lora, prefix)
    for name, parameter in net.named_parameters(remove_duplicate=False):
        if start.part == "all" or (name.startswith(prefix) and not name.endswith(AFFIXES)):
            parameter.requires_grad_(False)
    adapted: dict[int, LowRankLinear] = {}  # a layer may occur several times in a network
    for name, layer in targets.items():
        if id(layer) not in adapted:
            adapted[id(layer)] = LowRankLinear(layer, rank=lora.rank, scale=lora.scale)
        parent, _, child = name.rpartition(".")
        setattr(net.get_submodule(parent), child, adapted[id(layer)])


def _targets(net: nn.Module, lora: LoraConfig, prefix: str) -> dict[str, nn.Linear]:
    """Return the linear layers that get an adapter, by name."""
    layers = {
        name: module
        for name, module in net.named_modules(remove_duplicate=False)
        if type(module) is nn.Linear and name.startswith(prefix) and IN_LAYERS.search(name)
    }
    _require_names(lora.targets, layers)
    chosen = {name: layer for name, layer in layers.items() if _is_target(name, lora.targets)}
    if not chosen:
        raise ConfigError(
            "model.lora has no target in this network",
            where="model.lora.targets",
            why="adapters need linear layers in the layers of the part that training starts from",
            help="remove model.lora to train all weights",
        )
    small = min(chosen, key=lambda name: min(chosen[name].weight.shape))
    if lora.rank > (limit := min(chosen[small].weight.shape)):
        rows, columns = chosen[small].weight.shape
        raise ConfigError(
            f"model.lora.rank cannot be {lora.rank}",
            where="model.lora.rank",
            why=f"the matrix of {small} is {rows} × {columns}, so the rank of its update is at most {limit}",
            help=f"--set model.lora.rank={limit}, or name larger layers in model.lora.targets",
        )
    return chosen


def _is_target(name: str, targets: Collection[str]) -> bool:
    in_attention = OF_ATTENTION.search(name) is not None
    return ALL in targets or (ATTENTION in targets and in_attention) or name.rpartition(".")[2] in targets


def _require_names(names: Iterable[str], layers: Iterable[str]) -> None:
    """Raise ConfigError for a name that no linear layer has."""
    known = [ALL, ATTENTION, *dict.fromkeys(name.rpartition(".")[2] for name in layers)]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"no linear layer of this network is called {name}",
                where="model.lora.targets",
                why=f"it must be one of {', '.join(known)}",
                help=did_you_mean(name, known) or "--set model.lora.targets=all",
            )

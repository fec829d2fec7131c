"""The weights of a network that training changes: all of them, those that are not frozen, or low-rank adapters."""

from __future__ import annotations

from functools import partial

from torch import nn

from regard.core.wording import pluralize
from regard.models.origin_config import EncoderStart
from regard.runs.run_config import RunConfig
from regard.training.adapted_names import AdaptedNames
from regard.training.adapters import add_adapters
from regard.training.reading_part import freeze


def set_trainable(config: RunConfig, net: nn.Module) -> None:
    """Freeze the weights that the config names, and add its adapters.

    Raises ConfigError for adapters that the network cannot have.
    """
    for encoder in _encoders(config):
        freeze(net, encoder)
    add_adapters(config, net)


def _encoders(config: RunConfig) -> list[EncoderStart]:
    sides = [getattr(net_config, "encoder", None) for net_config in map(partial(getattr, config), config.nets())]
    return [side for side in sides if side is not None]


def trainable_count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def parameter_count(net: nn.Module) -> int:
    """Return the number of weights of a network after training, whose adapters are merged."""
    return sum(p.numel() for p in net.parameters()) - AdaptedNames(net).additional


def trainable_line(config: RunConfig, net: nn.Module) -> str | None:
    """Return a line about frozen and trained weights; None if the config freezes none."""
    trainable = pluralize(trainable_count(net), "weight")
    frozen = sum(p.numel() for p in net.parameters() if not p.requires_grad)
    if config.lora is not None:
        matrices = pluralize(len(AdaptedNames(net).layers), "matrix", "matrices")
        return f"LoRA of rank {config.lora.rank} in {matrices}: {trainable} trainable, {frozen:,} frozen"
    if all(encoder.frozen == "none" for encoder in _encoders(config)):
        return None
    return f"{pluralize(frozen, 'encoder weight')} frozen, {trainable} trainable"

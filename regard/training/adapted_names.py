"""Weights of a network with low-rank adapters, and those of its checkpoints.

A checkpoint has merged weights under the names of the network without adapters, so everything that reads checkpoints
sees an ordinary network. Frozen matrices and adapters are saved with the state of the optimizer, to resume with equal
bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.models.lora import LowRankLinear, merged
from regard.training.row_parts import own_rows, shard_like, whole

SAVED = "adapter."  # prefix of adapters and their frozen matrices among the tensors of the optimizer


class AdaptedNames:
    """Names and values of the weights of a network with adapters, and those of the same network without adapters.

    Args:
        net: the network; one without adapters has equal names in checkpoints.
    """

    def __init__(self, net: nn.Module) -> None:
        self.layers = {name: part for name, part in net.named_modules() if isinstance(part, LowRankLinear)}
        self._adapters = [f"{name}.{own}" for name in self.layers for own in ("lora_a", "lora_b")]
        self._plain = {
            f"{name}.base.{own}": f"{name}.{own}"
            for name, layer in self.layers.items()
            for own, _ in layer.base.named_parameters()
        }

    @property
    def additional(self) -> int:
        """The number of weights that the network without adapters does not have."""
        return sum(layer.lora_a.numel() + layer.lora_b.numel() for layer in self.layers.values())

    def own(self, plain: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights of the network without adapters under the names of the network with adapters."""
        names = {plain_name: name for name, plain_name in self._plain.items()}
        return {names.get(name, name): tensor for name, tensor in plain.items()}

    @torch.no_grad()
    def merged(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of the network without adapters: W + s B A under the name of W.

        If ranks shard the weights, all must call this, and each returns its rows.
        """
        adapters = {*self._adapters}
        plain = {self._plain.get(name, name): tensor for name, tensor in weights.items() if name not in adapters}
        for name, layer in self.layers.items():
            weight = weights[f"{name}.base.weight"]
            a, b = (weights[f"{name}.{own}"] for own in ("lora_a", "lora_b"))
            plain[f"{name}.weight"] = shard_like(merged(own_rows(weight), whole(a), own_rows(b), layer.scale), weight)
        return plain

    def parts(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors that ``merged`` has no more, by their names in a checkpoint."""
        return {f"{SAVED}{name}": weights[name] for name in self._unmerged()}

    def restored(self, plain: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of the network with adapters, from those of ``merged`` and ``parts``.

        Raises KeyError for a missing name.
        """
        return self.own(plain) | {name: saved[f"{SAVED}{name}"] for name in self._unmerged()}

    def _unmerged(self) -> list[str]:
        return [*(f"{name}.base.weight" for name in self.layers), *self._adapters]

"""Rates and unfreezing by layer, for networks whose lower layers are already trained.

Layer-wise rates multiply the learning rate by decay^k, where k is the number of layers above (Clark et al. 2020, §A.1).
Gradual unfreezing trains the output layer first, then one more layer from the top after each interval (Howard and Ruder
2018, §3.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

LAYER = re.compile(r"(?:^|(.*)\.)layers\.(\d+)\.")
EMBEDDING = re.compile(r"(?:^|(.*)\.)(?:embedding|input_proj)\.")


class LayerRates:
    """The factor of the learning rate, and the first update, of each parameter.

    Args:
        names: of the parameters.
        decay: factor for each layer above.
        unfreeze_every: updates after which the next lower layer is trained, too; None: all are trained from the start.
    """

    def __init__(self, names: Sequence[str], *, decay: float = 1.0, unfreeze_every: int | None = None) -> None:
        self.layers_above = _layers_above(names)
        self.factors = [decay ** (above or 0) for above in self.layers_above]
        every = unfreeze_every or 0
        self._first = [0 if above is None else every * (above + 1) for above in self.layers_above]

    def trained(self, number: int | None) -> list[bool]:
        """Return whether each parameter is trained by the update with this number, from 1; None: all are."""
        return [number is None or number > first for first in self._first]


def _layers_above(names: Sequence[str]) -> list[int | None]:
    """Return the number of layers above each parameter within its stack; None for an output layer or a last norm."""
    matches = [LAYER.match(name) for name in names]
    depths: dict[str, int] = {}
    for match in matches:
        if match:
            stack = match[1] or ""
            depths[stack] = max(depths.get(stack, 0), int(match[2]) + 1)
    above: list[int | None] = []
    for name, match in zip(names, matches, strict=True):
        table = EMBEDDING.match(name)
        if match:
            above.append(depths[match[1] or ""] - 1 - int(match[2]))
        else:
            above.append(depths.get(table[1] or "") if table else None)
    return above


def split_groups(
    optimizers: Iterable[torch.optim.Optimizer], weights: Sequence[Tensor], factors: Sequence[float]
) -> None:
    """Divide the groups of optimizers into groups of weights with equal factors, and store the ``factor`` of each.

    A group whose weights have equal factors is unchanged.
    """
    by_weight = {id(weight): factor for weight, factor in zip(weights, factors, strict=True)}
    for optimizer in optimizers:
        groups = []
        for group in optimizer.param_groups:
            for factor in dict.fromkeys(by_weight[id(weight)] for weight in group["params"]):
                own = [weight for weight in group["params"] if by_weight[id(weight)] == factor]
                groups.append(group | {"params": own, "factor": factor})
        optimizer.param_groups[:] = groups

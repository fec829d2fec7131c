"""Costs of a layer as it runs: operations, seconds, bytes, and dependencies between positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

Function = Callable[[Tensor], Tensor]  # (1, n, d) -> (1, n, d)
PRODUCTS = frozenset(
    getattr(torch.ops.aten, name) for name in ("mm", "addmm", "bmm", "baddbmm", "convolution", "mv", "addmv")
)


def operations(forward: Function, n: int, d: int) -> int:
    """Count the floating-point operations of all matrix products and convolutions, as torch counts them."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        forward(torch.randn(1, n, d))
    return int(counter.get_total_flops())


def seconds(forward: Function, n: int, d: int, *, repeats: int) -> float:
    """Return the median seconds of forward passes, after one that warms up."""
    x, taken = torch.randn(1, n, d), []
    with torch.no_grad():
        for _ in range(repeats + 1):
            began = time.perf_counter()
            forward(x)
            taken.append(time.perf_counter() - began)
    return median(taken[1:])


def bytes_kept(forward: Function, n: int, d: int) -> int:
    """Count the bytes kept for the backward pass, parameters included; shared memory counts once."""
    kept: dict[int, int] = {}
    held = []  # keeps storages alive, so that no address is reused

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held.append(storage)
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward(torch.randn(1, n, d, requires_grad=True))
    return sum(kept.values())


class _Depths(TorchDispatchMode):
    """Tracks the depth of every tensor: the number of consecutive products that led to it."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}
        self.held: list[Any] = []  # keeps tensors alive, so that no id is reused

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        depth = max((self.depths.get(id(each), 0) for each in tree_leaves((args, kwargs))), default=0)
        for each in tree_leaves(made):
            self.depths[id(each)] = depth + (function.overloadpacket in PRODUCTS)
            self.held.append(each)
        return made


def products_in_a_row(forward: Function, n: int, d: int) -> int:
    """Return the longest chain of dependent products, which no parallel machine can shorten."""
    with torch.no_grad(), _Depths() as depths:
        y = forward(torch.randn(1, n, d))
    return depths.depths[id(y)]


def sees(forward: Function, n: int, d: int) -> Tensor:
    """Return which position depends on which, (n, n): where the Jacobian, by autograd, is not zero."""
    x = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    slopes = [torch.autograd.grad(each, x, retain_graph=True)[0][0] for each in forward(x)[0].sum(1)]
    return torch.stack(slopes).abs().sum(2) > 0


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of the power law through the values, by least squares over logarithms."""
    x, y = (torch.tensor(each, dtype=torch.float64).log() for each in (sizes, values))
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())

"""Measured costs of a layer: operations, seconds, bytes, and dependencies between positions."""

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
    """Return the floating-point operations of all matrix products and convolutions, counted by torch."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        forward(torch.randn(1, n, d))
    return int(counter.get_total_flops())


def seconds(forward: Function, n: int, d: int, *, repeats: int) -> float:
    """Return the median seconds of forward passes, after one warm-up pass."""
    x, durations = torch.randn(1, n, d), []
    with torch.no_grad():
        for _ in range(repeats + 1):
            start = time.perf_counter()
            forward(x)
            durations.append(time.perf_counter() - start)
    return median(durations[1:])


def bytes_kept(forward: Function, n: int, d: int) -> int:
    """Return the bytes saved for the backward pass, including parameters; shared memory counts once."""
    saved: dict[int, int] = {}
    held = []  # references keep storages alive, because a freed address could be reused

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        held.append(storage)
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward(torch.randn(1, n, d, requires_grad=True))
    return sum(saved.values())


class _Depths(TorchDispatchMode):
    """Mode that records the depth of every tensor: the number of consecutive products before it."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}
        self.held: list[Any] = []  # references keep tensors alive, because a freed id could be reused

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = function(*args, **(kwargs or {}))
        depth = max((self.depths.get(id(tensor), 0) for tensor in tree_leaves((args, kwargs))), default=0)
        for tensor in tree_leaves(outputs):
            self.depths[id(tensor)] = depth + (function.overloadpacket in PRODUCTS)
            self.held.append(tensor)
        return outputs


def products_in_a_row(forward: Function, n: int, d: int) -> int:
    """Return the length of the longest chain of dependent products, which parallel hardware cannot shorten."""
    with torch.no_grad(), _Depths() as depths:
        y = forward(torch.randn(1, n, d))
    return depths.depths[id(y)]


def sees(forward: Function, n: int, d: int) -> Tensor:
    """Return a mask (n, n) of the inputs on which each output depends: where the Jacobian is not zero."""
    x = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    slopes = [torch.autograd.grad(output, x, retain_graph=True)[0][0] for output in forward(x)[0].sum(1)]
    return torch.stack(slopes).abs().sum(2) > 0


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of a power law, fitted to the logarithms of the values by least squares."""
    x, y = (torch.tensor(numbers, dtype=torch.float64).log() for numbers in (sizes, values))
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())

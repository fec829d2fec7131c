"""Laws: named checks that raise, each with the cases to which it applies; and comparisons for them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from regard.core.state import State, leaves
from regard.core.tensors import shared_names
from regard.testing.draw import Draw

Case = TypeVar("Case")


@dataclass(frozen=True)
class Law:
    """Named check: ``check(case, draw)`` raises ``AssertionError`` where the law is broken."""

    name: str
    check: Callable[[Any, Draw], None]
    applies: Callable[[Any], bool]


def law(
    table: list[Law], *, applies: Callable[[Any], bool] = lambda case: True
) -> Callable[[Callable[[Case, Draw], None]], Callable[[Case, Draw], None]]:
    """Decorator that adds a check to a table of laws, under the name of the function."""

    def add(check: Callable[[Case, Draw], None]) -> Callable[[Case, Draw], None]:
        table.append(Law(check.__name__, check, applies))
        return check

    return add


def run_laws(laws: Sequence[Law], case: Any, *, trials: int, seed: int) -> list[str]:
    """Check every law that applies, ``trials`` times, and return the names."""
    held = [each for each in laws if each.applies(case)]
    for each in held:
        for trial in range(trials):
            try:
                each.check(case, Draw(random.Random(seed + trial)))
            except AssertionError as broken:
                raise AssertionError(f"the law {each.name!r} is broken (seed {seed + trial}): {broken}") from broken
    return [each.name for each in held]


def ready(module: nn.Module) -> Any:
    """Copy in float64 and evaluation mode, without dropout."""
    return copy.deepcopy(module).to(torch.float64).eval()


def reloaded(module: nn.Module) -> Any:
    """Copy whose tensors were zeroed and read back from the bytes of a safetensors file."""
    tensors = module.state_dict()
    shared = shared_names(tensors)  # a module that several layers hold is written once
    data = save({name: tensor.contiguous() for name, tensor in tensors.items() if name not in shared})
    other = copy.deepcopy(module)
    for tensor in other.state_dict().values():
        tensor.zero_()
    read = load(data)
    other.load_state_dict(read | {name: read[first] for name, first in shared.items()})
    return other


def same(actual: Tensor, expected: Tensor, what: str, *, tolerance: float = 1e-10) -> None:
    """Assert that two tensors are close; ``what`` names them in the message."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}")


def same_state(actual: State, expected: State, what: str) -> None:
    """Assert that two states are close, leaf by leaf; not for caches, whose unused slots may differ."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        same(one, other, what)

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
    """A named check.

    Attributes:
        name: its name.
        check: ``check(case, draw)`` raises ``AssertionError`` if the law is violated.
        applies: (case) → whether the law applies.
    """

    name: str
    check: Callable[[Any, Draw], None]
    applies: Callable[[Any], bool]


def law(
    table: list[Law], *, applies: Callable[[Any], bool] = lambda case: True
) -> Callable[[Callable[[Case, Draw], None]], Callable[[Case, Draw], None]]:
    """Return a decorator that adds a check to a table of laws, with the name of the function."""

    def add(check: Callable[[Case, Draw], None]) -> Callable[[Case, Draw], None]:
        table.append(Law(check.__name__, check, applies))
        return check

    return add


def run_laws(laws: Sequence[Law], case: Any, *, trials: int, seed: int) -> list[str]:
    """Check every applicable law ``trials`` times, and return their names."""
    applicable = [one for one in laws if one.applies(case)]
    for one in applicable:
        for trial in range(trials):
            try:
                one.check(case, Draw(random.Random(seed + trial)))
            except AssertionError as failure:
                raise AssertionError(f"the law {one.name!r} is broken (seed {seed + trial}): {failure}") from failure
    return [one.name for one in applicable]


def ready(module: nn.Module) -> Any:
    """Return a copy in float64 and evaluation mode, without dropout."""
    return copy.deepcopy(module).to(torch.float64).eval()


def reloaded(module: nn.Module) -> Any:
    """Return a copy whose tensors were zeroed and restored from the bytes of a safetensors file."""
    tensors = module.state_dict()
    shared = shared_names(tensors)  # shared modules are saved once
    data = save({name: tensor.contiguous() for name, tensor in tensors.items() if name not in shared})
    copied = copy.deepcopy(module)
    for tensor in copied.state_dict().values():
        tensor.zero_()
    loaded = load(data)
    copied.load_state_dict(loaded | {name: loaded[first] for name, first in shared.items()})
    return copied


def same(actual: Tensor, expected: Tensor, what: str, *, tolerance: float = 1e-10) -> None:
    """Assert that two tensors are close; ``what`` names them in the message."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}")


def same_state(actual: State, expected: State, what: str) -> None:
    """Assert that two states are close, leaf by leaf; not for caches, whose unused slots may differ."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        same(one, other, what)

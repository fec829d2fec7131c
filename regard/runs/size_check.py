"""Checks of sizes before memory is taken: the config's against the checkpoint's and the machine's.

They use shapes alone: torch's meta device, and the header of the weights file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.core.out_of_memory import total_memory
from regard.errors import ConfigError, ModelError, TrainingError
from regard.runs import checkpoint

__all__ = ["outline", "require_fitting", "require_room"]

PER_PARAMETER = 16  # bytes in training, at least: float32 weight, gradient and the two moments of Adam
MANY = 100  # layers that are built in less than a second
NUMBERS = ("F64", "F32", "F16", "BF16")


def outline(build: Callable[[], nn.Module]) -> dict[str, Tensor]:
    """The parameters and kept buffers of a model by name, without memory.

    Raises ConfigError if a tensor would have more elements than torch can count.
    """
    try:
        with torch.device("meta"), _Undrawn():
            model = build()
    except (RuntimeError, OverflowError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError("a model of these sizes cannot be built", where="model", why=why) from error
    kept = model.state_dict(keep_vars=True)
    named = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: tensor for name, tensor in named.items() if name in kept}


class _Undrawn(TorchFunctionMode):
    """Mode in which nothing is drawn: of tensors without data torch would do it by its compiler, a second to import."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **(kwargs or {}))


def require_fitting(path: Path, build: Callable[[], nn.Module], *, layers: int) -> None:
    """ModelError where the weights of the checkpoint ``path`` are not those of a model that ``build`` makes.

    Reads only names, shapes and number formats of the weights; ``outline`` takes 10 ms a layer.
    """
    found = checkpoint.shapes(path, "model")
    if layers > max(len(found), MANY):
        raise _misfit(path, f"the config has {layers:,} layers, and there are {len(found):,} tensors")
    wanted = outline(build)
    if differing := sorted(wanted.keys() ^ found.keys()):
        raise _misfit(path, f"they differ in {', '.join(differing[:3])}")
    for name, tensor in wanted.items():
        kind, shape = found[name]
        if shape != tuple(tensor.shape) or (kind in NUMBERS) != tensor.is_floating_point():
            there, here = f"{list(shape)} in {kind}", f"{list(tensor.shape)}"
            raise _misfit(path, f"they differ in {name}: {there} there, {here} by the config")


def require_room(model: dict[str, Tensor]) -> None:
    """Raise TrainingError if training a model of this ``outline`` needs more memory than the machine has."""
    parameters = sum(tensor.numel() for tensor in model.values())
    needed, there = parameters * PER_PARAMETER, total_memory()
    if needed > there:
        raise TrainingError(
            "this model is too large for this machine",
            where="model",
            why=f"{parameters:,} weights, gradients and moments take {needed / 2**30:,.0f} GiB at least, "
            f"and there are {there / 2**30:,.0f}",
            help="lower model.width, model.feed_forward, the layers, or the size of the vocabulary",
        )


def _misfit(path: Path, why: str) -> ModelError:
    return ModelError(
        f"the weights in {path} are not those of this run's config",
        where=str(path),
        why=why,
        help="copy the whole run folder again",
    )

"""Size checks before memory is allocated: the config against the checkpoint and the machine.

They use only shapes: torch's meta device, and the header of the weights file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.contract import Mixer
from regard.core.out_of_memory import total_memory
from regard.core.state import State
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError, TrainingError
from regard.runs import checkpoint

PER_PARAMETER, PER_FROZEN = 16, 4  # bytes in training, at least: float32 weight, gradient, both moments of Adam
MANY = 100  # number of layers that is built in less than a second
# Limits on numbers or multiply-adds: a constant for any model, or RATIO times its number of weights.
FREE_TABLES, FREE_STATE, FREE_WORK, RATIO = 1 << 25, 1 << 22, 1 << 25, 8
NUMBERS = ("F64", "F32", "F16", "BF16")


def outline(build: Callable[[], nn.Module]) -> dict[str, Tensor]:
    """Return the parameters and persistent buffers of a model by name, without allocating memory.

    Raises ConfigError if a tensor would have more elements than torch can count.
    """
    return _named(sketch(build))


def sketch(build: Callable[[], nn.Module]) -> nn.Module:
    """Return a model with shapes only, on torch's meta device.

    Raises ConfigError if a tensor would have more elements than torch can count.
    """
    try:
        with torch.device("meta"), _Undrawn():
            return build()
    except (RuntimeError, OverflowError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError("a model of these sizes cannot be built", where="model", why=why) from error


def _named(model: nn.Module) -> dict[str, Tensor]:
    saved = model.state_dict(keep_vars=True)
    named = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: tensor for name, tensor in named.items() if name in saved}


class _Undrawn(TorchFunctionMode):
    """Mode without random initialization, for which torch would import its compiler on tensors without data (1 s)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0]
        return func(*args, **(kwargs or {}))


def require_fitting(path: Path, build: Callable[[], nn.Module], *, layers: int) -> None:
    """Raise ModelError if the weights of the checkpoint ``path`` do not fit the model of ``build``.

    Reads only names, shapes and number formats of the weights; ``outline`` takes 10 ms per layer.
    """
    saved = checkpoint.shapes(path, "model")
    if layers > max(len(saved), MANY):
        raise _misfit(path, f"the config has {pluralize(layers, 'layer')}, the file {pluralize(len(saved), 'tensor')}")
    model = sketch(build)
    expected = _named(model)
    if differing := sorted(expected.keys() ^ saved.keys()):
        raise _misfit(path, f"they differ in {', '.join(differing[:3])}")
    for name, tensor in expected.items():
        kind, shape = saved[name]
        if shape != tuple(tensor.shape) or (kind in NUMBERS) != tensor.is_floating_point():
            saved_form, expected_form = f"{list(shape)} in {kind}", f"{list(tensor.shape)}"
            raise _misfit(path, f"{name} is {saved_form} in the file, {expected_form} in the config")
    require_proportion(model, str(path))


def require_proportion(model: nn.Module, where: str) -> None:
    """Raise ModelError if a model needs memory or work out of proportion to its weights.

    Three costs are compared: buffers that are not saved, the initial state of a row, and the work per position
    (``Mixer.position_work``). Options determine them that do not affect the shape of any weight. ``model`` may be on
    torch's meta device.
    """
    weights = sum(parameter.numel() for parameter in model.parameters())
    saved = model.state_dict(keep_vars=True)
    mixers = [part for part in model.modules() if isinstance(part, Mixer)]
    tables = sum(table.numel() for name, table in model.named_buffers() if name not in saved)
    state, work = sum(_numbers(mixer.start(1)) for mixer in mixers), sum(mixer.position_work for mixer in mixers)
    for cost, free, what in (
        (tables, FREE_TABLES, "numbers in tables other than the weights"),
        (state, FREE_STATE, "numbers of state for each text"),
        (work, FREE_WORK, "multiply-adds for each position"),
    ):
        if cost > (limit := max(free, RATIO * weights)):
            raise ModelError(
                "the options of the model are out of proportion to its weights",
                where=where,
                why=f"they need {cost:,} {what}; for {weights:,} weights, the limit is {limit:,}",
                help="check the options of its mixers: memory, segment, compressed, rounds",
            )


def _numbers(state: State) -> int:
    if isinstance(state, Tensor):
        return state.numel()
    return sum(map(_numbers, state)) if isinstance(state, tuple) else 0


def require_memory(model: nn.Module) -> None:
    """Raise TrainingError if training a model, which may be a ``sketch``, needs more memory than the machine has."""
    tensors = _named(model).values()
    parameters = sum(tensor.numel() for tensor in tensors)
    bytes_of = {True: PER_PARAMETER, False: PER_FROZEN}
    needed, available = sum(tensor.numel() * bytes_of[tensor.requires_grad] for tensor in tensors), total_memory()
    if needed > available:
        raise TrainingError(
            "the model is too large for this machine",
            where="model",
            why=f"{parameters:,} weights with gradients and moments need at least {needed / 2**30:,.0f} GiB, "
            f"and the machine has {available / 2**30:,.0f} GiB",
            help="lower model.width, model.feed_forward, the layers, or the size of the vocabulary",
        )


def _misfit(path: Path, why: str) -> ModelError:
    return ModelError(
        f"the weights in {path} do not match the config of the run",
        where=str(path),
        why=why,
        help="copy the whole run folder again",
    )

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

from regard.attention.contract import Mixer
from regard.core.out_of_memory import total_memory
from regard.core.state import State
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError, TrainingError
from regard.runs import checkpoint

PER_PARAMETER = 16  # bytes in training, at least: float32 weight, gradient and the two moments of Adam
MANY = 100  # layers that are built in less than a second
# Numbers or multiply-adds that any model may take beside its weights, and those for each weight.
FREE_TABLES, FREE_STATE, FREE_WORK, RATIO = 1 << 25, 1 << 22, 1 << 25, 8
NUMBERS = ("F64", "F32", "F16", "BF16")


def outline(build: Callable[[], nn.Module]) -> dict[str, Tensor]:
    """The parameters and kept buffers of a model by name, without memory.

    Raises ConfigError if a tensor would have more elements than torch can count.
    """
    return _named(_sketch(build))


def _sketch(build: Callable[[], nn.Module]) -> nn.Module:
    try:
        with torch.device("meta"), _Undrawn():
            return build()
    except (RuntimeError, OverflowError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError("a model of these sizes cannot be built", where="model", why=why) from error


def _named(model: nn.Module) -> dict[str, Tensor]:
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
        raise _misfit(
            path, f"the config has {pluralize(layers, 'layer')}, and there are {pluralize(len(found), 'tensor')}"
        )
    model = _sketch(build)
    wanted = _named(model)
    if differing := sorted(wanted.keys() ^ found.keys()):
        raise _misfit(path, f"they differ in {', '.join(differing[:3])}")
    for name, tensor in wanted.items():
        kind, shape = found[name]
        if shape != tuple(tensor.shape) or (kind in NUMBERS) != tensor.is_floating_point():
            there, here = f"{list(shape)} in {kind}", f"{list(tensor.shape)}"
            raise _misfit(path, f"they differ in {name}: {there} there, {here} by the config")
    require_proportion(model, str(path))


def require_proportion(model: nn.Module, where: str) -> None:
    """ModelError where a model takes memory or work that its weights do not explain.

    Compared are the tables that are no weights, the state of a row before it has read anything, and the work of a
    position (``Mixer.position_work``): options decide them which are not in the shape of any weight. ``model`` may be
    on torch's meta device.
    """
    weights = sum(parameter.numel() for parameter in model.parameters())
    kept = model.state_dict(keep_vars=True)
    mixers = [part for part in model.modules() if isinstance(part, Mixer)]
    tables = sum(table.numel() for name, table in model.named_buffers() if name not in kept)
    state, work = sum(_numbers(mixer.start(1)) for mixer in mixers), sum(mixer.position_work for mixer in mixers)
    for cost, free, what in (
        (tables, FREE_TABLES, "numbers in tables beside the weights"),
        (state, FREE_STATE, "numbers of state for each text"),
        (work, FREE_WORK, "multiply-adds for each position"),
    ):
        if cost > (limit := max(free, RATIO * weights)):
            raise ModelError(
                "the options of this model are out of proportion to its weights",
                where=where,
                why=f"they take {cost:,} {what}; for {weights:,} weights the limit is {limit:,}",
                help="check the options of its mixers: memory, segment, compressed, rounds",
            )


def _numbers(state: State) -> int:
    if isinstance(state, Tensor):
        return state.numel()
    return sum(map(_numbers, state)) if isinstance(state, tuple) else 0


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

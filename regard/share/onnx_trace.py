"""From a module to a graph of ONNX, traced by torch with sizes that stay open.

A trace has shapes and no numbers. What a model asks of numbers is therefore answered for it: rows go in step, each
reads its own sentence, and every column counts.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention.kernel import kernel
from regard.errors import ConfigError

__all__ = ["SIZES", "Names", "answered", "graph"]

OPSET = 20
# What stays open, as two examples know it: a dimension that has one size in the first and the other in the second is
# this one. No two are alike, and none is 0 or 1, which torch takes for constants.
SIZES = {"batch": (3, 5), "source": (7, 11), "past": (13, 17)}
# Whose functions ask for lengths, beside the modules of a model's own classes.
ASKING = [
    f"regard.attention.{name}" for name in ("positions.distance_bias", "contract", "kernel", "previous_weights", "mask")
]


class Names(NamedTuple):
    """Of what goes into a graph and of what comes out, in order."""

    inputs: list[str]
    outputs: list[str]


def graph(module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: Names) -> Any:
    """What torch makes of it: its ``save`` writes a file. ``module`` takes as many tensors as each example has.

    ConfigError with torch's own reason where it can make nothing.
    """
    try:
        with torch.no_grad(), _quietly(), kernel("reference"), _symbolic_lengths(module):
            made = _traced(module, examples, names)
    except Exception as problem:
        raise ConfigError("torch cannot export this model to ONNX", why=_reason(problem)) from problem
    _forget_origins(made.model)
    return made


def _reason(problem: Exception) -> str:
    fixed = [name for name in SIZES if re.search(rf"Constraints violated \(.*\b{name}\b", str(problem))]
    if fixed:
        return f"it cannot tell that one trace of this model holds for every size of {' and '.join(fixed)}"
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def answered() -> AbstractContextManager[Any]:
    """Inside the block each question about numbers is answered yes, and each number asked for is 0."""
    return _Answered()


class _Answered(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.equal, Tensor.__bool__):
            return True
        return 0 if func is Tensor.__int__ else func(*args, **(kwargs or {}))


def _traced(module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: Names) -> Any:
    symbols = {sizes: torch.export.Dim(name) for name, sizes in SIZES.items()}
    shapes = [list(zip(one.shape, other.shape, strict=True)) for one, other in zip(*examples, strict=True)]
    open_ = tuple({at: symbols[pair] for at, pair in enumerate(shape) if pair[0] != pair[1]} for shape in shapes)
    program = torch.export.export(_Flat(module), tuple(examples[0]), dynamic_shapes=(open_,), strict=False)
    options: dict[str, Any] = {"opset_version": OPSET, "dynamo": True, "verbose": False}
    return torch.onnx.export(program, input_names=names.inputs, output_names=names.outputs, **options)


class _Flat(nn.Module):
    """A module as one of any number of tensors, so that all are described alike."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Tensor) -> Any:
        return self.module(*tensors)


@contextmanager
def _symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """Inside the block ``len`` of a tensor is a size that may stay open; Python's own is a number for good."""
    names = {type(part).__module__ for part in module.modules()} | set(ASKING)
    found = [vars(sys.modules[name]) for name in names if not name.startswith("torch.")]
    changed = [each for each in found if "len" not in each]
    for each in changed:
        each["len"] = _length
    try:
        yield
    finally:
        for each in changed:
            del each["len"]


def _length(x: Any) -> Any:
    return x.shape[0] if isinstance(x, Tensor) else x.__len__()


@contextmanager
def _quietly() -> Iterator[None]:
    """What torch's exporter remarks is nothing that a user could heed."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _forget_origins(model: Any) -> None:
    """Drop what torch notes of each node, where it comes from in files of this machine among it."""
    for nodes in (model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values())):
        for node in nodes:
            node.metadata_props.clear()
            for value in node.outputs:
                value.metadata_props.clear()

"""Tracing of a module to an ONNX graph with dynamic sizes, by torch.

A trace has shapes and no data, so questions about data get fixed answers: all rows are at one step, row i reads
sentence i, and every column is valid.
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

OPSET = 20
# Sizes of dynamic dimensions in two example inputs: a dimension with these two sizes is dynamic under this name. All
# differ, and none is 0 or 1, which torch takes for constants.
SIZES = {"batch": (3, 5), "source": (7, 11), "past": (13, 17)}
# Modules that call ``len`` on tensors, in addition to those that define a model's own classes.
CALLING_LEN = [
    f"regard.attention.{name}" for name in ("positions.distance_bias", "contract", "kernel", "previous_weights", "mask")
]


class GraphNames(NamedTuple):
    """Names of a graph's inputs and outputs, in order."""

    inputs: list[str]
    outputs: list[str]


def graph(module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: GraphNames) -> Any:
    """The ONNX program of a module, whose ``save`` writes a file.

    ``examples`` are two tuples of inputs in the sizes of SIZES. ConfigError with torch's reason where it cannot export.
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


def data_free() -> AbstractContextManager[Any]:
    """A block in which every comparison of tensor data is true and every number read from a tensor is 0."""
    return _DataFree()


class _DataFree(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.equal, Tensor.__bool__):
            return True
        return 0 if func is Tensor.__int__ else func(*args, **(kwargs or {}))


def _traced(module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: GraphNames) -> Any:
    symbols = {sizes: torch.export.Dim(name) for name, sizes in SIZES.items()}
    shapes = [list(zip(one.shape, other.shape, strict=True)) for one, other in zip(*examples, strict=True)]
    dynamic = tuple({at: symbols[pair] for at, pair in enumerate(shape) if pair[0] != pair[1]} for shape in shapes)
    program = torch.export.export(_Flat(module), tuple(examples[0]), dynamic_shapes=(dynamic,), strict=False)
    options: dict[str, Any] = {"opset_version": OPSET, "dynamo": True, "verbose": False}
    return torch.onnx.export(program, input_names=names.inputs, output_names=names.outputs, **options)


class _Flat(nn.Module):
    """A module that takes any number of tensors, so that one form describes the shapes of all inputs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Tensor) -> Any:
        return self.module(*tensors)


@contextmanager
def _symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """A block in which ``len`` of a tensor is a symbolic size; Python's own makes a constant of it."""
    names = {type(part).__module__ for part in module.modules()} | set(CALLING_LEN)
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
    """A block without the log messages and warnings of torch's exporter, on which a user cannot act."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _forget_origins(model: Any) -> None:
    """Drop torch's metadata of each node, which includes paths of files on this machine."""
    for nodes in (model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values())):
        for node in nodes:
            node.metadata_props.clear()
            for value in node.outputs:
                value.metadata_props.clear()

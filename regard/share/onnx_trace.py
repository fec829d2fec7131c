"""Tracing of a module to an ONNX graph with dynamic sizes, by torch.

A trace has shapes and no data, so comparisons of data get fixed results: all rows are at the same step, row i reads
sentence i, and every position is valid.
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

from regard.attention.kernel import Kernel, kernel
from regard.errors import ConfigError

OPSET = 20
# Sizes of the dynamic dimensions in two example inputs: a dimension with these two sizes is dynamic under this name.
# All sizes differ, and no size is 0 or 1, because torch treats these as constants.
SIZES = {
    "batch": (3, 5),
    "source": (7, 11),
    "past": (13, 17),
    "nodes": (19, 23),
    "edges": (29, 31),
    "windows": (37, 41),
}
# Modules that call ``len`` on tensors, in addition to the modules that define the model's classes.
CALLING_LEN = [
    f"regard.attention.{name}"
    for name in ("positions.distance_bias", "contract", "kernel", "previous_weights", "mask", "edge_kernel")
]


class GraphNames(NamedTuple):
    """Names of the inputs and outputs of a graph, in order."""

    inputs: list[str]
    outputs: list[str]


class Lengths(NamedTuple):
    """The lengths ``first`` + ``step`` · n, n > 0, of a source. Strides cannot be traced for every length."""

    step: int = 1
    first: int = 0

    def of(self, example: int) -> int:
        """Return the length of example 0 or 1."""
        return self.first + self.step * SIZES["source"][example]

    def padded(self, length: int) -> int:
        """Return the smallest of these lengths that is not below ``length``."""
        return self.first + self.step * max(1, -(-(length - self.first) // self.step))


ANY_LENGTH = Lengths()


def graph(
    module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: GraphNames, *,
    path: Kernel = "reference", lengths: Lengths = ANY_LENGTH,
) -> Any:  # fmt: skip
    """Return the ONNX program of a module, whose ``save`` writes a file.

    Args:
        module: the module.
        examples: two tuples of inputs, in the first and second sizes of SIZES.
        names: names of inputs and outputs.
        path: how attention is computed.
        lengths: the lengths of sources that the graph reads.

    Raises:
        ConfigError: torch cannot export the module; the error contains torch's reason.
    """
    try:
        with torch.no_grad(), _suppress_output(), kernel(path), _symbolic_lengths(module):
            program = _traced(module, examples, names, lengths)
    except Exception as problem:
        raise ConfigError("torch cannot export this model to ONNX", why=_reason(problem)) from problem
    _drop_metadata(program.model)
    return program


def _reason(problem: Exception) -> str:
    fixed = [name for name in SIZES if re.search(rf"Constraints violated \(.*\b{name}\b", str(problem))]
    if fixed:
        return f"one trace of this model is not valid for every size of {' and '.join(fixed)}"
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def data_free() -> AbstractContextManager[Any]:
    """Return a context in which every comparison of tensor data is true, and every number read from a tensor is 0."""
    return _DataFree()


class _DataFree(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.equal, Tensor.__bool__):
            return True
        return 0 if func is Tensor.__int__ else func(*args, **(kwargs or {}))


def _traced(
    module: nn.Module, examples: tuple[Sequence[Tensor], Sequence[Tensor]], names: GraphNames, lengths: Lengths
) -> Any:
    symbols: dict[tuple[int, ...], Any] = {sizes: torch.export.Dim(name) for name, sizes in SIZES.items()}
    source = symbols.pop(SIZES["source"])
    source = source if lengths.step == 1 else lengths.step * source
    symbols[lengths.of(0), lengths.of(1)] = source + lengths.first if lengths.first else source
    shapes = [list(zip(one.shape, other.shape, strict=True)) for one, other in zip(*examples, strict=True)]
    dynamic = tuple({dim: symbols[pair] for dim, pair in enumerate(shape) if pair[0] != pair[1]} for shape in shapes)
    program = torch.export.export(_Flat(module), tuple(examples[0]), dynamic_shapes=(dynamic,), strict=False)
    options: dict[str, Any] = {"opset_version": OPSET, "dynamo": True, "verbose": False}
    return torch.onnx.export(program, input_names=names.inputs, output_names=names.outputs, **options)


class _Flat(nn.Module):
    """A module with any number of tensors as inputs, because torch then accepts one list of dynamic shapes."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Tensor) -> Any:
        return self.module(*tensors)


@contextmanager
def _symbolic_lengths(module: nn.Module) -> Iterator[None]:
    """Make ``len`` of a tensor a symbolic size in the block; Python's own ``len`` returns a constant."""
    names = {type(part).__module__ for part in module.modules()} | set(CALLING_LEN)
    namespaces = [vars(sys.modules[name]) for name in names if not name.startswith("torch.")]
    changed = [namespace for namespace in namespaces if "len" not in namespace]
    for namespace in changed:
        namespace["len"] = _length
    try:
        yield
    finally:
        for namespace in changed:
            del namespace["len"]


def _length(x: Any) -> Any:
    return x.shape[0] if isinstance(x, Tensor) else x.__len__()


@contextmanager
def _suppress_output() -> Iterator[None]:
    """Suppress the log messages and warnings of torch's exporter in the block; a user cannot act on them."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _drop_metadata(model: Any) -> None:
    """Drop torch's metadata of each node, which contains file paths of this machine."""
    for nodes in (model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values())):
        for node in nodes:
            node.metadata_props.clear()
            for value in node.outputs:
                value.metadata_props.clear()

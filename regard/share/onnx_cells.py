"""Recurrent layers as ONNX operators, because a trace cannot follow loops over positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.models.recurrent.cells import GRU, LSTM, Carried, Cell

Run = Callable[[Tensor, Tensor, Carried], tuple[Tensor, Carried]]


class Operator(NamedTuple):
    """An ONNX operator and the layout of its weights, which have one block of rows per gate."""

    name: str
    order: Sequence[int]  # for each block of the operator, the index of the cell's block
    negated: int | None = None  # the cell's block whose sign is changed
    attributes: Sequence[tuple[str, int]] = ()


def _operator(cell: Cell) -> Operator:
    if isinstance(cell, LSTM):
        return Operator("LSTM", (0, 3, 1, 2))
    if isinstance(cell, GRU):  # in ONNX the gate z keeps the state; if it updates instead, negate the weights of z
        negated = None if cell.update == "keeps" else 1
        return Operator("GRU", (1, 0, 2), negated, [("linear_before_reset", int(cell.reset == "after"))])
    return Operator("RNN", (0,))


def traced_run(cell: Cell) -> Run:
    """Return a replacement of ``cell.run`` for tracing. Outside a trace, its outputs are meaningless."""
    operator = _operator(cell)
    enter, recurrent, *biases = (_reordered(weight.detach(), operator) for weight in cell.weights)
    weights = [weight[None].contiguous() for weight in (enter, recurrent, torch.cat(biases))]

    def run(x: Tensor, length: Tensor, carried: Carried) -> tuple[Tensor, Carried]:
        rows, columns, width = x.shape[0], x.shape[1], cell.width
        outputs = torch.onnx.ops.symbolic_multi_out(
            operator.name,
            (x.transpose(0, 1), *weights, length.to(torch.int32), *(state[None] for state in carried)),
            dict([("hidden_size", width), *operator.attributes]),
            dtypes=[x.dtype] * (1 + cell.parts),
            shapes=[(columns, 1, rows, width)] + [(1, rows, width)] * cell.parts,
        )
        return outputs[0][:, 0].transpose(0, 1), tuple(state[0] for state in outputs[1:])

    return run


def _reordered(weight: Tensor, operator: Operator) -> Tensor:
    blocks = list(weight.chunk(len(operator.order)))
    if operator.negated is not None:
        blocks[operator.negated] = -blocks[operator.negated]
    return torch.cat([blocks[index] for index in operator.order])

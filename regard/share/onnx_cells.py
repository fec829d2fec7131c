"""Recurrent layers as ONNX operators, since a trace does not follow loops over columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.models.recurrent.cells import GRU, LSTM, Carried, Cell

Run = Callable[[Tensor, Tensor, Carried], tuple[Tensor, Carried]]


class Operator(NamedTuple):
    """An ONNX operator and the layout of its weights, whose rows are one block per gate."""

    name: str
    order: Sequence[int]  # for each block of the operator, the index of ours
    negated: int | None = None  # the index of our block whose sign is changed
    attributes: Sequence[tuple[str, int]] = ()


def _operator(cell: Cell) -> Operator:
    if isinstance(cell, LSTM):
        return Operator("LSTM", (0, 3, 1, 2))
    if isinstance(
        cell, GRU
    ):  # ONNX keeps the share z of the state; where z renews instead, the weights of z are negated
        negated = None if cell.update == "keeps" else 1
        return Operator("GRU", (1, 0, 2), negated, [("linear_before_reset", int(cell.reset == "after"))])
    return Operator("RNN", (0,))


def traced_run(cell: Cell) -> Run:
    """A replacement of ``cell.run`` for tracing; outside of a trace its numbers are meaningless."""
    operator = _operator(cell)
    enter, recurrent, *biases = (_laid_out(part.detach(), operator) for part in cell.weights)
    weights = [part[None].contiguous() for part in (enter, recurrent, torch.cat(biases))]

    def run(x: Tensor, length: Tensor, carried: Carried) -> tuple[Tensor, Carried]:
        rows, columns, width = x.shape[0], x.shape[1], cell.width
        found = torch.onnx.ops.symbolic_multi_out(
            operator.name,
            (x.transpose(0, 1), *weights, length.to(torch.int32), *(part[None] for part in carried)),
            dict([("hidden_size", width), *operator.attributes]),
            dtypes=[x.dtype] * (1 + cell.parts),
            shapes=[(columns, 1, rows, width)] + [(1, rows, width)] * cell.parts,
        )
        return found[0][:, 0].transpose(0, 1), tuple(part[0] for part in found[1:])

    return run


def _laid_out(part: Tensor, operator: Operator) -> Tensor:
    blocks = list(part.chunk(len(operator.order)))
    if operator.negated is not None:
        blocks[operator.negated] = -blocks[operator.negated]
    return torch.cat([blocks[number] for number in operator.order])

"""Recurrent layers as ONNX's own operators, since a trace follows no loop over columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.models.recurrent.cells import GRU, LSTM, Carried, Cell

__all__ = ["runner"]

Run = Callable[[Tensor, Tensor, Carried], tuple[Tensor, Carried]]


class Operator(NamedTuple):
    """``order``: which of our blocks of rows each of its blocks is; ``negated``: one of ours with the other sign."""

    name: str
    order: Sequence[int]
    negated: int | None = None
    attributes: Sequence[tuple[str, int]] = ()


def _operator(cell: Cell) -> Operator:
    if isinstance(cell, LSTM):
        return Operator("LSTM", (0, 3, 1, 2))
    if isinstance(cell, GRU):  # it keeps what z says; renewing is the same with z's weights negated
        negated = None if cell.update == "keeps" else 1
        return Operator("GRU", (1, 0, 2), negated, [("linear_before_reset", int(cell.reset == "after"))])
    return Operator("RNN", (0,))


def runner(cell: Cell) -> Run:
    """``cell.run`` in a trace; computed outside of one its numbers mean nothing."""
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

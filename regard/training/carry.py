"""State that goes from batch to batch: handed on by lane, and kept in checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby

import torch
from torch import Tensor

from regard.core.task import Carry
from regard.training.strategy import Carries

NAME = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")  # shard, number of the tensor
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool)


def continued(carry: Carry, rows: int) -> Carry:
    """The beginning of a batch of ``rows`` lanes: those of the batch before, of which the last end first."""
    if carry and len(carry[0]) < rows:
        raise ValueError(
            f"{rows} lanes after {len(carry[0])}: the lanes of an epoch may end, none begins in its middle"
        )
    return tuple(tensor[:rows] for tensor in carry)


def handed_on(carry: Carry, rows: int) -> Carry:
    """The carry that an objective gave for the next batch, detached. ValueError where it has not one row a lane."""
    if not isinstance(carry, tuple) or not all(isinstance(each, Tensor) for each in carry):
        raise ValueError("LossTerms.carry is a tuple of tensors: a tree is flattened by regard.core.state.leaves")
    if any(each.ndim == 0 or len(each) != rows for each in carry):
        shapes = ", ".join(str(list(each.shape)) for each in carry)
        raise ValueError(f"LossTerms.carry has a row for each of the batch's {rows} rows, not {shapes}")
    return tuple(each.detach() for each in carry)


def dealt_anew(carries: Carries, number: int | None) -> Carries:
    """Carries of ``number`` shards, given those of another number of them: lane l is the next of shard l mod number.

    ValueError where lanes are missing, or carry tensors of other shapes, as states of another length are.
    """
    lanes = sum(len(carry[0]) for carry in carries.values())
    if number is None or len(carries) == min(number, lanes):
        return carries
    before = [carries[shard] for shard in sorted(carries)]
    if [(shard, len(carry[0])) for shard, carry in sorted(carries.items())] != [
        (shard, len(range(shard, lanes, len(carries)))) for shard in range(len(carries))
    ] or lanes < len(carries):
        raise ValueError("of what it carries lanes are missing")
    if len({tuple(each.shape[1:] for each in carry) for carry in before}) > 1:
        raise ValueError("what it carries cannot be dealt to another number of shards: lanes differ in shape")
    whole = [torch.empty(lanes, *each.shape[1:], dtype=each.dtype, device=each.device) for each in before[0]]
    for shard, carry in enumerate(before):
        for each, part in zip(whole, carry, strict=True):
            each[shard :: len(before)] = part
    return {shard: tuple(each[shard::number] for each in whole) for shard in range(min(number, lanes))}


def named_carries(carries: Carries) -> dict[str, Tensor]:
    """Each tensor under the number of its shard and its own, as a checkpoint holds them."""
    return {f"{shard}.{at}": each for shard, carry in carries.items() for at, each in enumerate(carry)}


def read_carries(tensors: Mapping[str, Tensor], *, lanes: int, device: torch.device) -> dict[int, Carry]:
    """The carries that ``named_carries`` wrote. ValueError where they are more than ``lanes``, or not alike."""
    matches = {name: NAME.fullmatch(name) for name in tensors}
    if unknown := [name for name, match in matches.items() if match is None]:
        raise ValueError(f"what it carries has an unknown name {unknown[0][:40]!r}")
    numbers = sorted((int(match[1]), int(match[2])) for match in matches.values() if match is not None)
    found: dict[int, Carry] = {}
    for shard, pairs in groupby(numbers, key=lambda pair: pair[0]):
        at = [each for _, each in pairs]
        if at != list(range(len(at))):
            raise ValueError(f"of what shard {shard} carries a tensor is missing")
        found[shard] = tuple(tensors[f"{shard}.{each}"] for each in at)
    if any(
        each.dtype not in DTYPES or each.ndim == 0 or len(each) != len(one[0]) for one in found.values() for each in one
    ):
        raise ValueError("what it carries does not have one row of numbers a lane")
    if len({tuple(each.dtype for each in carry) for carry in found.values()}) > 1:
        raise ValueError("what it carries is not of one kind in all shards")
    if (rows := sum(len(carry[0]) for carry in found.values())) > lanes:
        raise ValueError(f"it carries {rows} lanes, and the batch before had {lanes}")
    return {shard: tuple(each.to(device) for each in carry) for shard, carry in found.items()}

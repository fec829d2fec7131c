"""State carried from batch to batch, by lane, and saved in checkpoints."""

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
    """Return the carry for a batch of ``rows`` lanes, which are the first lanes of the previous batch.

    The last lanes of an epoch end first.
    """
    if carry and len(carry[0]) < rows:
        raise ValueError(
            f"the batch has {rows} lanes, the previous one {len(carry[0])}: no lane may begin within an epoch"
        )
    return tuple(tensor[:rows] for tensor in carry)


def detach_carry(carry: Carry, rows: int) -> Carry:
    """Return the carry of an objective for the next batch, detached. ValueError unless it has one row per lane."""
    if not isinstance(carry, tuple) or not all(isinstance(tensor, Tensor) for tensor in carry):
        raise ValueError("LossTerms.carry must be a tuple of tensors: flatten a tree with regard.core.state.leaves")
    if any(tensor.ndim == 0 or len(tensor) != rows for tensor in carry):
        shapes = ", ".join(str(list(tensor.shape)) for tensor in carry)
        raise ValueError(f"LossTerms.carry must have one row for each of the {rows} rows of the batch, not {shapes}")
    return tuple(tensor.detach() for tensor in carry)


def reshard_carries(carries: Carries, shard_count: int | None) -> Carries:
    """Return the carries for another number of shards; lane l is the next lane of shard l mod ``number``.

    ValueError if lanes are missing, or if their tensors differ in shape, such as states of different lengths.
    """
    lanes = sum(len(carry[0]) for carry in carries.values())
    if shard_count is None or len(carries) == min(shard_count, lanes):
        return carries
    before = [carries[shard] for shard in sorted(carries)]
    if [(shard, len(carry[0])) for shard, carry in sorted(carries.items())] != [
        (shard, len(range(shard, lanes, len(carries)))) for shard in range(len(carries))
    ] or lanes < len(carries):
        raise ValueError("the carried state lacks lanes")
    if len({tuple(tensor.shape[1:] for tensor in carry) for carry in before}) > 1:
        raise ValueError(
            "the carried state cannot be distributed to another number of shards: its lanes differ in shape"
        )
    whole = [torch.empty(lanes, *tensor.shape[1:], dtype=tensor.dtype, device=tensor.device) for tensor in before[0]]
    for shard, carry in enumerate(before):
        for tensor, part in zip(whole, carry, strict=True):
            tensor[shard :: len(before)] = part
    return {shard: tuple(tensor[shard::shard_count] for tensor in whole) for shard in range(min(shard_count, lanes))}


def named_carries(carries: Carries) -> dict[str, Tensor]:
    """Return each tensor by the number of its shard and its own number, as saved in checkpoints."""
    return {f"{shard}.{number}": tensor for shard, carry in carries.items() for number, tensor in enumerate(carry)}


def read_carries(tensors: Mapping[str, Tensor], *, lanes: int, device: torch.device) -> dict[int, Carry]:
    """Return the carries that ``named_carries`` named. ValueError if they do not match or exceed ``lanes``."""
    matches = {name: NAME.fullmatch(name) for name in tensors}
    if unknown := [name for name, match in matches.items() if match is None]:
        raise ValueError(f"the carried state has an unknown name {unknown[0][:40]!r}")
    numbers = sorted((int(match[1]), int(match[2])) for match in matches.values() if match is not None)
    carries: dict[int, Carry] = {}
    for shard, pairs in groupby(numbers, key=lambda pair: pair[0]):
        tensor_numbers = [number for _, number in pairs]
        if tensor_numbers != list(range(len(tensor_numbers))):
            raise ValueError(f"the carried state of shard {shard} lacks a tensor")
        carries[shard] = tuple(tensors[f"{shard}.{number}"] for number in tensor_numbers)
    if any(
        tensor.dtype not in DTYPES or tensor.ndim == 0 or len(tensor) != len(carry[0])
        for carry in carries.values()
        for tensor in carry
    ):
        raise ValueError("the carried state does not have one row of numbers per lane")
    if len({tuple(tensor.dtype for tensor in carry) for carry in carries.values()}) > 1:
        raise ValueError("the carried state has different number formats in different shards")
    if (rows := sum(len(carry[0]) for carry in carries.values())) > lanes:
        raise ValueError(f"the carried state has {rows} lanes, the previous batch had {lanes}")
    return {shard: tuple(tensor.to(device) for tensor in carry) for shard, carry in carries.items()}

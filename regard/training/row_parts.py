"""Parameters sharded by rows, as in FSDP2: own rows, full tensors, norms over ranks.

A sharded tensor is torch's ``DTensor``. Importing its module takes a second, so it is imported on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "device_mesh")


def own_rows(tensor: Tensor) -> Tensor:
    """Return a view of this rank's rows; the tensor itself if it is not sharded."""
    if not is_sharded(tensor):
        return tensor
    sharded: Any = tensor.detach()
    rows: Tensor = sharded.to_local()
    return rows


def shard_like(rows: Tensor, parameter: Tensor) -> Tensor:
    """Return this rank's rows as a tensor that is sharded like ``parameter``, without communication."""
    if not is_sharded(parameter):
        return rows
    from torch.distributed.tensor import DTensor

    like: Any = parameter
    sharded: Tensor = DTensor.from_local(
        rows, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return sharded


def first_row(parameter: Tensor) -> int:
    """Return the number of this rank's first row.

    All ranks have equally many rows, except the last ones, which may have fewer or none.
    """
    mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
    rows_per_rank = -(-parameter.shape[0] // mesh.size())
    return min(int(mesh.get_local_rank()) * rows_per_rank, parameter.shape[0])


def rows_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return the rows of a full tensor that this rank holds of ``parameter``."""
    if not is_sharded(parameter):
        return tensor
    first = first_row(parameter)
    return tensor[first : first + len(own_rows(parameter))]


def whole(tensor: Tensor) -> Tensor:
    """Return the tensor with the rows of all ranks; the tensor itself if it is not sharded.

    All ranks must call this.
    """
    if not is_sharded(tensor):
        return tensor
    rows, like = own_rows(tensor), _mesh(tensor)
    sharded: Any = shard_like(rows.to(like.device_type), tensor)  # offloaded tensors cannot be sent
    full: Tensor = sharded.full_tensor()
    return full.to(rows.device)


def total_norm(rows: Sequence[Tensor], parameters: Sequence[Tensor]) -> float:
    """Return the Euclidean norm of tensors of which each rank has its rows of ``parameters``."""
    norm = torch.nn.utils.get_total_norm(list(rows))
    if not (parameters and is_sharded(parameters[0])):
        return float(norm)
    mesh = _mesh(parameters[0])
    squared = norm.to(mesh.device_type, torch.float64).square()
    dist.all_reduce(squared, group=mesh.get_group())
    return float(squared.sqrt())


def _mesh(tensor: Any) -> Any:
    return tensor.device_mesh

"""Parameters of which every rank holds some rows, as FSDP2 cuts them: own rows, whole tensors, norms over ranks.

A cut tensor is torch's ``DTensor``, whose module takes a second to import: it is imported where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def is_cut(tensor: Tensor) -> bool:
    return hasattr(tensor, "device_mesh")


def own_rows(tensor: Tensor) -> Tensor:
    """This rank's rows, in the same memory; a tensor that is not cut as it is."""
    if not is_cut(tensor):
        return tensor
    cut: Any = tensor.detach()
    rows: Tensor = cut.to_local()
    return rows


def cut_like(rows: Tensor, parameter: Tensor) -> Tensor:
    """This rank's rows of a tensor that is cut as ``parameter`` is, as that tensor; no other rank is asked."""
    if not is_cut(parameter):
        return rows
    from torch.distributed.tensor import DTensor

    like: Any = parameter
    cut: Tensor = DTensor.from_local(
        rows, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return cut


def first_row(parameter: Tensor) -> int:
    """The number of this rank's first row: all ranks hold as many as the first, the last ones fewer or none."""
    mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
    each = -(-parameter.shape[0] // mesh.size())
    return min(int(mesh.get_local_rank()) * each, parameter.shape[0])


def rows_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Cut from a whole tensor the rows that this rank holds of ``parameter``."""
    if not is_cut(parameter):
        return tensor
    first = first_row(parameter)
    return tensor[first : first + len(own_rows(parameter))]


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the rows of all ranks, which all have to call this; one that is not cut as it is."""
    if not is_cut(tensor):
        return tensor
    rows, like = own_rows(tensor), _mesh(tensor)
    cut: Any = cut_like(rows.to(like.device_type), tensor)  # what is offloaded cannot be sent
    found: Tensor = cut.full_tensor()
    return found.to(rows.device)


def total_norm(rows: Sequence[Tensor], parameters: Sequence[Tensor]) -> float:
    """The Euclidean norm of these tensors, of which each rank has the rows that it holds of ``parameters``."""
    norm = torch.nn.utils.get_total_norm(list(rows))
    if not (parameters and is_cut(parameters[0])):
        return float(norm)
    mesh = _mesh(parameters[0])
    squared = norm.to(mesh.device_type, torch.float64).square()
    dist.all_reduce(squared, group=mesh.get_group())
    return float(squared.sqrt())


def _mesh(tensor: Any) -> Any:
    return tensor.device_mesh

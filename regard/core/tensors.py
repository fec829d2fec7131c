"""Operations on tensors: shared names, digest and mean of named tensors, and mapping over tuples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, ModelError

Tree = TypeVar("Tree")


def require_device(device: str, where: str = "device") -> None:
    """Raise ConfigError, with the option ``where``, if torch cannot use the device."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # depends on the device and the build of torch
        why = str(error).strip().splitlines()[0]
        what = f"the device {device} is not available"
        raise ConfigError(what, where=where, why=why, help="regard doctor") from error


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map each name whose tensor already occurred under another name to that first name.

    Two names share if they are the same elements of the same memory, as tied embeddings are. Tensors that overlap only
    in part are separate.
    """
    first: dict[tuple[object, ...], str] = {}
    shared: dict[str, str] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            memory = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            owner = first.setdefault(memory, name)
            if owner != name:
                shared[name] = owner
    return shared


def separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous tensors on the CPU, no two in one storage, as safetensors requires."""
    seen: set[int] = set()
    copies = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage_start = plain.untyped_storage().data_ptr()
        copies[name] = plain.clone() if storage_start in seen else plain
        seen.add(storage_start)
    return copies


def kept_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return the saved tensors of a module except parameters, such as BatchNorm's statistics, each once, by name."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    buffers = {name: tensor for name, tensor in module.state_dict().items() if name not in parameters}
    shared = shared_names(buffers)
    return {name: tensor for name, tensor in buffers.items() if name not in shared}


def digest(groups: Mapping[str, Mapping[str, Tensor]]) -> str:
    """Return the sha256 of every name, dtype, shape and byte, independent of the order of names.

    Equal digests mean equal bits: -0.0 differs from 0.0, and bf16 from fp32.
    """
    total = hashlib.sha256()
    for group in sorted(groups):
        for name, tensor in sorted(groups[group].items()):
            header = json.dumps([group, name, str(tensor.dtype), list(tensor.shape)]).encode()
            total.update(len(header).to_bytes(8, "little") + header)
            plain = tensor.detach().cpu().contiguous()
            # A contiguous tensor of one element may have any stride, which the view below would reject.
            plain = plain.as_strided((plain.numel(),), (1,))
            total.update(plain.view(torch.uint8).numpy().data)
    return total.hexdigest()


def mean(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the arithmetic mean of each floating-point tensor, computed in float64, in the tensor's own dtype.

    Other tensors (counters, index buffers) are copied from the last model. Names that share one tensor share the mean.
    The mean of copies of one model has that model's bits. One model at a time is held in memory, in addition to the
    float64 mean. Raises ModelError if the models differ in names, shapes or dtypes, and ValueError without models.
    """
    means: dict[str, Tensor] = {}
    kinds: dict[str, tuple[torch.dtype, torch.Size]] = {}
    shared: dict[str, str] = {}
    for count, model in enumerate(models, start=1):
        if count == 1:
            kinds, shared = _kinds(model), shared_names(model)
        _require_same(kinds, shared, model, count)
        for name, tensor in model.items():
            if name not in shared:
                means[name] = _moved(means.get(name), tensor.detach(), count)
    if not kinds:
        raise ValueError("at least one model is required for an average")
    own = {name: value.to(kinds[name][0]) for name, value in means.items()}
    return {name: own[shared.get(name, name)] for name in kinds}


def _moved(value: Tensor | None, tensor: Tensor, count: int) -> Tensor:
    """Return the mean of ``count`` tensors, given the previous mean and the newest tensor."""
    if value is None or not tensor.is_floating_point():
        return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()
    newest = tensor.to(torch.float64)
    # Equal values are not changed: -0.0 keeps its sign, and infinity does not become NaN.
    return torch.where(newest == value, value, value + (newest - value) / count)


def _kinds(model: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in model.items()}


def _require_same(
    kinds: Mapping[str, tuple[torch.dtype, torch.Size]],
    shared: Mapping[str, str],
    model: Mapping[str, Tensor],
    count: int,
) -> None:
    other = _kinds(model)
    different = sorted(name for name in kinds.keys() | other.keys() if kinds.get(name) != other.get(name))
    if shared_names(model) != shared:
        different.append("which tensors are tied")
    if different:
        raise ModelError(
            f"model {count} does not match the first: {different[0]} differs",
            help="average checkpoints of one run",
        )


def added_sums(total: Mapping[str, Tensor], more: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return sums by name, each in float64 on the CPU; a missing name counts as zero."""
    sums = dict(total)
    for name, value in more.items():
        wide = value.detach().to("cpu", torch.float64)
        sums[name] = sums[name] + wide if name in sums else wide
    return sums


def to_device(batch: Tree, device: torch.device) -> Tree:
    """Return a batch with its tensors on another device."""
    moved: Tree = map_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))
    return moved


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply ``change`` to a tensor, or to the tensors in a (named) tuple; return any other value unchanged."""
    if isinstance(value, Tensor):
        return change(value)
    if not isinstance(value, tuple):
        return value
    parts = [map_tensors(part, change) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)

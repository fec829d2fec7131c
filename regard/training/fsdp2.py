"""Training by torch's FSDP2: every rank holds some rows of each weight, gradient and moment, and layers in turn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from regard.core.state import leaves
from regard.core.task import ExampleIndices
from regard.errors import ConfigError
from regard.models.repeated_layers import CALLED, repeated_layers
from regard.runs.row_files import Rows
from regard.runs.shared_checkpoint import Ranks
from regard.training.one_shard import OneShard, first_of, reaching_all
from regard.training.ranks import Peers
from regard.training.row_parts import first_row, is_cut, own_rows, whole
from regard.training.shards import CPU
from regard.training.strategy import Trainable


class FSDP2(OneShard):
    """A shard a rank; weights, gradients and moments in rows over the ranks (Zhao et al. 2023; torch's fully_shard).

    Each layer's weights are gathered for its pass and dropped after it; what lies outside of layers, such as
    embeddings, norms at the end, and whole recurrent stacks, for the whole pass. A model in bfloat16 keeps float32
    weights in rows, computes in bfloat16, and adds gradients in float32. All ranks meet in every layer of every pass,
    so one that is dealt nothing takes a pass that counts nothing. ``offload``: rows lie in the memory of the CPU, where
    they are updated, too. Sends three times the weights a pass.
    """

    def __init__(self, peers: Peers, device: torch.device = CPU, *, offload: bool = False) -> None:
        super().__init__(peers, device)
        self.offload = offload
        self.ranks = Ranks(peers.rank, peers.world, peers.gather)

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        _require_rows(model)
        # Of memories, which ``prepare`` returns as views of one product: nothing here writes into what a layer returns.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
        rounded = any(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
        for parameter in model.parameters():
            if parameter.dtype == torch.bfloat16:
                parameter.data = parameter.data.float()
            dist.broadcast(parameter.data, 0)
        model.objective = reaching_all(model.objective)
        options: dict[str, Any] = {
            "mesh": init_device_mesh(self.device.type, (self.world,)),
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=torch.bfloat16 if rounded else None,
                reduce_dtype=torch.float32 if rounded else None,
                cast_forward_inputs=False,  # they are in bfloat16 where they come from weights; what is counted is not
            ),
            "offload_policy": CPUOffloadPolicy(pin_memory=self.device.type != "cpu")
            if self.offload
            else OffloadPolicy(),
        }
        for layer in repeated_layers(model.net):
            fully_shard(layer, **options)
            for method in CALLED:
                if hasattr(layer, method) and not (method == "start" and _starts_without_weights(layer)):
                    register_fsdp_forward_method(layer, method)
        fully_shard(model, **options)
        for part in _parts(model):
            part.set_gradient_divide_factor(1.0)  # a sum: the loss is divided by the weight of all ranks
            part.set_force_sum_reduction_for_comms(True)  # gloo knows no other
        model.register_forward_hook(_dropped)
        return model

    def joins(self, last: bool) -> bool:
        return True

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        return first_of(examples)

    def collected(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [torch.zeros_like(own_rows(p)) if p.grad is None else own_rows(p.grad) for p in parameters]

    @contextmanager
    def gathered(self, model: nn.Module) -> Iterator[None]:
        parts = _parts(model)
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in parts:
                part.set_reshard_after_forward(part is not model, recurse=False)
                part.reshard()

    def rows(self, tensors: Mapping[str, Tensor]) -> dict[str, Rows]:
        found = {}
        for name, tensor in tensors.items():
            own = own_rows(tensor)
            if is_cut(tensor) and (len(own) or self.rank == 0):
                found[name] = Rows(own, first_row(tensor), tuple(tensor.shape))
            elif not is_cut(tensor) and self.rank == 0:
                found[name] = Rows(own, 0, tuple(tensor.shape))
        return found

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Whole tensors, put together one after the other, on the CPU of rank 0."""
        found = {}
        for name, tensor in tensors.items():
            gathered = whole(tensor)
            if self.rank == 0 or not is_cut(tensor):
                found[name] = gathered.cpu()
            del gathered
        return super().full(found)


def _parts(model: nn.Module) -> list[Any]:
    return [part for part in model.modules() if isinstance(part, FSDPModule)]


def _starts_without_weights(layer: Any) -> bool:
    """Whether a layer makes its first state of sizes alone, as most do: gathering its weights would be for nothing."""
    try:
        return not any(is_cut(each) for each in leaves(layer.start(1)))
    except (RuntimeError, TypeError, AttributeError):
        return False


def _dropped(model: Any, inputs: Any, output: Any) -> None:
    """Drop the gathered weights of the root after a pass without a gradient.

    It keeps them for the way back, at the end of which it drops them. Without one they would still be there after
    other weights, such as a moving average, have been put in their place, and the next pass would compute with them.
    """
    if not torch.is_grad_enabled():
        model.reshard()


def _require_rows(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 0:
            raise ConfigError(
                "this model cannot be trained by fsdp2",
                where="train.strategy",
                why=f"{name} is a single number, and rows of tensors are what ranks share",
                help="--set train.strategy=ddp",
            )

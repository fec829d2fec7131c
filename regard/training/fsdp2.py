"""Training with torch's FSDP2: weights, gradients and moments are sharded by rows over the ranks.

The weights of each repeated layer are gathered for its pass.
"""

from __future__ import annotations

import warnings
from collections import Counter
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
from regard.models.convolutional.decoder import ConvolutionalLayer
from regard.models.convolutional.encoder import CenteredConvolution
from regard.models.transformer.layer import TransformerLayer
from regard.runs.row_files import Rows
from regard.runs.shared_checkpoint import Ranks
from regard.training.one_shard import OneShard, first_of, reaching_all
from regard.training.ranks import ProcessGroup
from regard.training.row_parts import first_row, is_sharded, own_rows, whole
from regard.training.shards import CPU
from regard.training.strategy import Trainable

LAYERS = (TransformerLayer, ConvolutionalLayer, CenteredConvolution, nn.TransformerEncoderLayer,
          nn.TransformerDecoderLayer)  # fmt: skip
# Methods of a layer, other than ``forward``, that a stack calls and that use its parameters.
CALLED = ("prepare", "start")


class FSDP2(OneShard):
    """One shard per rank; weights, gradients and moments are sharded by rows (Zhao et al. 2023; torch's fully_shard).

    The weights of each layer are gathered for its pass and dropped after it. Weights outside of layers, such as
    embeddings, final norms and whole recurrent stacks, are gathered for the whole pass. A bfloat16 model has float32
    weights in its shards, computes in bfloat16, and adds gradients in float32. All ranks take part in every layer of
    every pass, so a rank without examples runs a pass that does not count. With ``offload``, shards are stored and
    updated in CPU memory. Sends three times the weights per pass.

    Args:
        peers: the ranks.
        device: of the network.
        offload: whether shards are stored and updated in CPU memory.
    """

    def __init__(self, peers: ProcessGroup, device: torch.device = CPU, *, offload: bool = False) -> None:
        super().__init__(peers, device)
        self.offload = offload
        self.ranks = Ranks(peers.rank, peers.world, peers.gather)

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        _require_rows(model)
        # Memories are views of one product (``prepare``). Safe, since outputs of layers are never modified in place.
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
                cast_forward_inputs=False,  # inputs from weights already are bfloat16; counts must stay float32
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
            part.set_gradient_divide_factor(1.0)  # sum: the loss is already divided by the weight of all ranks
            part.set_force_sum_reduction_for_comms(True)  # gloo supports no other reduction
        model.register_forward_hook(_dropped)
        return model

    def joins(self, last: bool) -> bool:
        return True

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        return first_of(examples)

    def collected(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [
            own_rows(p.grad) if p.grad is not None else torch.zeros_like(own_rows(p)) if p.requires_grad
            else torch.empty(0, device=own_rows(p).device)
            for p in parameters
        ]  # fmt: skip

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
        rows_by_name = {}
        for name, tensor in tensors.items():
            own = own_rows(tensor)
            if is_sharded(tensor) and (len(own) or self.rank == 0):
                rows_by_name[name] = Rows(own, first_row(tensor), tuple(tensor.shape))
            elif not is_sharded(tensor) and self.rank == 0:
                rows_by_name[name] = Rows(own, 0, tuple(tensor.shape))
        return rows_by_name

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return full tensors, assembled one by one, on the CPU of rank 0."""
        whole_tensors = {}
        for name, tensor in tensors.items():
            gathered = whole(tensor)
            if self.rank == 0 or not is_sharded(tensor):
                whole_tensors[name] = gathered.cpu()
            del gathered
        return super().gather_full(whole_tensors)


def _parts(model: nn.Module) -> list[Any]:
    return [part for part in model.modules() if isinstance(part, FSDPModule)]


def _starts_without_weights(layer: Any) -> bool:
    """Return whether the first state of a layer depends on sizes only: its weights need not be gathered then."""
    try:
        return not any(is_sharded(leaf) for leaf in leaves(layer.start(1)))
    except (RuntimeError, TypeError, AttributeError):
        return False


def _dropped(model: Any, inputs: Any, output: Any) -> None:
    """Drop the gathered weights of the root after a pass without gradient.

    FSDP2 keeps them for the backward pass, after which it drops them. Without a backward pass, they would remain. The
    next pass would use them even if the weights had been replaced meanwhile, for example by a moving average.
    """
    if not torch.is_grad_enabled():
        model.reshard()


def _require_rows(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim == 0:
            raise ConfigError(
                "this model cannot be trained with fsdp2",
                where="train.strategy",
                why=f"the parameter {name} is a scalar, and fsdp2 shards parameters by rows",
                help="use DDP: --set train.strategy=ddp",
            )


def repeated_layers(net: nn.Module) -> list[nn.Module]:
    """Return the layers of the network's stacks that share no parameter with any other module.

    Layers with T5's table of relative positions share it and are excluded. Recurrent stacks are excluded too: their
    cells return functions of their weights, which are called step by step.
    """
    holders = Counter(id(p) for part in net.modules() for p in part.parameters(recurse=False))
    occurrences = Counter(id(part) for _, part in net.named_modules(remove_duplicate=False))
    return [
        layer for layer in net.modules()
        if isinstance(layer, LAYERS)
        and all(holders[id(p)] == 1 for p in layer.parameters())
        and all(occurrences[id(part)] == 1 for part in layer.modules())
    ]  # fmt: skip

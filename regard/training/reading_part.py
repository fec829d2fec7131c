"""The part of a network that reads: extracted from another network's weights, copied into a new one, and frozen."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.core.tensors import kept_buffers
from regard.errors import ModelError
from regard.models.origin_config import EncoderStart

ENCODER = "encoder."
TABLES = ("embedding.weight", "embedding.values")  # one row per token; a masked model has a last row for the mask
AFFIXES = "embedding.affixes"  # of a tagger; learned if the other network lacks them


def reading_weights(weights: Mapping[str, Tensor], net: Mapping[str, Tensor], *, where: str) -> dict[str, Tensor]:
    """Return weights for the encoder of ``net`` (an outline, by name) from another network's ``weights``.

    The other network has an encoder, or is a language model, whose part that reads is everything except the output
    projection. If one embedding table has an additional row for the mask, the common rows are copied. ModelError if the
    parts differ.
    """
    available = {_plain(name): tensor for name, tensor in _reading(weights).items()}
    target_names = {_plain(name.removeprefix(ENCODER)): name for name in net if name.startswith(ENCODER)}
    if AFFIXES not in available:
        target_names.pop(AFFIXES, None)
    if differing := sorted(target_names.keys() ^ available.keys()):
        raise _misfit(where, f"they differ in {', '.join(differing[:3])}")
    for name, tensor in available.items():
        other_shape, own_shape = tensor.shape, net[target_names[name]].shape
        if other_shape != own_shape and not (
            name in TABLES and other_shape[1:] == own_shape[1:] and abs(other_shape[0] - own_shape[0]) == 1
        ):
            raise _misfit(where, f"{name} has the shape {list(other_shape)}, in the config {list(own_shape)}")
    return {
        target_names[name]: tensor[: len(net[target_names[name]])] if tensor.ndim else tensor
        for name, tensor in available.items()
    }


def _reading(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the part that reads, with the names of an encoder."""
    part = {name.removeprefix(ENCODER): tensor for name, tensor in weights.items() if name.startswith(ENCODER)}
    if not part:
        part = {name: tensor for name, tensor in weights.items() if not name.startswith("head.")}
    if "embedding.weight" not in part and "embedding.tokens.weight" not in part and "head.weight" in weights:
        part["embedding.weight"] = weights["head.weight"]  # a shared matrix, saved under its first name
    return part


def _plain(name: str) -> str:
    """Return the name of an embedding parameter, with or without embeddings of affixes."""
    return name.replace("embedding.tokens.", "embedding.")


def _misfit(where: str, why: str) -> ModelError:
    what = "the weights do not fit the encoder of this config"
    return ModelError(what, where=where, why=why, help="omit architecture and vocabulary: model.encoder.from sets them")


@torch.no_grad()
def overlay_weights(net: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return all weights of a network as its optimizer stores them, with those named in ``weights`` replaced."""
    own = {name: p.detach().float() if p.dtype == torch.bfloat16 else p.detach().clone()
           for name, p in net.named_parameters()} | kept_buffers(net)  # fmt: skip
    for name, tensor in weights.items():
        own[name] = torch.cat([tensor.to(own[name]), own[name][len(tensor) :]]) if tensor.ndim else tensor
    return own


def freeze(net: nn.Module, encoder: EncoderStart) -> int:
    """Freeze the parts of the encoder that its config names. Returns the number of frozen weights."""
    if encoder.frozen == "none":
        return 0
    prefixes = [ENCODER] if encoder.frozen == "all" else [f"{ENCODER}embedding.", f"{ENCODER}input_proj."]
    if isinstance(encoder.frozen, int):
        prefixes += [f"{ENCODER}layers.{number}." for number in range(encoder.frozen)]
    frozen = [parameter for name, parameter in net.named_parameters()
              if name.startswith(tuple(prefixes)) and not name.endswith(AFFIXES)]  # fmt: skip
    for parameter in frozen:
        parameter.requires_grad_(False)
    return sum(map(Tensor.numel, frozen))

"""The part of a network that reads: found in another's weights, laid over new ones, and kept as it came."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.core.tensors import kept_buffers
from regard.errors import ModelError
from regard.models.origin_config import EncoderStart

ENCODER = "encoder."
TABLES = ("embedding.weight", "embedding.values")  # a row a type: a masked model has one more, its last, for the mask
AFFIXES = "embedding.affixes"  # of a tagger: what starts from a network without them learns them


def reading_weights(weights: Mapping[str, Tensor], net: Mapping[str, Tensor], *, where: str) -> dict[str, Tensor]:
    """Weights of the encoder of ``net`` (an outline, by name), taken from another network's ``weights``.

    That has an encoder, too, or is a language model, all of which reads but for the projection of its output. Of a
    table with a row more or less for the mask come the rows that both have. ModelError where the parts differ.
    """
    found = {_plain(name): tensor for name, tensor in _reading(weights).items()}
    wanted = {_plain(name.removeprefix(ENCODER)): name for name in net if name.startswith(ENCODER)}
    if AFFIXES not in found:
        wanted.pop(AFFIXES, None)
    if differing := sorted(wanted.keys() ^ found.keys()):
        raise _misfit(where, f"they differ in {', '.join(differing[:3])}")
    for name, tensor in found.items():
        there, here = tensor.shape, net[wanted[name]].shape
        if there != here and not (name in TABLES and there[1:] == here[1:] and abs(there[0] - here[0]) == 1):
            raise _misfit(where, f"they differ in {name}: {list(there)} there, {list(here)} by the config")
    return {wanted[name]: tensor[: len(net[wanted[name]])] if tensor.ndim else tensor for name, tensor in found.items()}


def _reading(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the part that reads, by the names that an encoder has."""
    found = {name.removeprefix(ENCODER): tensor for name, tensor in weights.items() if name.startswith(ENCODER)}
    if not found:
        found = {name: tensor for name, tensor in weights.items() if not name.startswith("head.")}
    if "embedding.weight" not in found and "embedding.tokens.weight" not in found and "head.weight" in weights:
        found["embedding.weight"] = weights["head.weight"]  # one matrix, saved under its first name
    return found


def _plain(name: str) -> str:
    """The name of a part of the embeddings, whether or not they stand beside those of affixes."""
    return name.replace("embedding.tokens.", "embedding.")


def _misfit(where: str, why: str) -> ModelError:
    what = "its weights are not those of the encoder by this config"
    return ModelError(what, where=where, why=why, help="model.encoder.from takes architecture and vocabulary itself")


@torch.no_grad()
def laid_over(net: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All weights of a network as its optimizer keeps them, with ``weights`` in place of those of these names."""
    own = {name: each.detach().float() if each.dtype == torch.bfloat16 else each.detach().clone()
           for name, each in net.named_parameters()} | kept_buffers(net)  # fmt: skip
    for name, tensor in weights.items():
        own[name] = torch.cat([tensor.to(own[name]), own[name][len(tensor) :]]) if tensor.ndim else tensor
    return own


def freeze(net: nn.Module, encoder: EncoderStart) -> int:
    """Take from training what the config of the encoder says. Returns how many weights that are."""
    if encoder.frozen == "none":
        return 0
    kept = [ENCODER] if encoder.frozen == "all" else [f"{ENCODER}embedding.", f"{ENCODER}input_proj."]
    if isinstance(encoder.frozen, int):
        kept += [f"{ENCODER}layers.{number}." for number in range(encoder.frozen)]
    frozen = [each for name, each in net.named_parameters()
              if name.startswith(tuple(kept)) and not name.endswith(AFFIXES)]  # fmt: skip
    for parameter in frozen:
        parameter.requires_grad_(False)
    return sum(map(Tensor.numel, frozen))

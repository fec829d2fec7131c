"""OpenNMT-py: global attention with its output layer, the attention of convolutional decoders, average attention."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from .exchange import Kind, serve


def without_init(*packages: str) -> None:
    """Import modules of these packages without their __init__, which asks for tokenizers, pickles and torchtext."""
    (found,) = importlib.util.find_spec("onmt").submodule_search_locations
    for name in packages:
        package = ModuleType(name)
        package.__path__ = [str(Path(found).parent.joinpath(*name.split(".")))]
        sys.modules[name] = package


def luong(module: nn.Module, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    features, weights = module(query, source, length)
    return {"features": features, "weights": weights}


def convolved(
    module: nn.Module, embedded: Tensor, mixed: Tensor, states: Tensor, source: Tensor, length: Tensor
) -> dict[str, Tensor]:
    """As CNNDecoder calls it: values are states and embeddings together, columns last."""
    both = (states + source) * conv_multi_step_attention.SCALE_WEIGHT
    module.apply_mask((torch.arange(states.shape[1]) >= length[:, None])[:, None])
    target, inner = (x.transpose(1, 2)[..., None] for x in (embedded, mixed))
    context, weights = module(target, inner, states.transpose(1, 2), both.transpose(1, 2))
    return {"context": context[..., 0].transpose(1, 2), "weights": weights}


def averaged(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    return {"output": module(x)[0]}


if __name__ == "__main__":
    without_init("onmt", "onmt.modules", "onmt.utils")
    from onmt.modules import average_attn, conv_multi_step_attention, global_attention, rmsnorm

    serve(
        {
            "GlobalAttention": Kind(global_attention.GlobalAttention, luong),
            "ConvMultiStepAttention": Kind(conv_multi_step_attention.ConvMultiStepAttention, convolved),
            "AverageAttention": Kind(average_attn.AverageAttention, averaged),
            "RMSNorm": Kind(rmsnorm.RMSNorm, lambda module, x: {"output": module(x)}),
        }
    )

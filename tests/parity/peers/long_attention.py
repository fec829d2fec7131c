"""Hugging Face transformers: attention to windows, global columns and random blocks of BigBird and Longformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.big_bird.configuration_big_bird import BigBirdConfig
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel
from transformers.models.longformer.configuration_longformer import LongformerConfig
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from .exchange import Kind, serve


def big_bird(**sizes: int) -> nn.Module:
    config = BigBirdConfig(use_bias=False, attention_probs_dropout_prob=0.0, **sizes)
    return BigBirdBlockSparseAttention(config, seed=0)


def run_big_bird(module: nn.Module, x: Tensor, random: Tensor) -> dict[str, Tensor]:
    """With ``random`` (blocks − 2, drawn) as what it drew for each head."""
    module._bigbird_block_rand_mask_with_head = lambda **sizes: [random.numpy()] * sizes["num_heads"]
    blocked, band, begin, end = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(x.shape[:2], dtype=x.dtype), module.block_size
    )
    found = module(
        x, band_mask=band, from_mask=begin, to_mask=end, from_blocked_mask=blocked, to_blocked_mask=blocked
    )  # fmt: skip
    return {"output": found[0]}


def longformer(**sizes: object) -> nn.Module:
    module = LongformerSelfAttention(LongformerConfig(attention_probs_dropout_prob=0.0, **sizes), 0)
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    return module


def run_longformer(module: nn.Module, x: Tensor, valid: Tensor, is_global: Tensor) -> dict[str, Tensor]:
    asked = torch.where(is_global, 10000.0, torch.where(valid, 0.0, -10000.0)).to(x.dtype)
    found = module(
        x, attention_mask=asked, is_index_masked=asked < 0, is_index_global_attn=asked > 0, is_global_attn=True
    )[0]
    return {"output": found * valid[..., None]}


def without_biases(module: nn.Module) -> dict[str, Tensor]:
    return {name: each for name, each in module.named_parameters() if name.endswith("weight")}


if __name__ == "__main__":
    serve(
        {
            "BigBirdBlockSparseAttention": Kind(big_bird, run_big_bird),
            "LongformerSelfAttention": Kind(longformer, run_longformer, without_biases),
        }
    )

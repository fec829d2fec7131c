"""Hugging Face transformers: attention with T5's buckets or rotary positions, RMSNorm, gated feed-forwards."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention, T5DenseGatedActDense, T5LayerNorm

from .exchange import Kind, serve


def hidden_from(look: Tensor, x: Tensor) -> Tensor:
    """0 where a query may look, (batch, 1, query, key), else −∞."""
    return torch.zeros(look.shape).to(x).masked_fill(~look, -torch.inf)[:, None]


def t5_attention(decoder: bool, **sizes: int) -> nn.Module:
    config = T5Config(is_decoder=decoder, dropout_rate=0.0, **sizes)
    config._attn_implementation = "eager"
    return T5Attention(config, has_relative_attention_bias=True, layer_idx=0)


def run_t5(module: nn.Module, x: Tensor, look: Tensor) -> dict[str, Tensor]:
    return {"output": module(x, mask=hidden_from(look, x))[0]}


def buckets(module: nn.Module, distance: Tensor, two_sided: Tensor) -> dict[str, Tensor]:
    got = module._relative_position_bucket(distance, bidirectional=bool(two_sided))
    return {"bucket": got}


def llama_attention(**sizes: int) -> nn.Module:
    config = LlamaConfig(**sizes)
    config._attn_implementation = "eager"
    module = LlamaAttention(config, layer_idx=0)
    module.rotary = LlamaRotaryEmbedding(config)  # a buffer only; a whole model hands its angles to every layer
    return module


def run_llama(module: nn.Module, x: Tensor, position: Tensor, look: Tensor) -> dict[str, Tensor]:
    angles = module.rotary(x, position)
    return {"output": module(x, position_embeddings=angles, attention_mask=hidden_from(look, x))[0]}


def alone(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    return {"output": module(x)}


if __name__ == "__main__":
    serve(
        {
            "T5Attention": Kind(t5_attention, run_t5),
            "T5Attention buckets": Kind(t5_attention, buckets, lambda module: {}),
            "T5LayerNorm": Kind(T5LayerNorm, alone),
            "T5DenseGatedActDense": Kind(
                lambda **sizes: T5DenseGatedActDense(T5Config(dropout_rate=0.0, **sizes)), alone
            ),
            "LlamaAttention": Kind(llama_attention, run_llama),
            "LlamaRMSNorm": Kind(LlamaRMSNorm, alone),
            "LlamaMLP": Kind(lambda **sizes: LlamaMLP(LlamaConfig(**sizes)), alone),
        }
    )

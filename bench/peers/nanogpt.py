"""A GPT in plain torch, trained by the plain loop of nanoGPT (Karpathy 2022): the worker of ``nanogpt_speed``.

    python bench/peers/nanogpt.py SETTINGS.json float32|bfloat16

Written anew after its manner: pre-norm layers, learned positions, one matrix for query, key and value, torch's fused
causal attention, one matrix for embedding and output, cross-entropy of all logits at once, AdamW in one fused call,
norms clipped by torch; windows drawn with replacement from a memory map. bfloat16 is autocast. Not compiled, as
nanoGPT's configuration for a CPU is not.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serving import Served
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["GPT", "optimizer"]


class Attention(nn.Module):
    """Causal self-attention with dropout of weights and output."""

    def __init__(self, width: int, heads: int, dropout: float, *, bias: bool) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.output = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.output_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        query, key, value = (
            each.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for each in self.qkv(x).split(width, 2)
        )
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        found: Tensor = self.output_dropout(self.output(y.transpose(1, 2).contiguous().view(rows, length, width)))
        return found


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)), with GELU."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float, *, bias: bool) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, dropout, bias=bias)
        self.up, self.down = nn.Linear(width, inner, bias=bias), nn.Linear(inner, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        found: Tensor = x + self.dropout(self.down(functional.gelu(self.up(self.norm_2(x)))))
        return found


class GPT(nn.Module):
    """``scale``: of the embedded tokens, 1 in GPT-2; ``bias``: of every linear map and norm but the output."""

    def __init__(self, settings: dict[str, Any], *, bias: bool = True, scale: float = 1.0) -> None:
        super().__init__()
        width, types, context = settings["width"], settings["types"], settings["context"]
        sizes = (width, settings["heads"], settings["feed_forward"], settings["dropout"])
        self.scale = scale
        self.tokens, self.positions = nn.Embedding(types, width), nn.Embedding(context, width)
        self.dropout = nn.Dropout(settings["dropout"])
        self.blocks = nn.ModuleList(Block(*sizes, bias=bias) for _ in range(settings["layers"]))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.head = nn.Linear(width, types, bias=False)
        self.apply(_initial)
        for name, parameter in self.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                nn.init.normal_(parameter, std=0.02 / (2 * settings["layers"]) ** 0.5)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        x = self.tokens(tokens)
        x = self.dropout((x if self.scale == 1.0 else x * self.scale) + self.positions(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), target.reshape(-1))


def _initial(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def optimizer(model: nn.Module, settings: dict[str, Any]) -> torch.optim.AdamW:
    """AdamW that decays matrices, not vectors."""
    parameters = list(model.parameters())
    groups = [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": settings["weight_decay"]},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings["rate"], betas=tuple(settings["betas"]), eps=settings["epsilon"], fused=True
    )


def _windows(settings: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """As many windows as a batch has, from anywhere; the map is opened anew, as nanoGPT does against a leak."""
    data, context = np.memmap(settings["tokens"], dtype=np.uint16, mode="r"), settings["context"]
    at = torch.randint(len(data) - context, (settings["batch"],)).tolist()
    x = torch.stack([torch.from_numpy(data[i : i + context].astype(np.int64)) for i in at])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + context].astype(np.int64)) for i in at])
    return x, y


def _autocast(precision: str) -> AbstractContextManager[Any]:
    return nullcontext() if precision == "float32" else torch.autocast("cpu", dtype=torch.bfloat16)


def main(settings: dict[str, Any], precision: str) -> None:
    served = Served()
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1337)
    model = GPT(settings, bias=settings["bias"]).train()
    adam = optimizer(model, settings)
    parameters = sum(each.numel() for each in model.parameters())
    served.answer(torch=torch.__version__, threads=torch.get_num_threads(), parameters=parameters)
    x, y = _windows(settings)
    for _ in served:
        for _ in range(settings["block"]):
            with _autocast(precision):
                loss = model(x, y)
            x, y = _windows(settings)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
            adam.step()
            adam.zero_grad(set_to_none=True)
        served.answer(tokens=settings["block"] * y.numel(), loss=loss.item())


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2])

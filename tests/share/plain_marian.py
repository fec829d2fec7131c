"""A Marian model from its folder in a few lines of plain torch, by the formulas of transformers' documentation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, silu

ACTIVATIONS = {"relu": torch.relu, "gelu": gelu, "swish": silu}


class PlainMarian:
    """One sentence at a time, no cache, no batch."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = safetensors.torch.load_file(folder / "model.safetensors")

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """(target, types) after each of ``target``, which begins with what a decoder starts with."""
        states = self.embedded("encoder", source)
        for number in range(self.config["encoder_layers"]):
            layer = f"model.encoder.layers.{number}"
            states = self.normed(f"{layer}.self_attn_layer_norm", states + self.attend(f"{layer}.self_attn", states))
            states = self.fed(layer, states)
        x, future = self.embedded("decoder", target), torch.ones(len(target), len(target)).triu(1).bool()
        for number in range(self.config["decoder_layers"]):
            layer = f"model.decoder.layers.{number}"
            mixed = self.attend(f"{layer}.self_attn", x, hidden=future)
            x = self.normed(f"{layer}.self_attn_layer_norm", x + mixed)
            read = self.attend(f"{layer}.encoder_attn", x, states)
            x = self.normed(f"{layer}.encoder_attn_layer_norm", x + read)
            x = self.fed(layer, x)
        tied = self.config["tie_word_embeddings"]
        output = self.table("decoder") if tied else self.tensors["lm_head.weight"]
        return x @ output.T + self.tensors["final_logits_bias"]

    def table(self, side: str) -> Tensor:
        shared = self.config["share_encoder_decoder_embeddings"] and self.config["tie_word_embeddings"]
        return self.tensors["model.shared.weight" if shared else f"model.{side}.embed_tokens.weight"]

    def embedded(self, side: str, pieces: list[int]) -> Tensor:
        width = self.config["d_model"]
        angle = torch.arange(len(pieces))[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        return self.table(side)[pieces] * math.sqrt(width) + torch.cat([angle.sin(), angle.cos()], 1)

    def attend(self, name: str, x: Tensor, keys: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        heads = self.config["encoder_attention_heads"]
        keys = x if keys is None else keys
        query, key, value = (
            self.projected(f"{name}.{part}_proj", given).unflatten(1, (heads, -1)).transpose(0, 1)
            for part, given in (("q", x), ("k", keys), ("v", keys))
        )
        energies = query @ key.mT / math.sqrt(query.shape[2])
        energies = energies if hidden is None else energies.masked_fill(hidden, -math.inf)
        return self.projected(f"{name}.out_proj", (energies.softmax(2) @ value).transpose(0, 1).flatten(1))

    def fed(self, layer: str, x: Tensor) -> Tensor:
        inner = ACTIVATIONS[self.config["activation_function"]](self.projected(f"{layer}.fc1", x))
        return self.normed(f"{layer}.final_layer_norm", x + self.projected(f"{layer}.fc2", inner))

    def projected(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def normed(self, name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[1:], self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

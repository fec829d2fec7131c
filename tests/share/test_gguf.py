"""A model in GGUF, read by the public package of the format, has the logits of the run by Llama's formulas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.share import gguf as format
from regard.share.gguf import FILE, obstacles, write
from tests.share.test_causal_export import HALF, LLAMA, TEXTS, config_of, model_of, tokenizer_of

library: Any = pytest.importorskip("gguf", reason="the extra gguf is not installed")

MODELS: dict[str, dict[str, Any]] = {
    "plain": LLAMA,
    "half, separate output": LLAMA | {"position": HALF, "share": "none", "normalization_epsilon": 0.01},
    "grouped": LLAMA | {"heads": 4, "key_heads": 2, "width": 16},
    "biases, wide heads": LLAMA | {"attention_bias": True, "key_width": 8, "value_width": 8},
}


class Plain:
    """One text at a time, from the numbers of a file alone."""

    def __init__(self, path: Path) -> None:
        reader = library.GGUFReader(path)
        self.tensors = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in reader.tensors}
        self.keys = {name: field.contents() for name, field in reader.fields.items()}

    def logits(self, ids: list[int]) -> Tensor:
        x = self.tensors["token_embd.weight"][ids]
        for number in range(self.keys["llama.block_count"]):
            x = x + self.attend(f"blk.{number}", self.norm(f"blk.{number}.attn_norm", x))
            y = self.norm(f"blk.{number}.ffn_norm", x)
            gate, up = (self.linear(f"blk.{number}.ffn_{part}", y) for part in ("gate", "up"))
            x = x + self.linear(f"blk.{number}.ffn_down", silu(gate) * up)
        return self.norm("output_norm", x) @ self.tensors.get("output.weight", self.tensors["token_embd.weight"]).T

    def norm(self, name: str, x: Tensor) -> Tensor:
        epsilon = self.keys["llama.attention.layer_norm_rms_epsilon"]
        return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt() * self.tensors[f"{name}.weight"]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", torch.zeros(1))

    def attend(self, layer: str, x: Tensor) -> Tensor:
        heads, groups = self.keys["llama.attention.head_count"], self.keys["llama.attention.head_count_kv"]
        query = self.turned(self.linear(f"{layer}.attn_q", x).unflatten(1, (heads, -1)))
        key = self.turned(self.linear(f"{layer}.attn_k", x).unflatten(1, (groups, -1)))
        value = self.linear(f"{layer}.attn_v", x).unflatten(1, (groups, -1))
        key, value = (part.repeat_interleave(heads // groups, 1) for part in (key, value))
        energy = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(query.shape[-1])
        energy = energy.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
        return self.linear(f"{layer}.attn_output", torch.einsum("hqk,khd->qhd", energy.softmax(-1), value).flatten(1))

    def turned(self, x: Tensor) -> Tensor:
        """Rotate neighbors, as llama.cpp does for this architecture."""
        width = self.keys["llama.rope.dimension_count"]
        angle = torch.arange(len(x))[:, None] * self.keys["llama.rope.freq_base"] ** (
            -torch.arange(0, width, 2) / width
        )
        cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_logits_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    config, tokenizer = config_of(MODELS[name], "byte-bpe"), tokenizer_of("byte-bpe")
    assert obstacles(config) == [] and format.splitting_obstacles(tokenizer) == []
    model = model_of(config, len(tokenizer))
    write(model, config, tokenizer, tmp_path / FILE)
    plain = Plain(tmp_path / FILE)
    for text in TEXTS:
        ids = [BEGIN, *tokenizer.encode(text)][:40]
        features = model(torch.tensor([ids]), Span.of(torch.ones(1, len(ids), dtype=torch.bool))).features
        ours = model.head(features)[0]
        assert torch.allclose(plain.logits(ids).log_softmax(-1), ours.log_softmax(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_llama_cpp_computes_the_same(name: str, tmp_path: Path) -> None:
    """With keys and values in 32 bits, which llama.cpp keeps in 16 by default."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    config, tokenizer = config_of(MODELS[name], "byte-bpe"), tokenizer_of("byte-bpe")
    model = model_of(config, len(tokenizer))
    write(model, config, tokenizer, tmp_path / FILE)
    read = llama_cpp.Llama(
        str(tmp_path / FILE), n_ctx=64, logits_all=True, n_threads=1, type_k=0, type_v=0, verbose=False
    )
    for text in TEXTS:
        ids = [BEGIN, *tokenizer.encode(text)]
        assert read.tokenize(text.encode(), special=False) == ids
        read.reset()
        read.eval(ids[:40])
        valid = torch.ones(1, len(ids[:40]), dtype=torch.bool)
        ours = model.head(model(torch.tensor([ids[:40]]), Span.of(valid)).features)[0].log_softmax(-1)
        theirs = torch.from_numpy(read.scores[: len(ids[:40])].copy()).log_softmax(-1)
        assert torch.allclose(theirs, ours, rtol=0, atol=1e-4)


def test_the_tokenizer_is_in_the_file(tmp_path: Path) -> None:
    config, tokenizer = config_of(LLAMA, "byte-bpe"), tokenizer_of("byte-bpe")
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / FILE)
    keys = Plain(tmp_path / FILE).keys
    pieces = keys["tokenizer.ggml.tokens"]
    assert pieces[:4] == ["<pad>", "<unk>", "<s>", "</s>"] and pieces == tokenizer.pieces(range(len(tokenizer)))
    assert keys["tokenizer.ggml.token_type"][:5] == [3, 3, 3, 3, 1]
    assert (keys["tokenizer.ggml.bos_token_id"], keys["tokenizer.ggml.eos_token_id"]) == (BEGIN, END)
    first, second = keys["tokenizer.ggml.merges"][0].split(" ")
    assert first + second in pieces


def test_other_models_are_refused_with_all_reasons() -> None:
    reasons = "; ".join(obstacles(config_of({"position": "learned", "activation": "gelu"}, "character")))
    for part in ("gelu, not swiglu", "kind character, not byte-bpe", "layer, not rms", "learned, not rotary"):
        assert part in reasons
    assert obstacles(config_of(LLAMA | {"activation": "geglu"}, "byte-bpe")) == ["its activation is geglu, not swiglu"]

"""Language models of the class ``GPT2LMHeadModel``: LayerNorm, learned positions, biases everywhere.

Its matrices are (in, out), and one matrix holds queries, keys and values. The class always has biases in attention, so
they are 0 for a model without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from regard.models.causal_config import CausalStackConfig
from regard.models.position_config import LearnedConfig
from regard.share.causal_family import (
    PLAIN,
    PLAIN_READ,
    CausalFamily,
    CausalSettings,
    Layers,
    Packing,
    Size,
    has_standard_heads,
    joined,
    norm_names,
    one,
    transposed,
)
from regard.tasks.language_model.config import LanguageModelConfig


def _packings(stack: CausalStackConfig) -> Iterator[Packing]:
    yield one("wpe.weight", "embedding.position.table")
    for number in range(stack.layers):
        module, name = f"layers.{number}", f"h.{number}"
        yield from norm_names(f"{name}.ln_1", f"{module}.around_mixer.norm")
        stacked = [f"{module}.mixer.attention.{part}" for part in ("query", "key", "value")]
        yield joined(f"{name}.attn.c_attn.weight", tuple(f"{part}.weight" for part in stacked), transpose=True)
        yield joined(f"{name}.attn.c_attn.bias", tuple(f"{part}.bias" for part in stacked))
        yield from _linear(f"{name}.attn.c_proj", f"{module}.mixer.attention.output")
        yield from norm_names(f"{name}.ln_2", f"{module}.around_feed_forward.norm")
        yield from _linear(f"{name}.mlp.c_fc", f"{module}.feed_forward.up")
        yield from _linear(f"{name}.mlp.c_proj", f"{module}.feed_forward.down")
    yield from norm_names("ln_f", "norm")


def _linear(name: str, module: str) -> Iterator[Packing]:
    yield transposed(f"{name}.weight", f"{module}.weight")
    yield one(f"{name}.bias", f"{module}.bias")


def _reasons(stack: CausalStackConfig) -> dict[str, bool]:
    return {
        f"its normalization is {stack.normalization}, not layer": stack.normalization != "layer",
        f"its positions are {stack.position.kind}, not learned": not isinstance(stack.position, LearnedConfig),
        f"its activation is {stack.activation}, which is gated": stack.activation not in PLAIN,
        "its heads share keys, or their width is not the model width / the number of heads": not has_standard_heads(
            stack
        ),
    }


def _config(config: LanguageModelConfig) -> dict[str, Any]:
    stack = config.model.decoder
    assert isinstance(stack.position, LearnedConfig)
    return {
        "n_embd": stack.width,
        "n_inner": stack.feed_forward,
        "n_layer": stack.layers,
        "n_head": stack.heads,
        "n_positions": stack.position.longest,
        "activation_function": PLAIN[stack.activation],
        "layer_norm_epsilon": stack.normalization_epsilon or 1e-5,
        "resid_pdrop": stack.dropout,
        "embd_pdrop": stack.dropout,
        "attn_pdrop": stack.attention_dropout,
    }


class GPT2Settings(CausalSettings):
    """Keys of ``config.json`` of a GPT-2 model."""

    tied = True

    vocab_size: int = Field(50257, ge=4, le=1 << 24)
    bos_token_id: int | None = Field(50256, ge=0)
    eos_token_id: Any = 50256
    n_embd: Size = 768
    n_inner: Size | None = None
    n_layer: Layers = 12
    n_head: Size = 12
    n_positions: Size = 1024
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = Field(1e-5, gt=0, le=1)
    resid_pdrop: float = Field(0.1, ge=0, lt=1)
    attn_pdrop: float = Field(0.1, ge=0, lt=1)
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: bool = False

    @property
    def context(self) -> int:
        return self.n_positions

    def reasons(self) -> dict[str, bool]:
        return super().reasons() | {
            f"its activation is {self.activation_function}": self.activation_function not in PLAIN_READ,
            "its energies are not scaled by 1/√(head width) only": not self.scale_attn_weights
            or self.scale_attn_by_inverse_layer_idx,
            "it has cross-attention (`add_cross_attention`)": self.add_cross_attention,
        }

    def stack(self) -> dict[str, Any]:
        return {
            "layers": self.n_layer,
            "width": self.n_embd,
            "feed_forward": self.n_inner or 4 * self.n_embd,
            "heads": self.n_head,
            "activation": PLAIN_READ[self.activation_function],
            "dropout": self.resid_pdrop,
            "attention_dropout": self.attn_pdrop,
            "attention_bias": True,
            "normalization": "layer",
            "normalization_epsilon": self.layer_norm_epsilon,
            "position": {"kind": "learned", "longest": self.n_positions},
        }


GPT2 = CausalFamily(
    kind="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    table="wte.weight",
    last="ln_f",
    outputs=("lm_head.weight",),
    unlearned=r".*\.attn\.(bias|masked_bias)",
    packings=_packings,
    reasons=_reasons,
    config=_config,
    settings=GPT2Settings,
)

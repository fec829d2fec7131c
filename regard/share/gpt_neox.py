"""Language models of the class ``GPTNeoXForCausalLM`` with sequential sub-layers: LayerNorm and rotary positions.

One matrix holds queries, keys and values, grouped by head. Two options of the class are not supported, and Pythia uses
both: partial rotary positions, and parallel attention and feed-forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from regard.models.causal_config import CausalStackConfig
from regard.models.position_config import RotaryConfig
from regard.share.causal_family import (
    PLAIN,
    PLAIN_READ,
    CausalFamily,
    CausalSettings,
    Layers,
    Packing,
    RopeSettings,
    Size,
    biased,
    has_standard_heads,
    joined,
    norm_names,
    one,
    rope_table,
)
from regard.tasks.language_model.config import LanguageModelConfig


def _packings(stack: CausalStackConfig) -> Iterator[Packing]:
    for number in range(stack.layers):
        name = f"layers.{number}"
        yield from norm_names(f"{name}.input_layernorm", f"{name}.around_mixer.norm")
        for part in ("weight", "bias") if biased(stack) else ("weight",):
            stacked = tuple(f"{name}.mixer.attention.{projection}.{part}" for projection in ("query", "key", "value"))
            yield joined(f"{name}.attention.query_key_value.{part}", stacked, heads=stack.heads)
            yield one(f"{name}.attention.dense.{part}", f"{name}.mixer.attention.output.{part}")
        yield from norm_names(f"{name}.post_attention_layernorm", f"{name}.around_feed_forward.norm")
        for part in ("weight", "bias"):
            yield one(f"{name}.mlp.dense_h_to_4h.{part}", f"{name}.feed_forward.up.{part}")
            yield one(f"{name}.mlp.dense_4h_to_h.{part}", f"{name}.feed_forward.down.{part}")
    yield from norm_names("final_layer_norm", "norm")


def _reasons(stack: CausalStackConfig) -> dict[str, bool]:
    return {
        f"its normalization is {stack.normalization}, not layer": stack.normalization != "layer",
        f"its positions are {stack.position.kind}, not rotary": not isinstance(stack.position, RotaryConfig),
        f"its activation is {stack.activation}, which is gated": stack.activation not in PLAIN,
        "its heads share keys, or their width is not the model width / the number of heads": not has_standard_heads(
            stack
        ),
    }


def _config(config: LanguageModelConfig) -> dict[str, Any]:
    stack = config.model.decoder
    position = stack.position
    assert isinstance(position, RotaryConfig)
    return {
        "hidden_size": stack.width,
        "intermediate_size": stack.feed_forward,
        "num_hidden_layers": stack.layers,
        "num_attention_heads": stack.heads,
        "hidden_act": PLAIN[stack.activation],
        "max_position_embeddings": config.data.context,
        "layer_norm_eps": stack.normalization_epsilon or 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": position.base, "partial_rotary_factor": 1.0},
        "rotary_emb_base": position.base,
        "rotary_pct": 1.0,
        "use_parallel_residual": False,
        "attention_bias": bool(biased(stack)),
        "attention_dropout": stack.attention_dropout,
        "hidden_dropout": stack.dropout,
    }


class GPTNeoXSettings(CausalSettings):
    """Keys of ``config.json`` of a GPT-NeoX model."""

    hidden_size: Size = 6144
    intermediate_size: Size = 24576
    num_hidden_layers: Layers = 44
    num_attention_heads: Size = 64
    hidden_act: str = "gelu"
    max_position_embeddings: Size = 2048
    layer_norm_eps: float = Field(1e-5, gt=0, le=1)
    rope_parameters: RopeSettings | None = None
    rope_scaling: RopeSettings | None = None
    rotary_emb_base: float = Field(10000.0, gt=1)
    rotary_pct: float = 0.25
    use_parallel_residual: bool = True
    attention_bias: bool = True
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    hidden_dropout: float = Field(0.0, ge=0, lt=1)

    @property
    def rope(self) -> RopeSettings:
        return self.rope_parameters or self.rope_scaling or RopeSettings()

    @property
    def context(self) -> int:
        return self.max_position_embeddings

    def reasons(self) -> dict[str, bool]:
        rotated = self.rope.partial_rotary_factor
        return super().reasons() | {
            f"its activation is {self.hidden_act}": self.hidden_act not in PLAIN_READ,
            "its attention and feed-forward are parallel (`use_parallel_residual`)": self.use_parallel_residual,
            f"its rotary positions are scaled ({self.rope.kind})": self.rope.kind != "default",
            "its rotary positions rotate only a part of each head": (self.rotary_pct if rotated is None else rotated)
            != 1.0,
        }

    def stack(self) -> dict[str, Any]:
        return {
            "layers": self.num_hidden_layers,
            "width": self.hidden_size,
            "feed_forward": self.intermediate_size,
            "heads": self.num_attention_heads,
            "activation": PLAIN_READ[self.hidden_act],
            "dropout": self.hidden_dropout,
            "attention_dropout": self.attention_dropout,
            "attention_bias": self.attention_bias,
            "normalization": "layer",
            "normalization_epsilon": self.layer_norm_eps,
            "position": rope_table(self.rope.rope_theta or self.rotary_emb_base),
        }


GPT_NEOX = CausalFamily(
    kind="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    prefix="gpt_neox.",
    table="embed_in.weight",
    last="final_layer_norm",
    outputs=("lm_head.weight", "embed_out.weight"),
    unlearned=r".*\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",
    packings=_packings,
    reasons=_reasons,
    config=_config,
    settings=GPTNeoXSettings,
)

"""Language models of the class ``LlamaForCausalLM``, and imports of Mistral and Qwen 2 as Llama models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from regard.models.causal_config import CausalStackConfig
from regard.models.position_config import RotaryConfig
from regard.share.causal_family import (
    CausalFamily,
    CausalSettings,
    Layers,
    Packing,
    RopeSettings,
    Size,
    biased,
    norm_names,
    one,
    rope_table,
)
from regard.tasks.language_model.config import LanguageModelConfig

GATED = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}
GATED_READ = {foreign: own for own, foreign in GATED.items()} | {"swish": "swiglu"}
PROJECTED = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}


def _packings(stack: CausalStackConfig) -> Iterator[Packing]:
    for number in range(stack.layers):
        name = f"layers.{number}"
        yield from norm_names(f"{name}.input_layernorm", f"{name}.around_mixer.norm", bias=False)
        for projection, foreign in PROJECTED.items():
            for part in ("weight", "bias") if projection in biased(stack) else ("weight",):
                yield one(f"{name}.self_attn.{foreign}.{part}", f"{name}.mixer.attention.{projection}.{part}")
        yield from norm_names(f"{name}.post_attention_layernorm", f"{name}.around_feed_forward.norm", bias=False)
        for part in ("gate", "up", "down"):
            yield one(f"{name}.mlp.{part}_proj.weight", f"{name}.feed_forward.{part}.weight")
    yield from norm_names("norm", "norm", bias=False)


def _reasons(stack: CausalStackConfig) -> dict[str, bool]:
    head_width = stack.width // stack.heads
    return {
        f"its normalization is {stack.normalization}, not rms": stack.normalization != "rms",
        f"its positions are {stack.position.kind}, not rotary": not isinstance(stack.position, RotaryConfig),
        f"its activation is {stack.activation}, which is not gated": stack.activation not in GATED,
        "its width is not divisible by its number of heads": stack.width % stack.heads != 0,
        "its keys and values differ in width": (stack.key_width or head_width) != (stack.value_width or head_width),
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
        "num_key_value_heads": stack.key_heads or stack.heads,
        "head_dim": stack.key_width or stack.width // stack.heads,
        "hidden_act": GATED[stack.activation],
        "max_position_embeddings": config.data.context,
        "rms_norm_eps": stack.normalization_epsilon or 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": position.base},
        "rope_theta": position.base,
        "attention_bias": bool(biased(stack)),
        "attention_dropout": stack.attention_dropout,
        "mlp_bias": False,
    }


class LlamaSettings(CausalSettings):
    """Keys of ``config.json`` of a Llama model."""

    hidden_size: Size = 4096
    intermediate_size: Size = 11008
    num_hidden_layers: Layers = 32
    num_attention_heads: Size = 32
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    hidden_act: str = "silu"
    max_position_embeddings: Size = 2048
    rms_norm_eps: float = Field(1e-6, gt=0, le=1)
    rope_parameters: RopeSettings | None = None
    rope_scaling: RopeSettings | None = None
    rope_theta: float | None = Field(None, gt=1)
    attention_bias: bool = False
    attention_dropout: float | None = Field(0.0, ge=0, lt=1)
    mlp_bias: bool = False

    @property
    def rope(self) -> RopeSettings:
        return self.rope_parameters or self.rope_scaling or RopeSettings()

    @property
    def context(self) -> int:
        return self.max_position_embeddings

    @property
    def bias(self) -> tuple[str, ...]:
        """Return the projections that have a bias."""
        return tuple(PROJECTED) if self.attention_bias else ()

    @property
    def window(self) -> int | None:
        """Return the number of tokens that a token attends to, including itself; None: all."""
        return None

    def reasons(self) -> dict[str, bool]:
        return super().reasons() | {
            f"its activation is {self.hidden_act}": self.hidden_act not in GATED_READ,
            "its feed-forwards have biases": self.mlp_bias,
            f"its rotary positions are scaled ({self.rope.kind})": self.rope.kind != "default",
            "its rotary positions rotate only a part of each head": self.rope.partial_rotary_factor not in (None, 1.0),
        }

    def stack(self) -> dict[str, Any]:
        width = self.head_dim or max(self.hidden_size // self.num_attention_heads, 1)
        mixer: dict[str, Any] = {"kind": "dot"}
        if self.window is not None:
            mixer["neighborhood"] = max(self.window - 1, 1)
        if 0 < len(self.bias) < len(PROJECTED):
            mixer["bias"] = list(self.bias)
        return {
            "layers": self.num_hidden_layers,
            "width": self.hidden_size,
            "feed_forward": self.intermediate_size,
            "heads": self.num_attention_heads,
            "key_heads": self.num_key_value_heads,
            "key_width": width,
            "value_width": width,
            "activation": GATED_READ[self.hidden_act],
            "attention_bias": len(self.bias) == len(PROJECTED),
            "attention_dropout": self.attention_dropout or 0.0,
            "normalization": "rms",
            "normalization_epsilon": self.rms_norm_eps,
            "position": rope_table(self.rope.rope_theta or self.rope_theta),
            "mixer": mixer,
        }


class MistralSettings(LlamaSettings):
    """Keys of ``config.json`` of a Mistral model, whose attention may be limited to a window."""

    intermediate_size: Size = 14336
    num_key_value_heads: Size | None = 8
    max_position_embeddings: Size = 4096 * 32
    sliding_window: int | None = Field(4096, ge=2, le=1 << 20)

    @property
    def bias(self) -> tuple[str, ...]:
        return ()

    @property
    def window(self) -> int | None:
        return self.sliding_window


class Qwen2Settings(LlamaSettings):
    """Keys of ``config.json`` of a Qwen 2 model, whose queries, keys and values have biases."""

    intermediate_size: Size = 22016
    num_key_value_heads: Size | None = 32
    max_position_embeddings: Size = 32768
    use_sliding_window: bool = False

    @property
    def bias(self) -> tuple[str, ...]:
        return ("query", "key", "value")

    def reasons(self) -> dict[str, bool]:
        return super().reasons() | {
            "some of its layers attend to a window (`use_sliding_window`)": self.use_sliding_window
        }


LLAMA = CausalFamily(
    kind="llama",
    architecture="LlamaForCausalLM",
    prefix="model.",
    table="embed_tokens.weight",
    last="norm",
    outputs=("lm_head.weight",),
    unlearned=r".*\.rotary_emb\.inv_freq",
    packings=_packings,
    reasons=_reasons,
    config=_config,
    settings=LlamaSettings,
)


def _read_as_llama(kind: str, architecture: str, settings: type[LlamaSettings]) -> CausalFamily:
    common = {name: getattr(LLAMA, name) for name in LLAMA.__dataclass_fields__}
    return CausalFamily(**common | {"kind": kind, "architecture": architecture, "settings": settings})


MISTRAL = _read_as_llama("mistral", "MistralForCausalLM", MistralSettings)
QWEN2 = _read_as_llama("qwen2", "Qwen2ForCausalLM", Qwen2Settings)

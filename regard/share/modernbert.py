"""Import of encoders of the class ModernBERT: pre-norm layers, rotary positions, local and global attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from regard.models.transformer.config import TransformerEncoderConfig
from regard.share.causal_family import PLAIN_READ, Layers, Packing, RopeSettings, Size, joined, norm_names
from regard.share.pretrained_encoder import EncoderSettings, Epsilon, PretrainedEncoder, Probability

GLOBAL, LOCAL = "full_attention", "sliding_attention"


class ModernBertSettings(EncoderSettings):
    """Keys of ``config.json`` of ModernBERT, as earlier or later versions of transformers write them."""

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)] = 50368
    pad_token_id: Annotated[int, Field(ge=0, lt=1 << 24)] = 50283
    hidden_size: Size = 768
    intermediate_size: Size = 1152
    num_hidden_layers: Layers = 22
    num_attention_heads: Size = 12
    hidden_activation: str = "gelu"
    classifier_activation: str = "gelu"
    max_position_embeddings: Size = 8192
    norm_eps: Epsilon = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    attention_dropout: Probability = 0.0
    embedding_dropout: Probability = 0.0
    mlp_dropout: Probability = 0.0
    local_attention: Size = 128
    layer_types: list[str] | None = None
    global_attn_every_n_layers: Layers = 3
    rope_parameters: dict[str, RopeSettings] | None = None
    global_rope_theta: float = Field(160_000.0, gt=1)
    local_rope_theta: float = Field(10_000.0, gt=1)

    @property
    def positions(self) -> int:
        return self.max_position_embeddings

    @property
    def transform(self) -> str:
        return PLAIN_READ.get(self.classifier_activation, "")

    @property
    def transform_biases(self) -> tuple[bool, bool]:
        return self.classifier_bias, self.norm_bias

    @property
    def output_bias(self) -> bool:
        return self.decoder_bias

    @property
    def every(self) -> int | None:
        """Return n if every n-th layer, from the first, attends to all positions; None for any other order."""
        if self.layer_types is None:
            return self.global_attn_every_n_layers
        count = self.num_hidden_layers
        orders = {n: [LOCAL if number % n else GLOBAL for number in range(count)] for n in range(1, min(count, 64) + 1)}
        return next((n for n, order in orders.items() if order == self.layer_types), None)

    def _rope(self, kind: str) -> RopeSettings:
        return (self.rope_parameters or {}).get(kind) or RopeSettings()

    def reasons(self) -> dict[str, bool]:
        kinds = [self._rope(kind).kind for kind in (GLOBAL, LOCAL)]
        return super().reasons() | {
            f"its activation is {self.hidden_activation}": self.hidden_activation != "gelu",
            f"the activation of its head is {self.classifier_activation}": self.transform in ("", "relu2"),
            "its feed-forwards have biases": self.mlp_bias,
            "its layers with global attention are not every n-th from the first": self.every is None,
            f"its rotary positions are scaled ({', '.join(kinds)})": {*kinds} != {"default"},
        }

    def stack(self) -> dict[str, Any]:
        global_base = self._rope(GLOBAL).rope_theta or self.global_rope_theta
        local_base = self._rope(LOCAL).rope_theta or self.local_rope_theta
        position = {"kind": "rotary", "layout": "half", "base": global_base if self.every == 1 else local_base}
        local = {
            "mixer": {"kind": "dot", "neighborhood": max(self.local_attention // 2, 1)},
            "global_every": self.every,
            "global_base": global_base,
        }
        return {
            "layers": self.num_hidden_layers,
            "width": self.hidden_size,
            "feed_forward": self.intermediate_size,
            "heads": self.num_attention_heads,
            "activation": "geglu",
            "dropout": self.embedding_dropout,
            "attention_dropout": self.attention_dropout,
            "feed_forward_dropout": self.mlp_dropout,
            "attention_bias": self.attention_bias,
            "norm": "pre",
            "normalization_epsilon": self.norm_eps,
            "embedding_norm": True,
            "first_norm": False,
            "position": position,
            **({} if self.every == 1 else local),
        }


def _packings(settings: ModernBertSettings, encoder: TransformerEncoderConfig) -> Iterator[Packing]:
    bias = settings.norm_bias
    yield from norm_names("embeddings.norm", "encoder.embedding.norm", bias=bias)
    for number in range(encoder.layers):
        foreign, own = f"layers.{number}", f"encoder.layers.{number}"
        if number:
            yield from norm_names(f"{foreign}.attn_norm", f"{own}.around_mixer.norm", bias=bias)
        for part in ("weight", "bias") if settings.attention_bias else ("weight",):
            parts = tuple(f"{own}.mixer.attention.{name}.{part}" for name in ("query", "key", "value"))
            yield joined(f"{foreign}.attn.Wqkv.{part}", parts)
        yield from norm_names(f"{foreign}.attn.Wo", f"{own}.mixer.attention.output", bias=settings.attention_bias)
        yield from norm_names(f"{foreign}.mlp_norm", f"{own}.around_feed_forward.norm", bias=bias)
        yield joined(f"{foreign}.mlp.Wi.weight", (f"{own}.feed_forward.gate.weight", f"{own}.feed_forward.up.weight"))
        yield from norm_names(f"{foreign}.mlp.Wo", f"{own}.feed_forward.down", bias=False)
    yield from norm_names("final_norm", "encoder.norm", bias=bias)


MODERNBERT = PretrainedEncoder(
    kind="modernbert",
    classes="ModernBert",
    prefix="model.",
    table="embeddings.tok_embeddings.weight",
    packings=_packings,
    transform=("head.dense", "head.norm"),
    output="decoder.weight",
    bias=("decoder.bias",),
    ignored=r"classifier\..*",
    settings=ModernBertSettings,
    specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
)

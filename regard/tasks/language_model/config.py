"""The config of a language model: text, a stack of layers, and how it generates. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import Misfit
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.attention_config import MechanismConfig, MixerConfig
from regard.models.configuration import Activation, ModelConfig
from regard.models.position_config import PositionConfig, RotaryConfig
from regard.runs.config import DataSection, Proposal, RunConfig

__all__ = ["GenerateConfig", "LanguageModelConfig", "LayersConfig", "TextDataConfig"]

LOSSLESS = ("byte", "character", "byte-bpe")  # kinds of tokenizers that give every text back as it was
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, feed_forward=512, heads=4, dropout=0.0),
    "small": dict(layers=6, width=256, feed_forward=1024, heads=4, dropout=0.1),
    "base": dict(layers=12, width=768, feed_forward=3072, heads=12, dropout=0.1),
}


class TextDataConfig(DataSection):
    """Texts, and how they become token numbers."""

    train: tuple[TextConfig, ...]  # none where a model came without its data
    valid: tuple[TextConfig, ...] | None = None
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="character"), description="`character`, `byte` or `byte-bpe`, which give every text back"
    )
    context: int = Field(256, ge=1, le=1 << 20, description="tokens of a window: the most that a prediction sees")

    @model_validator(mode="after")
    def _gives_the_text_back(self) -> Self:
        if self.tokenizer.kind not in LOSSLESS or self.tokenizer.lowercase:
            raise Misfit(
                "data.tokenizer",
                why=f"a language model's tokenizer gives the text back as it was: {', '.join(LOSSLESS)}, as written",
                help="--set data.tokenizer.kind=byte-bpe",
            )
        return self


class LayersConfig(BaseModel):
    """The stack of a language model. ``preset`` fills in what is not given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Literal["tiny", "small", "base"] | None = Field(None, description="sizes by name")
    layers: int = Field(4, ge=1, le=1000, description="N")
    width: int = Field(128, ge=2, le=1 << 20, description="d_model")
    feed_forward: int = Field(512, ge=1, le=1 << 20, description="d_ff")
    activation: Activation = Field("gelu", description="of the feed-forward; the gated ones have a third matrix")
    heads: int = Field(4, ge=1, le=1 << 20, description="h")
    key_heads: int | None = Field(None, ge=1, description="heads of keys and values; fewer than heads: MQA, GQA")
    dropout: float = Field(0.0, ge=0, lt=1, description="on sub-layer outputs and embeddings")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights, before they read values")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="on inner units, after activation")
    norm: Literal["post", "pre"] = Field("pre", description="normalise after or before the sub-layer")
    normalisation: Literal["layer", "rms", "none"] = Field("layer", description="the normalisation")
    position: PositionConfig = RotaryConfig()
    share: Literal["all", "none"] = Field("all", description="one matrix for embedding and output projection; none")
    init_std: float | None = Field(0.02, gt=0, description="matrices start N(0, this²); unset: Glorot-uniform")
    self_attention: MechanismConfig = MechanismConfig()
    mixer: MixerConfig | None = Field(None, description="in self-attention's place; unset: self-attention")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        sizes = PRESETS.get(str(given.get("preset")), {}) if isinstance(given, dict) else {}
        return sizes | given if isinstance(given, dict) else given

    def as_decoder(self, context: int) -> ModelConfig:
        """The same stack as the decoder of a ``ModelConfig``, which ``models.transformer.build`` reads."""
        shared = self.model_dump(include={
            "width", "feed_forward", "activation", "heads", "key_heads", "dropout", "attention_dropout",
            "feed_forward_dropout", "norm", "normalisation", "position", "init_std", "self_attention",
        }, exclude_none=True)  # fmt: skip
        mixer = {"mixer": self.mixer.model_dump()} if self.mixer is not None else {}
        side = {"kind": "transformer"} | mixer
        return ModelConfig.model_validate(
            shared | {"decoder_layers": self.layers, "decoder": side, "longest": context, "init_std": self.init_std}
        )


class GenerateConfig(BaseModel):
    """Settings of text generation, unless a command says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    length: int = Field(500, ge=1, description="tokens at most")
    temperature: Annotated[float, Field(gt=0)] | None = Field(
        None, description="logits are divided by this before drawing, 1.0 unless given; 0 on the command line: greedy"
    )
    top_k: int | None = Field(None, ge=1, description="draw among the k most probable tokens")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="draw among the fewest tokens whose probability reaches p"
    )


class LanguageModelConfig(RunConfig):
    """Everything that decides a language model's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("perplexity",)

    data: TextDataConfig
    model: LayersConfig = LayersConfig()
    generate: GenerateConfig = GenerateConfig()

    @property
    def width(self) -> int:
        return self.model.width

    @property
    def layers(self) -> int:
        return self.model.layers

    @property
    def summary(self) -> str:
        model = self.model
        kind = model.mixer.kind if model.mixer else f"{model.self_attention.kind} self-attention"
        return (
            f"language model, {model.layers} layers, width {model.width}, feed-forward {model.feed_forward}, "
            f"{model.heads} heads, {model.norm}-norm, {kind}, {model.position.kind} positions, "
            f"context {self.data.context}, dropout {model.dropout}"
        )

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("it should have the size of one vocabulary, types")

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one text alone."""
        from regard.tasks.language_model.automatic_config import choose

        return choose(files, valid, given) if len(files) == 1 else None

    @model_validator(mode="before")
    @classmethod
    def _smooths_nothing(cls, given: Any) -> Any:
        """Label smoothing, a habit of translation, only where it is asked for."""
        if not isinstance(given, dict) or not isinstance(given.get("train", {}), dict):
            return given
        return given | {"train": {"label_smoothing": 0.0} | given.get("train", {})}

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        self.model.as_decoder(self.data.context)  # its checks are this model's
        if self.train.batch_tokens < self.data.context:
            raise Misfit(
                "train.batch_tokens",
                "data.context",
                why=f"a batch of {self.train.batch_tokens:,} tokens holds no window of {self.data.context:,}",
                help=f"--set train.batch_tokens={self.data.context}, or a smaller data.context",
            )
        return self

"""Config of a model from frames to tokens: an encoder, a decoder or none, and CTC. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.models.configuration import ModelConfig
from regard.models.convolutional.config import ConvolutionalDecoderConfig
from regard.models.presets import PRESETS
from regard.models.recurrent.config import RecurrentDecoderConfig
from regard.models.stack_config import NoDecoderConfig
from regard.models.transformer.config import TransformerDecoderConfig

SpeechDecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig | NoDecoderConfig,
    Discriminator("kind"),
]


class SpeechModelConfig(ModelConfig):
    """Encoder of frames, decoder of tokens, and the weight of CTC."""

    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    decoder: SpeechDecoderConfig = TransformerDecoderConfig()  # type: ignore[assignment]  # one kind more
    share: Literal["all", "target", "none"] = Field(
        "target", description="matrices that are shared: target embedding and output, or none; frames share none"
    )
    ctc: float = Field(
        0.3,
        ge=0,
        lt=1,
        description="weight of CTC in the loss, next to that of the decoder; 0: no CTC. Without a decoder it is 1",
    )

    @property
    def alone(self) -> bool:
        """True if CTC is the only output."""
        return self.decoder.kind == "none"

    @model_validator(mode="after")
    def _check_frames(self) -> SpeechModelConfig:
        if self.share == "all":
            raise InvalidCombination(
                "model.share", why="frames have no embeddings that could be shared", help='set model.share = "target"'
            )
        if self.copying:
            raise InvalidCombination(
                "model.copying", why="outputs cannot repeat frames", help="set model.copying = false"
            )
        return self

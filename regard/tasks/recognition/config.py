"""The config of a recognizer: recordings with transcripts, encoder, decoder and CTC. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.search_settings import RecognitionSettings
from regard.config.setting_models import config_model
from regard.config.settings import ChoiceConfig, SearchConfig
from regard.models.speech_config import SpeechModelConfig
from regard.models.speech_summary import speech_summary
from regard.runs.run_config import Confidence, Proposal, UnsmoothedRunConfig
from regard.tasks.recognition.data_config import RecognitionDataConfig

METRIC_NAMES = ("wer", "cer", "words_in_silence")

if TYPE_CHECKING:
    RecognitionFields = RecognitionSettings
else:
    RecognitionFields = config_model(RecognitionSettings)


class RecognitionSearchConfig(RecognitionFields, SearchConfig):
    """Search for the text of a recording."""

    lm: str | None = Field(
        None, min_length=1, description="run folder of a language model whose scores are added (`lm_weight`)"
    )

    @model_validator(mode="after")
    def _does_not_sample(self) -> Self:
        if self.temperature is not None:
            raise ValueError("temperature does not apply to recognition, which searches the most probable text")
        return self


class RecognitionConfig(UnsmoothedRunConfig):
    """Config of a recognition run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = METRIC_NAMES
    encoder_obstacle: ClassVar[str | None] = "its inputs are frames, which no vocabulary encodes"
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer", "input", "frame_rate")

    data: RecognitionDataConfig
    model: SpeechModelConfig = SpeechModelConfig()
    search: RecognitionSearchConfig = RecognitionSearchConfig()

    @property
    def search_settings(self) -> ChoiceConfig:
        return self.search

    @property
    def width(self) -> int:
        return int(self.model.decoder.width)

    @property
    def layers(self) -> int:
        return int(self.model.encoder.depth + self.model.decoder.depth)

    @property
    def summary(self) -> str:
        return speech_summary(self.model)

    @property
    def reads_frames(self) -> bool:
        return True

    @property
    def reads_files(self) -> bool:
        return self.data.input == "audio"

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"channels", "types"}:
            raise ValueError("expected the keys `channels` (numbers of a frame) and `types` (size of the vocabulary)")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], settings: Mapping[str, Any]) -> Confidence:
        from regard.tasks.recognition.automatic_config import confidence

        return confidence(files)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], settings: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for a .npz of frames and texts, a list of sounds, or a folder."""
        from regard.tasks.recognition.automatic_config import propose

        return propose(files, valid, settings)

    @model_validator(mode="after")
    def _ctc_is_trained_if_searched(self) -> Self:
        default = type(self.search).model_fields["ctc_weight"].default  # saved configs have every key
        changed = self.search.ctc_weight not in (0, default)
        if changed and not self.model.ctc and not self.model.alone:
            raise InvalidCombination(
                "search.ctc_weight",
                "model.ctc",
                why="the model has no CTC",
                help="--set model.ctc=0.3, or remove search.ctc_weight",
            )
        return self

    @model_validator(mode="after")
    def _warps_have_frequencies(self) -> Self:
        if self.data.sound.warp and self.data.input == "frames":
            raise InvalidCombination(
                "data.sound.warp",
                "data.input",
                why="the frequencies of the numbers of a frame are unknown",
                help="remove data.sound.warp",
            )
        return self

"""The config of a language model: text, a stack of layers, and how it generates. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.search_settings import GenerationSettings
from regard.config.setting_models import config_model
from regard.config.settings import ChoiceConfig
from regard.core.wording import pluralize
from regard.data.documents import Cut, DocumentKind, holds_prompts, holds_records
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.causal_config import CausalModelConfig
from regard.models.position_config import LearnedConfig
from regard.runs.run_config import Confidence, DataSection, Proposal, UnsmoothedRunConfig

if TYPE_CHECKING:
    GenerationFields = GenerationSettings
else:
    GenerationFields = config_model(GenerationSettings)

CONTEXT = 256
LOSSLESS = ("byte", "character", "byte-bpe", "notes")  # kinds of tokenizers that give every text back as it was


class TextDataConfig(DataSection):
    """Texts, and how they become token numbers."""

    train: tuple[TextConfig, ...]  # none where a model came without its data
    valid: tuple[TextConfig, ...] | None = None
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="character"),
        description="`character`, `byte` or `byte-bpe`, which give every text back; `notes` for music",
    )
    context: int = Field(CONTEXT, ge=1, le=1 << 20, description="tokens of a window: the most that a prediction sees")
    documents: DocumentKind = Field(
        "auto",
        description="`stream`: each text is one, cut into windows; or what a document is, several of which are packed "
        "into a row: `file`, `line`, `json-line`, or what stands between `blank-line` or `separator`; `auto`: JSON "
        "lines and FASTA by their names, else stream",
    )
    separator: str | None = Field(None, min_length=1, description="the line between documents, for `separator`")
    loss_on: Literal["completion", "all"] = Field(
        "completion", description="of a JSON line with a prompt: the completion and its end alone, or all of it"
    )
    stride: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        description="tokens from window to window of evaluation and validation; unset: the context",
    )

    processes: int | None = Field(
        None, ge=1, le=1024, description="that tokenize; unset: as many as cores for a large text, else 1"
    )
    order: Literal["shuffled", "feistel", "lanes"] = Field(
        "shuffled",
        description="order of an epoch: drawn as a list of all windows, or computed batch by batch, for "
        "texts too large for that; `lanes`: documents from beginning to end, side by side, and what the model "
        "remembers is carried from one batch to the next, for mixers such as `segment-memory`",
    )

    @property
    def cut(self) -> Cut:
        """The way texts are cut into documents."""
        return Cut(self.documents, self.separator, self.loss_on == "completion")

    def packed(self, texts: Sequence[TextConfig] | None) -> bool:
        """Return whether these texts are documents packed into rows, not streams cut into windows."""
        if self.documents == "auto":
            return any(holds_records(text.source) for text in texts or ())
        return self.documents != "stream"

    @property
    def described(self) -> dict[str, int | str]:
        """Description of what is measured, for people: how long windows are, how far apart, and which tokens count."""
        prompts = self.loss_on == "completion" and any(
            self.documents in ("auto", "file", "json-line") and holds_prompts(text.source) for text in self.train
        )
        prompts = prompts or (self.loss_on == "completion" and self.documents == "json-line")
        return {
            "context": self.context,
            "stride": self.stride or self.context,
            "documents": "lanes" if self.order == "lanes" else "packed" if self.packed(self.train) else "streams",
            "counted": "completions and ends where there are prompts" if prompts else "every token and end",
        }

    @model_validator(mode="after")
    def _cut_as_it_can_be(self) -> Self:
        if (self.documents == "separator") != (self.separator is not None):
            raise InvalidCombination(
                "data.separator",
                "data.documents",
                why="a separator is the line between documents where data.documents is separator, and only there",
                help="--set data.documents=separator --set data.separator='<|endoftext|>'",
            )
        if self.order == "lanes" and self.stride not in (None, self.context):
            raise InvalidCombination(
                "data.stride",
                "data.order",
                why="lanes read every token once, after all that is remembered of those before it",
                help=f"--set data.stride={self.context}, or --set data.order=shuffled",
            )
        if (self.stride or 1) > self.context:
            raise InvalidCombination(
                "data.stride",
                "data.context",
                why=f"windows of {self.context} tokens that lie {self.stride} apart leave tokens out",
                help=f"--set data.stride={self.context}, or less",
            )
        return self

    @model_validator(mode="after")
    def _gives_the_text_back(self) -> Self:
        if self.tokenizer.kind not in LOSSLESS or self.tokenizer.lowercase:
            raise InvalidCombination(
                "data.tokenizer",
                why=f"a language model's tokenizer gives the text back as it was: {', '.join(LOSSLESS)}, as written",
                help="--set data.tokenizer.kind=byte-bpe",
            )
        return self


class GenerateConfig(GenerationFields, ChoiceConfig):
    """Settings of text generation, unless a command says otherwise."""

    @property
    def draw_temperature(self) -> float | None:
        if self.beam > 1 or self.temperature == 0:
            return None
        return 1.0 if self.temperature is None else self.temperature

    def greedy(self) -> GenerateConfig:
        """Return these settings with the most probable token always taken."""
        return self.model_copy(update={"beam": 1, "temperature": 0.0})


class LanguageModelConfig(UnsmoothedRunConfig):
    """Everything that decides a language model's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("perplexity", "nats_per_frame")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)

    data: TextDataConfig
    model: CausalModelConfig = CausalModelConfig()
    generate: GenerateConfig = GenerateConfig()

    @property
    def search_settings(self) -> ChoiceConfig:
        return self.generate

    @property
    def width(self) -> int:
        return self.model.decoder.width

    @property
    def layers(self) -> int:
        return self.model.decoder.layers

    @property
    def summary(self) -> str:
        layers = self.model.decoder
        newer = "".join(f", {key}" for key in layers.newer_parts)
        positions = "no" if layers.position.kind == "none" else layers.position.kind
        return (
            f"language model, {pluralize(layers.layers, 'layer')}, width {layers.width}, "
            f"feed-forward {layers.feed_forward}, {pluralize(layers.heads, 'head')}, {layers.norm}-norm, "
            f"mixer {layers.mixer.kind}, {positions} positions, context {self.data.context}, "
            f"dropout {layers.dropout}{newer}"
        )

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("it should have the size of one vocabulary, types")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        from regard.data.documents import holds_documents
        from regard.data.rows import form_of
        from regard.tasks.detect_files import common_head

        texts = len(files) > 2 and all(file.is_file() and form_of(file) == "text" for file in files)
        documents = files and all(map(holds_documents, files)) and common_head(files) is not None
        return Confidence.ANY_TEXT if len(files) == 1 or texts or documents else Confidence.NONE

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one text alone, files of JSON lines of documents, or a folder of texts."""
        from regard.tasks.language_model.automatic_config import choose

        return choose(files, valid, given) if cls.confidence(files, valid, given) else None

    @classmethod
    def as_it_was(cls, values: Mapping[str, Any]) -> None:
        """Positions beside the side, where older runs saved them also for a mixer that uses none, are the decoder's.

        A text was one stream, whatever its name.
        """
        data = values.get("data")
        if isinstance(data, dict):
            data.setdefault("documents", "stream")
        model = values.get("model")
        if not isinstance(model, dict) or "position" not in model:
            return
        side = model.setdefault("decoder", {})
        if isinstance(side, dict):
            side.setdefault("position", model.pop("position"))

    @model_validator(mode="before")
    @classmethod
    def _learns_a_position_for_each_token(cls, given: Any) -> Any:
        """A learned table is as long as the context unless it says otherwise."""
        model, data = (given.get(key) for key in ("model", "data")) if isinstance(given, dict) else (None, None)
        if not isinstance(model, dict) or not isinstance(data, dict):
            return given
        return given | {"model": {"longest": data.get("context", CONTEXT)} | model}

    @model_validator(mode="after")
    def _has_frames(self) -> Self:
        if self.train.best_by == "nats_per_frame" and self.data.tokenizer.kind != "notes":
            raise InvalidCombination(
                "train.best_by",
                "data.tokenizer.kind",
                why="frames are of music, whose tokens are notes",
                help="--set train.best_by=loss",
            )
        return self

    @model_validator(mode="after")
    def _windows_fit(self) -> Self:
        position = self.model.decoder.position
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            raise InvalidCombination(
                "model.decoder.position.longest",
                "data.context",
                why=f"a window of {self.data.context} tokens needs as many learned positions",
                help=f"--set model.position.longest={self.data.context}",
            )
        if self.train.batch_tokens < self.data.context:
            raise InvalidCombination(
                "train.batch_tokens",
                "data.context",
                why=f"a batch of {self.train.batch_tokens:,} tokens holds no window of {self.data.context:,}",
                help=f"--set train.batch_tokens={self.data.context}, or a smaller data.context",
            )
        return self

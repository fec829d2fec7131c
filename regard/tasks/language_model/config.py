"""Config of language models: text, a stack of layers, and generation. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.chat import ChatConfig
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
from regard.models.wide_config import require_baseline
from regard.runs.run_config import Confidence, DataSection, Proposal, UnsmoothedRunConfig

if TYPE_CHECKING:
    GenerationFields = GenerationSettings
else:
    GenerationFields = config_model(GenerationSettings)

CONTEXT = 256
LOSSLESS = ("byte", "character", "byte-bpe", "notes")  # tokenizer kinds whose tokens decode to the original text


class TextDataConfig(DataSection):
    """Texts and their conversion to token ids."""

    train: tuple[TextConfig, ...]  # empty for a model without its data
    valid: tuple[TextConfig, ...] | None = None
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="character"),
        description="`character`, `byte` or `byte-bpe`, which are lossless; `notes` for music",
    )
    context: int = Field(
        CONTEXT, ge=1, le=1 << 20, description="window length in tokens: the maximum that a prediction sees"
    )
    documents: DocumentKind = Field(
        "auto",
        description="`stream`: each text is cut into windows; otherwise documents are packed into rows, and a document "
        "is a `file`, `line` or `json-line`, or ends at a `blank-line` or `separator`; `auto`: documents of JSON "
        "lines and FASTA files, recognized by their names, else `stream`",
    )
    separator: str | None = Field(None, min_length=1, description="line between documents, for `separator`")
    loss_on: Literal["completion", "all"] = Field(
        "completion", description="tokens in the loss of a JSON line with a prompt: completion and its end, or all"
    )
    stride: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        description="offset in tokens between windows of evaluation and validation; unset: the context",
    )

    processes: int | None = Field(
        None, ge=1, le=1024, description="processes that tokenize; unset: one per core for a large text, else 1"
    )
    order: Literal["shuffled", "feistel", "lanes"] = Field(
        "shuffled",
        description="order of an epoch: `shuffled`: a shuffled list of all windows; `feistel`: computed per batch, for "
        "texts too large for a list; `lanes`: each row reads documents from beginning to end and keeps the model's "
        "state between batches, for mixers such as `segment-memory`",
    )

    @property
    def cut(self) -> Cut:
        """Rule that divides texts into documents."""
        return Cut(self.documents, self.separator, self.loss_on == "completion")

    def packed(self, texts: Sequence[TextConfig] | None) -> bool:
        """True if these texts are documents packed into rows, False if they are streams cut into windows."""
        if self.documents == "auto":
            return any(holds_records(text.source) for text in texts or ())
        return self.documents != "stream"

    @property
    def described(self) -> dict[str, int | str]:
        """Evaluated data, for reports: window length, stride, form of the documents, and the tokens that count."""
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
    def _check_documents(self) -> Self:
        if (self.documents == "separator") != (self.separator is not None):
            raise InvalidCombination(
                "data.separator",
                "data.documents",
                why='data.separator is required for data.documents = "separator", and only valid there',
                help="--set data.documents=separator --set data.separator='<|endoftext|>'",
            )
        if self.order == "lanes" and self.stride not in (None, self.context):
            raise InvalidCombination(
                "data.stride",
                "data.order",
                why="lanes read every token exactly once",
                help=f"--set data.stride={self.context}, or --set data.order=shuffled",
            )
        if (self.stride or 1) > self.context:
            raise InvalidCombination(
                "data.stride",
                "data.context",
                why=f"a stride of {self.stride} skips tokens between windows of {pluralize(self.context, 'token')}",
                help=f"--set data.stride={self.context}, or less",
            )
        return self

    @model_validator(mode="after")
    def _check_lossless(self) -> Self:
        if self.tokenizer.kind not in LOSSLESS or self.tokenizer.lowercase:
            raise InvalidCombination(
                "data.tokenizer",
                why=f"a language model requires a lossless tokenizer ({', '.join(LOSSLESS)}) without `lowercase`",
                help="--set data.tokenizer.kind=byte-bpe",
            )
        return self


class GenerateConfig(GenerationFields, ChoiceConfig):
    """Default settings of text generation."""

    @property
    def draw_temperature(self) -> float | None:
        if self.beam > 1 or self.temperature == 0:
            return None
        return 1.0 if self.temperature is None else self.temperature

    def greedy(self) -> GenerateConfig:
        """Return these settings with greedy decoding."""
        return self.model_copy(update={"beam": 1, "temperature": 0.0})


class LanguageModelConfig(UnsmoothedRunConfig):
    """Config of a language model run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = ("perplexity", "nats_per_frame")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)
    inherited_sections: ClassVar[tuple[str, ...]] = ("chat",)

    data: TextDataConfig
    model: CausalModelConfig = CausalModelConfig()
    generate: GenerateConfig = GenerateConfig()
    chat: ChatConfig | None = Field(None, description="text form of conversations; unset: the model takes prompts only")

    @property
    def search_settings(self) -> ChoiceConfig:
        return self.generate

    @property
    def wide(self) -> bool:
        return self.model.wide

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
            raise ValueError("expected the key `types` (size of the vocabulary)")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        from regard.data.documents import holds_documents
        from regard.data.rows import form_of
        from regard.tasks.detect_files import common_head

        texts = len(files) > 2 and all(file.is_file() and form_of(file) == "text" for file in files)
        documents = files and all(map(holds_documents, files)) and common_head(files) is not None
        return Confidence.ANY_TEXT if len(files) == 1 or texts or documents else Confidence.NONE

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for a text, JSON lines of documents, or a folder of texts."""
        from regard.tasks.language_model.automatic_config import choose

        return choose(files, valid, overrides) if cls.confidence(files, valid, overrides) else None

    @classmethod
    def migrate_saved(cls, values: Mapping[str, Any]) -> None:
        """Convert values of older runs: positions belonged to the model, and every text was a stream."""
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
    def _default_positions(cls, values: Any) -> Any:
        """Set the default length of a learned position table to the context."""
        model, data = (values.get(key) for key in ("model", "data")) if isinstance(values, dict) else (None, None)
        if not isinstance(model, dict) or not isinstance(data, dict):
            return values
        return values | {"model": {"longest": data.get("context", CONTEXT)} | model}

    @model_validator(mode="after")
    def _check_wide(self) -> Self:
        require_baseline(self.wide, self.train.baseline)
        if self.wide and self.data.order == "lanes":
            raise InvalidCombination(
                "model.wide",
                "data.order",
                why="the n-grams read windows that do not continue each other",
                help="--set model.wide=false, or --set data.order=shuffled",
            )
        return self

    @model_validator(mode="after")
    def _check_frames(self) -> Self:
        if self.train.best_by == "nats_per_frame" and self.data.tokenizer.kind != "notes":
            raise InvalidCombination(
                "train.best_by",
                "data.tokenizer.kind",
                why='only music has frames (data.tokenizer.kind = "notes")',
                help="--set train.best_by=loss",
            )
        return self

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        position = self.model.decoder.position
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            raise InvalidCombination(
                "model.decoder.position.longest",
                "data.context",
                why=f"a window of {self.data.context} tokens exceeds {position.longest} learned positions",
                help=f"--set model.position.longest={self.data.context}",
            )
        if self.train.batch_tokens < self.data.context:
            raise InvalidCombination(
                "train.batch_tokens",
                "data.context",
                why=f"a window of {self.data.context:,} tokens does not fit a batch of {self.train.batch_tokens:,}",
                help=f"--set train.batch_tokens={self.data.context}, or a smaller data.context",
            )
        return self

"""Contract of a family of language models of ``transformers``, and what all families have in common.

A family is one class there, such as ``LlamaForCausalLM``: names of tensors, keys of ``config.json``, and what it cannot
say. Rotary pairs are features i and i + d/2 in all of them; queries and keys are taken and given in that layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.attention.heads import PROJECTIONS
from regard.models.attention_config import MixerConfig
from regard.models.causal_config import CausalStackConfig
from regard.models.position_config import RotaryConfig
from regard.tasks.language_model.config import LanguageModelConfig

PLAIN = {"relu": "relu", "relu2": "relu2", "gelu": "gelu", "gelu-tanh": "gelu_new", "swish": "silu"}
PLAIN_READ = {theirs: ours for ours, theirs in PLAIN.items()} | {
    "swish": "swish", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh",
}  # fmt: skip

# Keys of a stack that are asked about below, that are of training alone, or that each family asks about.
KNOWN = {
    "kind", "layers", "width", "feed_forward", "heads", "key_heads", "key_width", "value_width", "activation",
    "attention_bias", "normalization", "normalization_epsilon", "norm", "position", "mixer", "embedding_scale",
    "dropout", "attention_dropout", "feed_forward_dropout", "init_std", "zero_output", "execution",
    "feed_forward_chunks",
}  # fmt: skip

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Piece = Annotated[int, Field(ge=0, lt=1 << 24)]


class Packing(NamedTuple):
    """A tensor of theirs (``name``, without the family's prefix) that holds one or more of ours, by name."""

    name: str
    ours: tuple[str, ...]
    pack: Callable[[list[Tensor]], Tensor]
    unpack: Callable[[Tensor], list[Tensor]]


def one(name: str, ours: str) -> Packing:
    """A tensor that is the same on both sides."""
    return Packing(name, (ours,), lambda parts: parts[0], lambda whole: [whole])


def transposed(name: str, ours: str) -> Packing:
    """A matrix (in, out) that is ours the other way round."""
    return Packing(name, (ours,), lambda parts: parts[0].T, lambda whole: [whole.T])


def joined(name: str, ours: tuple[str, ...], *, heads: int = 1, turned: bool = False) -> Packing:
    """Rows of several tensors in one, part after part within each head; ``turned``: as columns."""

    def pack(parts: list[Tensor]) -> Tensor:
        whole = torch.cat([part.unflatten(0, (heads, -1)) for part in parts], 1).flatten(0, 1)
        return whole.T if turned else whole

    def unpack(whole: Tensor) -> list[Tensor]:
        parts = (whole.T if turned else whole).unflatten(0, (heads, -1)).chunk(len(ours), 1)
        return [part.flatten(0, 1) for part in parts]

    return Packing(name, ours, pack, unpack)


def norm_names(name: str, ours: str, *, bias: bool = True) -> Iterator[Packing]:
    """The gains of a norm, and its shifts where it has them."""
    for part in ("weight", "bias") if bias else ("weight",):
        yield one(f"{name}.{part}", f"{ours}.{part}")


class CausalSettings(BaseModel):
    """Keys of ``config.json`` that families share; defaults as in transformers."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    tied: ClassVar[bool] = False

    vocab_size: Annotated[int, Field(ge=4, le=1 << 24)]
    bos_token_id: Piece | None = None
    eos_token_id: Piece | list[Piece] | None = None
    pad_token_id: Piece | None = None
    tie_word_embeddings: bool | None = None
    quantization_config: Any = None

    @property
    def shared(self) -> bool:
        """Return whether one matrix is both embedding and output."""
        return self.tied if self.tie_word_embeddings is None else self.tie_word_embeddings

    def reasons(self) -> dict[str, bool]:
        """Reasons why such a model cannot be imported, and whether each holds."""
        return {"its weights are quantized": self.quantization_config is not None}

    def stack(self) -> dict[str, Any]:
        """The table ``model.decoder``."""
        raise NotImplementedError

    @property
    def context(self) -> int:
        """The most tokens that a prediction sees."""
        raise NotImplementedError


class RopeSettings(BaseModel):
    """Rotary positions, as either generation of transformers writes them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    rope_type: str | None = None
    type: str | None = None
    rope_theta: float | None = Field(None, gt=1)
    partial_rotary_factor: float | None = None

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or "default"


def rope_table(theta: float | None) -> dict[str, Any]:
    """The table ``position`` of half-split rotary positions."""
    return {"kind": "rotary", "layout": "half", "base": theta or 10000.0}


@dataclass(frozen=True, kw_only=True)
class CausalFamily:
    """One class of language models there.

    Args:
        kind: ``model_type`` in config.json.
        architecture: name of the class.
        prefix: beginning of all names of tensors but the output's; some files leave it out.
        table: name of the embedding's matrix, after the prefix.
        last: name of the last norm, after the prefix.
        outputs: names that the output's matrix has had; the first is written.
        unlearned: pattern of names that files may hold beside, and that say nothing.
        packings: config → the tensors but for embedding and output.
        reasons: config → why the family cannot say it, and whether each reason holds.
        config: config → keys of config.json that the family has for itself.
        settings: class that reads config.json.
    """

    kind: str
    architecture: str
    prefix: str
    table: str
    last: str
    outputs: tuple[str, ...]
    unlearned: str
    packings: Callable[[CausalStackConfig], Iterator[Packing]]
    reasons: Callable[[CausalStackConfig], dict[str, bool]]
    config: Callable[[LanguageModelConfig], dict[str, Any]]
    settings: type[CausalSettings]

    def obstacle(self, config: LanguageModelConfig) -> str | None:
        """The reason why this model is none of the family; None if it can be."""
        reasons = stack_reasons(config) | self.reasons(config.model.decoder)
        return next((reason for reason, holds in reasons.items() if holds), None)


def biased(stack: CausalStackConfig) -> tuple[str, ...]:
    """Projections of attention that have a bias."""
    if stack.mixer.bias is not None:
        return stack.mixer.bias
    return PROJECTIONS if stack.attention_bias else ()


def as_wide_as_dealt(stack: CausalStackConfig) -> bool:
    """Return whether each head is as wide as the model divided by their number, and has keys and values of its own."""
    own = stack.width // stack.heads
    whole = stack.width % stack.heads == 0
    return whole and {stack.key_width or own, stack.value_width or own} == {own} and _key_heads(stack) == stack.heads


def _key_heads(stack: CausalStackConfig) -> int:
    return stack.key_heads or stack.heads


def stack_reasons(config: LanguageModelConfig) -> dict[str, bool]:
    """Reasons why a model is of no family at all, and whether each holds."""
    stack, fields = config.model.decoder, type(config.model.decoder).model_fields
    plain = MixerConfig(bias=stack.mixer.bias)
    newer = [key for key in sorted(fields.keys() - KNOWN) if getattr(stack, key) != fields[key].default]
    position = stack.position
    return {
        "it normalizes after its sub-layers": stack.norm != "pre",
        "its layers are reversible": stack.execution == "reversible",
        f"its layers mix by {stack.mixer.kind}": stack.mixer.kind != "dot",
        "its attention has options of its own": stack.mixer != plain,
        f"it has {', '.join(newer)}": bool(newer),
        "its output has a bias": config.model.output_bias,
        "its rotary positions turn heads of an odd width": isinstance(position, RotaryConfig)
        and bool((stack.key_width or stack.width // stack.heads) % 2),
    }

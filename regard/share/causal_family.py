"""Contract of the families of language models in ``transformers``, and the code that all families share.

A family is one class of ``transformers``, such as ``LlamaForCausalLM``. It has names of tensors, keys of
``config.json`` and reasons why it cannot represent a model. All families rotate features i and i + d/2 of a head, so
the tensors of queries and keys have that layout.
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
PLAIN_READ = {foreign: own for own, foreign in PLAIN.items()} | {
    "swish": "swish", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh",
}  # fmt: skip

# Keys of a stack that are checked below or by each family, and keys that only affect training.
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
    """A tensor of a foreign file that holds one or more of Regard's parameters."""

    name: str  # of the foreign tensor, without the family's prefix
    parameters: tuple[str, ...]
    pack: Callable[[list[Tensor]], Tensor]
    unpack: Callable[[Tensor], list[Tensor]]


def one(name: str, parameter: str) -> Packing:
    """Return the packing of a tensor that is equal to a parameter."""
    return Packing(name, (parameter,), lambda parts: parts[0], lambda whole: [whole])


def transposed(name: str, parameter: str) -> Packing:
    """Return the packing of a matrix (in, out) that is the transpose of a parameter."""
    return Packing(name, (parameter,), lambda parts: parts[0].T, lambda whole: [whole.T])


def joined(name: str, parameters: tuple[str, ...], *, heads: int = 1, transpose: bool = False) -> Packing:
    """Return the packing of one tensor with the rows of several parameters.

    Args:
        name: of the foreign tensor.
        parameters: whose rows it holds, one parameter after the other within each head.
        heads: number of heads; 1 if the rows are not grouped by head.
        transpose: whether the foreign tensor holds the rows as columns.
    """

    def pack(parts: list[Tensor]) -> Tensor:
        whole = torch.cat([part.unflatten(0, (heads, -1)) for part in parts], 1).flatten(0, 1)
        return whole.T if transpose else whole

    def unpack(whole: Tensor) -> list[Tensor]:
        parts = (whole.T if transpose else whole).unflatten(0, (heads, -1)).chunk(len(parameters), 1)
        return [part.flatten(0, 1) for part in parts]

    return Packing(name, parameters, pack, unpack)


def norm_names(name: str, module: str, *, bias: bool = True) -> Iterator[Packing]:
    """Yield the packings of a norm's weight and, with ``bias``, of its bias."""
    for part in ("weight", "bias") if bias else ("weight",):
        yield one(f"{name}.{part}", f"{module}.{part}")


class CausalSettings(BaseModel):
    """Keys of ``config.json`` that all families share; defaults as in transformers."""

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
        """Return whether the embedding and the output share one matrix."""
        return self.tied if self.tie_word_embeddings is None else self.tie_word_embeddings

    def reasons(self) -> dict[str, bool]:
        """Return the reasons why a model cannot be imported, and whether each holds."""
        return {"its weights are quantized": self.quantization_config is not None}

    def stack(self) -> dict[str, Any]:
        """Return the table ``model.decoder`` of the config."""
        raise NotImplementedError

    @property
    def context(self) -> int:
        """Return the maximum number of tokens that a prediction depends on."""
        raise NotImplementedError


class RopeSettings(BaseModel):
    """Rotary positions in ``config.json``, as earlier or later versions of transformers write them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    rope_type: str | None = None
    type: str | None = None
    rope_theta: float | None = Field(None, gt=1)
    partial_rotary_factor: float | None = None

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or "default"


def rope_table(theta: float | None) -> dict[str, Any]:
    """Return the table ``position`` of rotary positions that rotate features i and i + d/2."""
    return {"kind": "rotary", "layout": "half", "base": theta or 10000.0}


@dataclass(frozen=True, kw_only=True)
class CausalFamily:
    """A class of language models in transformers.

    Args:
        kind: ``model_type`` in config.json.
        architecture: name of the class.
        prefix: prefix of all tensor names except the output matrix; some files omit it.
        table: name of the embedding matrix, after the prefix.
        last: name of the last norm, after the prefix.
        outputs: names of the output matrix in all versions of transformers; the first is written.
        unlearned: pattern of names of tensors without parameters, which files may contain and an import skips.
        packings: config → the tensors except embedding and output.
        reasons: config → reasons why the family cannot represent it, and whether each holds.
        config: config → the keys of config.json that only this family has.
        settings: class that parses config.json.
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

    def obstacles(self, config: LanguageModelConfig) -> list[str]:
        """Return all reasons why the family cannot represent this model."""
        reasons = stack_reasons(config) | self.reasons(config.model.decoder)
        return [reason for reason, holds in reasons.items() if holds]


def biased(stack: CausalStackConfig) -> tuple[str, ...]:
    """Return the projections of attention that have a bias."""
    if stack.mixer.bias is not None:
        return stack.mixer.bias
    return PROJECTIONS if stack.attention_bias else ()


def has_standard_heads(stack: CausalStackConfig) -> bool:
    """Return whether each head has its own keys and values, and its width is the model width / the number of heads."""
    width = stack.width // stack.heads
    divides = stack.width % stack.heads == 0
    return (
        divides
        and {stack.key_width or width, stack.value_width or width} == {width}
        and _key_heads(stack) == stack.heads
    )


def _key_heads(stack: CausalStackConfig) -> int:
    return stack.key_heads or stack.heads


def stack_reasons(config: LanguageModelConfig) -> dict[str, bool]:
    """Return the reasons why no family can represent a model, and whether each holds."""
    stack, fields = config.model.decoder, type(config.model.decoder).model_fields
    plain = MixerConfig(bias=stack.mixer.bias)
    newer = [key for key in sorted(fields.keys() - KNOWN) if getattr(stack, key) != fields[key].default]
    position = stack.position
    return {
        "its sub-layers are post-norm (`norm`)": stack.norm != "pre",
        "its layers are reversible": stack.execution == "reversible",
        f"its mixer is {stack.mixer.kind}, not dot": stack.mixer.kind != "dot",
        "its attention has options that transformers lacks": stack.mixer != plain,
        f"it uses {', '.join(newer)}": bool(newer),
        "its output has a bias": config.model.output_bias,
        "its rotary positions need an even head width": isinstance(position, RotaryConfig)
        and bool((stack.key_width or stack.width // stack.heads) % 2),
    }

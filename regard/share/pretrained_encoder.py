"""Contract of the families of encoders that can be imported, and the code that all families share.

A family is one ``model_type`` of ``transformers``, such as ``bert``. It has names of tensors, keys of ``config.json``
and reasons why a model cannot be imported. Names that an export writes too come from ``encoder_family``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.models.transformer.config import TransformerEncoderConfig
from regard.share.causal_family import PLAIN_READ, Layers, Packing, Piece, Size, norm_names, one
from regard.share.encoder_family import Names

Probability = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0, le=1)]


class EncoderSettings(BaseModel):
    """Keys of ``config.json`` that all families share; defaults as in transformers."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)]
    pad_token_id: Piece = 0
    tie_word_embeddings: bool = True
    is_decoder: bool = False
    add_cross_attention: bool = False
    quantization_config: Any = None

    def reasons(self) -> dict[str, bool]:
        """Return the reasons why a model cannot be imported, and whether each holds."""
        return {
            "its weights are quantized": self.quantization_config is not None,
            "it is a decoder (`is_decoder`)": self.is_decoder or self.add_cross_attention,
        }

    def stack(self) -> dict[str, Any]:
        """Return the table ``model.encoder`` of the config."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """Return the maximum number of tokens of a row."""
        raise NotImplementedError

    @property
    def transform(self) -> str:
        """Return the activation of the layer before the output (``model.transform``)."""
        return "gelu"

    @property
    def transform_biases(self) -> tuple[bool, bool]:
        """Return whether the dense layer and the norm before the output have a bias."""
        return True, True

    @property
    def output_bias(self) -> bool:
        """Return whether the output has a bias."""
        return True


class BertSettings(EncoderSettings):
    """Keys of ``config.json`` of BERT; RoBERTa and ESM use the same names."""

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)] = 30522
    hidden_size: Size = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    max_position_embeddings: Size = 512
    type_vocab_size: Annotated[int, Field(ge=1, le=1024)] = 2
    layer_norm_eps: Epsilon = 1e-12
    position_embedding_type: str = "absolute"

    @property
    def positions(self) -> int:
        return self.max_position_embeddings

    @property
    def transform(self) -> str:
        return PLAIN_READ.get(self.hidden_act, "")

    def reasons(self) -> dict[str, bool]:
        return super().reasons() | {
            f"its activation is {self.hidden_act}": PLAIN_READ.get(self.hidden_act, "relu2") == "relu2",
            f"its positions are {self.position_embedding_type}": self.position_embedding_type != "absolute",
        }

    def stack(self) -> dict[str, Any]:
        return {
            "layers": self.num_hidden_layers,
            "width": self.hidden_size,
            "feed_forward": self.intermediate_size,
            "heads": self.num_attention_heads,
            "activation": PLAIN_READ[self.hidden_act],
            "dropout": self.hidden_dropout_prob,
            "attention_dropout": self.attention_probs_dropout_prob,
            "attention_bias": True,
            "norm": "post",
            "normalization_epsilon": self.layer_norm_eps,
            "embedding_norm": True,
            "segments": self.type_vocab_size,
            "position": {"kind": "learned", "longest": self.positions},
        }


@dataclass(frozen=True, kw_only=True)
class PretrainedEncoder:
    """A ``model_type`` of transformers whose folders can be imported.

    Args:
        kind: ``model_type`` in config.json.
        classes: prefix of the names of its classes.
        prefix: prefix of the names of the encoder's tensors; files of a model without a head omit it.
        table: name of the embedding matrix, after the prefix.
        packings: (settings, encoder) → the encoder's tensors except the embedding matrix, without the prefix.
        transform: names of the dense layer and of the norm before the output.
        output: name of the output matrix if it is not the embedding matrix.
        bias: names of the bias of the output, of which a file has one or several equal ones.
        ignored: pattern of names of tensors that an import skips: other heads, and tensors without parameters.
        settings: class that parses config.json.
        specials: spelling of padding, unknown, begin, end and mask piece, unless the tokenizer's files name others.
        listed: (row of each piece in ``vocab.txt``, settings of the tokenizer) → content of ``tokenizer.json``, for a
            folder without this file; None: not supported.
    """

    kind: str
    classes: str
    prefix: str
    table: str
    packings: Callable[[Any, TransformerEncoderConfig], Iterator[Packing]]
    transform: tuple[str, str]
    output: str
    bias: tuple[str, ...]
    ignored: str
    settings: type[EncoderSettings]
    specials: tuple[str, str, str, str, str]
    listed: Callable[[dict[str, int], dict[str, Any]], dict[str, Any]] | None = None

    def head(self, settings: EncoderSettings) -> Iterator[Packing]:
        """Yield the tensors of the layer before the output."""
        for name, part, bias in zip(self.transform, ("dense", "norm"), settings.transform_biases, strict=True):
            yield from norm_names(name, f"transform.{part}", bias=bias)


def packed(names: Names) -> Iterator[Packing]:
    """Yield the packings of tensors that are equal to parameters."""
    for foreign, own in names:
        yield one(foreign, own)


def positions_after(name: str, offset: int) -> Packing:
    """Return the packing of a position table whose first ``offset`` rows belong to no position."""

    def pack(parts: list[Tensor]) -> Tensor:
        return torch.cat([parts[0].new_zeros(offset, parts[0].shape[1]), parts[0]])

    return Packing(name, ("encoder.embedding.position.table",), pack, lambda whole: [whole[offset:]])

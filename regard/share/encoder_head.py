"""Heads of exported encoders: their classes in ``transformers``, their tensors, and the pieces of a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.share.encoder_family import LARGE_SLOPE, SMALL_SLOPE, EncoderFamily, shift_of

LARGEST_EPSILON = 1e-5  # of the norms of a masked model
PROBLEMS = {"class": "single_label_classification", "several": "multi_label_classification", "number": "regression"}


class EncoderHead(NamedTuple):
    """One value of ``core.export_forms.EncoderForm.head``.

    Attributes:
        ending: ending of the name of the class in transformers.
        tensors: (family, config, net, codecs) → the tensors of the head.
        pieces: (tokenizer, line) → Regard's ids of the line, including the special symbols.
        read: (tokenizer of transformers, line) → the ids that transformers returns for the line.
        logits: (net, its outputs) → logits (rows, outputs), or (rows, positions, outputs).
        has_labels: whether the answer of the codecs names the outputs.
        masks: whether the vocabulary has a mask piece and the last norm is part of the head.
    """

    ending: str
    tensors: Callable[[EncoderFamily, Any, Any, Any], Iterator[tuple[str, Tensor]]]
    pieces: Callable[[Any, str], list[int]]
    read: Callable[[Any, str], Any]
    logits: Callable[[Any, Any], Tensor]
    has_labels: bool = True
    masks: bool = False

    def obstacles(self, side: Any) -> dict[str, str]:
        """Return reasons why transformers has no such head on an encoder, each with the setting that changes it."""
        reasons: dict[str, str] = {}
        if self.masks and side.activation == "relu2":
            reasons["its activation is relu2, which the masked head of transformers cannot represent"] = (
                "model.activation=gelu"
            )
        if self.masks and (side.normalization_epsilon or 0) > LARGEST_EPSILON:
            reasons["the epsilon of its norms is too large for the masked head of transformers"] = (
                "model.normalization_epsilon=1e-5"
            )
        return reasons

    def scale(self, codecs: Any) -> tuple[float, float]:
        """Return the factor and shift that turn outputs into logits over the temperature, or numbers in their unit."""
        factor, shift = codecs.answer.output_scale if self.has_labels else (1.0, 0.0)
        return factor, shift

    def labels(self, codecs: Any, label_kind: str | None) -> dict[str, Any]:
        """Return the keys of config.json that name the outputs and, for a sequence, the type of loss."""
        if not self.has_labels:
            return {}
        names = codecs.answer.class_names or ("LABEL_0",)
        labels: dict[str, Any] = {
            "id2label": {str(index): name for index, name in enumerate(names)},
            "label2id": {name: index for index, name in enumerate(names)},
        }
        return labels if label_kind is None else labels | {"problem_type": PROBLEMS[label_kind]}


def _tokens(family: EncoderFamily, config: Any, net: Any, codecs: Any) -> Iterator[tuple[str, Tensor]]:
    factor, shift = codecs.answer.output_scale
    yield "classifier.weight", net.output.weight * factor
    yield "classifier.bias", net.output.bias * factor + shift


def _sequence(family: EncoderFamily, config: Any, net: Any, codecs: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield δ I before tanh and W / δ after it, with the scale of the answer (see ``encoder_family``)."""
    below, above = family.classifier
    width = net.output.in_features
    yield f"{below}.weight", SMALL_SLOPE * torch.eye(width)
    yield f"{below}.bias", torch.zeros(width)
    factor, shift = codecs.answer.output_scale
    yield f"{above}.weight", net.output.weight * (factor / SMALL_SLOPE)
    yield f"{above}.bias", net.output.bias * factor + shift


def _mask(family: EncoderFamily, config: Any, net: Any, codecs: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield 64 I and a shift before the activation, and Regard's last norm after it (see ``encoder_family``)."""
    dense, norm, output, bias = family.masked
    own, scale = net.head, net.encoder.embedding.scale
    shared = config.model.share == "all"
    yield f"{dense}.weight", LARGE_SLOPE * torch.eye(net.encoder.width)
    yield f"{dense}.bias", shift_of(net.encoder.width)
    for part in ("weight", "bias"):
        yield f"{norm}.{part}", getattr(net.encoder.norm, part) / (scale if shared else 1.0)
    yield f"{output}.weight", own.weight * (scale if shared else 1.0)
    yield bias, torch.zeros(len(own.weight)) if own.bias is None else own.bias
    if family.kind == "megatron-bert":
        yield "cls.predictions.bias", torch.zeros(len(own.weight)) if own.bias is None else own.bias


def _pieces_of_texts(tokenizer: Any, line: str) -> list[int]:
    return [BEGIN, *(piece for part in line.split("\t") for piece in (*tokenizer.encode(part), END))]


def _pieces_of_words(tokenizer: Any, line: str) -> list[int]:
    return [BEGIN, *(piece for word in line.split() for piece in tokenizer.encode(word)), END]


HEADS = {
    "sequence": EncoderHead(
        "ForSequenceClassification", _sequence, _pieces_of_texts,
        lambda reader, line: reader(*line.split("\t"))["input_ids"], lambda net, outputs: outputs.logits,
    ),
    "tokens": EncoderHead(
        "ForTokenClassification", _tokens, _pieces_of_words,
        lambda reader, line: reader(line.split(), is_split_into_words=True)["input_ids"], lambda net, outputs: outputs,
    ),
    "mask": EncoderHead(
        "ForMaskedLM", _mask, lambda tokenizer, line: [BEGIN, *tokenizer.encode(line), END],
        lambda reader, line: reader(line)["input_ids"], lambda net, outputs: net.head(outputs),
        has_labels=False, masks=True,
    ),
}  # fmt: skip

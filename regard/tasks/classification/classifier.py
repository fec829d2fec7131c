"""A trained classifier at work: texts to labels with their probabilities, to sets of labels, or to numbers."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.mask import Span
from regard.attention.observe import observe, twin
from regard.core.call_checks import require_list
from regard.core.observation import Alternative, AttentionWeights, Axis, Observation
from regard.core.task import Indices, MetricSums, never
from regard.core.wording import counted
from regard.errors import ConfigError, DataError
from regard.inference.decoding import Engine
from regard.inference.reading import reading_form
from regard.metrics.classes import prediction_sums
from regard.models.classifier import SequenceClassifier
from regard.tasks.classification.codecs import LabelCodec
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.examples import (
    LabelledExamples,
    TextRow,
    encode_texts,
    network_inputs,
    pieces_of,
    text_table,
    texts_of,
)

__all__ = ["Classification", "Classifier", "LabelSet", "ToldNumber"]

ROWS = 64  # classified together
SHOWN = 256  # pieces; the weights of each head are their number squared


class Classification(NamedTuple):
    """A label, its probability, those of all labels, what each piece weighed, and whether a text was cut.

    ``label`` is None where its probability is below what was asked for.
    """

    label: str | None
    probability: float
    probabilities: dict[str, float]
    weights: list[tuple[str, float]]  # only pooling by attention says more than where the text begins and ends
    cut: bool


class LabelSet(NamedTuple):
    """The labels whose probability is at least a half, or what was asked for, and as ``Classification``."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    weights: list[tuple[str, float]]
    cut: bool


class ToldNumber(NamedTuple):
    """A number in the unit of the labels, what each piece weighed, and whether a text was cut."""

    value: float
    weights: list[tuple[str, float]]
    cut: bool


class Classifier:
    """A network with its vocabulary and labels: ``regard.load("runs/sst2")(["a fine film"])[0].label``."""

    def __init__(
        self, net: SequenceClassifier, codec: LabelCodec, config: ClassificationConfig, engine: Engine | None = None
    ) -> None:
        self.net, self.codec, self.config, self.engine = net.eval(), codec, config, engine

    @cached_property
    def _reading(self) -> nn.Module:
        """The network in the form that the engine computes, made when first asked for."""
        return reading_form(self.net, self.engine)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the classes."""
        return self.codec.labels.names

    def __call__(
        self,
        inputs: Sequence[str | Sequence[str]],
        *,
        abstain_below: float | None = None,
        threshold: float | None = None,
    ) -> list[Any]:
        """A ``Classification``, ``LabelSet`` or ``ToldNumber`` for each text, or for each tuple of texts.

        ``abstain_below``: of one label, 0 unless given; ``threshold``: of several, 0.5. ConfigError for the other one.
        """
        require_list(inputs)
        kind = self.config.data.label_kind
        for name, value, of in (("abstain_below", abstain_below, "class"), ("threshold", threshold, "several")):
            if value is not None and kind != of:
                why = f"it is of label_kind = {of!r}, and this model's is {kind!r}"
                raise ConfigError(f"this model takes no {name}", where=name, why=why)
        texts = [(each,) if isinstance(each, str) else tuple(each) for each in inputs]
        for number, each in enumerate(texts, start=1):
            self._require_columns(each, f"input {number}")
        rows, cut = encode_texts(self.codec.tokenizer, texts, self.config)
        found = []
        for row, was_cut, logits, weights in zip(rows, cut, *self._computed(rows), strict=True):
            shown = list(zip(self.codec.tokenizer.pieces(pieces_of(row)), weights.tolist(), strict=False))
            found.append(
                self._outcome(logits, shown, was_cut, abstain_below or 0.0, 0.5 if threshold is None else threshold)
            )
        return found

    def _outcome(
        self, logits: Tensor, weights: list[tuple[str, float]], cut: bool, abstain_below: float, threshold: float
    ) -> Any:
        if self.codec.scale is not None:
            return ToldNumber(self.codec.scale.mean + self.codec.scale.deviation * float(logits[0]), weights, cut)
        if self.config.data.label_kind == "several":
            told = dict(zip(self.labels, logits.sigmoid().tolist(), strict=True))
            return LabelSet(tuple(label for label, p in told.items() if p >= threshold), told, weights, cut)
        p = self._probabilities(logits).tolist()
        best = max(range(len(p)), key=p.__getitem__)
        label = self.labels[best] if p[best] >= abstain_below else None
        return Classification(label, p[best], dict(zip(self.labels, p, strict=True)), weights, cut)

    def _probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities of one label, by the temperature of validation."""
        return (logits / self.codec.temperature).softmax(-1)

    @torch.no_grad()
    def _computed(self, rows: Sequence[TextRow]) -> tuple[list[Tensor], list[Tensor]]:
        """Logits and the weights of pooling of each row, in float64."""
        order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
        logits: list[Tensor] = [torch.empty(0)] * len(rows)
        weights = list(logits)
        for begin in range(0, len(order), ROWS):
            places = order[begin : begin + ROWS]
            found = self._reading(*self._inputs([rows[at] for at in places]))
            shares = found.weights.cpu().unflatten(0, (len(places), -1))
            for at, logit, weight in zip(places, found.logits.double().cpu(), shares, strict=True):
                logits[at], weights[at] = logit, self._in_order(rows[at], weight)
        return logits, weights

    def _inputs(self, rows: Sequence[TextRow]) -> tuple[Tensor, Span]:
        tokens, valid = text_table(rows, apart=self.config.model.pairs == "apart")
        return network_inputs(tokens.to(self._device), valid.to(self._device))

    def _in_order(self, row: TextRow, weights: Tensor) -> Tensor:
        """Return the weights of a row's pieces from those (texts, length) that the network returned.

        Where texts are read apart, the second has no BEGIN in the row.
        """
        if len(weights) == 1:
            return weights[0, : len(row)]
        first, *others = (each[: len(text)] for each, text in zip(weights, texts_of(row), strict=True))
        return torch.cat([first, *(each[1:] for each in others)])

    @property
    def _device(self) -> torch.device:
        return next(self.net.parameters()).device

    @torch.no_grad()
    def inspect(self, text: str | Sequence[str]) -> Observation:
        """Attention over the pieces of a text, what each weighed in the answer, and the labels."""
        texts = (text,) if isinstance(text, str) else tuple(text)
        self._require_columns(texts)
        (row,), _ = encode_texts(self.codec.tokenizer, [texts], self.config)
        if len(row) > SHOWN:
            raise ConfigError(f"a text of {len(row)} pieces is too long to look at", why=f"{SHOWN} can be shown")
        shared = twin(self.net)  # hooks on the model itself would be seen by whoever classifies meanwhile
        with observe(shared) as seen:
            found = shared(*self._inputs([row]))
        labels = tuple(self.codec.tokenizer.pieces(pieces_of(row)))
        key = Axis("token looked at", labels)
        pooling = self._in_order(row, found.weights.cpu())
        attention = {"pooling": AttentionWeights(pooling[None, None], Axis("answer", ("answer",)), key)}
        attention |= self._heads(seen, row)
        return Observation("\t".join(texts), attention, (), self._following(found.logits[0].double().cpu()))

    def _heads(self, seen: Mapping[str, Tensor], row: TextRow) -> dict[str, AttentionWeights]:
        """Attention at each place of the encoder, of each text by itself where texts are apart."""
        apart = self.config.model.pairs == "apart"
        texts = texts_of(row) if apart else [row]
        heads: dict[str, AttentionWeights] = {}
        for number, text in enumerate(texts):
            labels = tuple(self.codec.tokenizer.pieces(pieces_of(text)))
            axes, size = (Axis("token", labels), Axis("token looked at", labels)), len(text)
            for name, weights in seen.items():
                place = f"{name} of text {number + 1}" if apart else name
                heads[place] = AttentionWeights(weights[number, :, :size, :size].cpu(), *axes)
        return heads

    def _following(self, logits: Tensor) -> tuple[Alternative, ...]:
        """Labels with their log-probabilities, the likeliest first; none where a number is told."""
        if self.codec.scale is not None:
            return ()
        several = self.config.data.label_kind == "several"
        log_p = torch.nn.functional.logsigmoid(logits) if several else self._probabilities(logits).log()
        order = log_p.argsort(descending=True).tolist()
        return tuple(Alternative(self.labels[at], float(log_p[at])) for at in order)

    def read(self, line: str) -> tuple[str, ...]:
        """A text, or as many as the model reads, with a tab between."""
        texts = tuple(line.rstrip("\r\n").split("\t")) if len(self.config.data.text) > 1 else (line.rstrip("\r\n"),)
        self._require_columns(texts)
        return texts

    def cost(self, texts: Sequence[str]) -> int:
        """Return how many numbers one layer holds at once for texts (``core.predictor_interface.input_cost``)."""
        return sum(min(len(text) + 2, self.config.data.max_length + 1) for text in texts) ** 2

    def _require_columns(self, texts: Sequence[str], where: str | None = None) -> None:
        columns = self.config.data.text
        if len(texts) == len(columns):
            return
        named = "" if all(isinstance(column, int) for column in columns) else f": {', '.join(map(str, columns))}"
        raise DataError(
            f"{counted(len(texts), 'text')} where the model reads {len(columns)}", where=where,
            why=f"an example was {counted(len(columns), 'text')} in training{named}",
            help="the texts of one example: a tab between two of a line, a tuple in Python"
            if len(columns) > 1 else "one text alone",
        )  # fmt: skip

    def write(self, output: Classification | LabelSet | ToldNumber, *, json: bool) -> str:
        """``LABEL<TAB>PROBABILITY``, the labels, or the number; as JSON with all probabilities. ``?``: it abstains."""
        if not json:
            if isinstance(output, ToldNumber):
                return f"{output.value:.10g}"
            if isinstance(output, LabelSet):
                return self.config.data.label_separator.join(output.labels)
            return f"{'?' if output.label is None else output.label}\t{output.probability:.4f}"
        told = {name: value for name, value in output._asdict().items() if name not in ("weights", "cut")}
        return jsonlib.dumps(_rounded(told) | ({"cut": True} if output.cut else {}), ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Calibration of the probabilities that are told; all else comes from the objective."""
        found: LabelledExamples = examples
        if "scaled_calibration_error" not in names or self.config.data.label_kind != "class":
            return {}
        logits, _ = self._computed([found.rows[at] for at in indices.tolist()])
        log_p = self._probabilities(torch.stack(logits)).log()
        sums = prediction_sums(log_p, torch.from_numpy(np.asarray(found.labels[indices], np.int64)))
        return {"scaled_reliability": sums["reliability"]}


def _rounded(value: Any) -> Any:
    """The same with six places of each number."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value

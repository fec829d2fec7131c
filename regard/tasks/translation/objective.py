"""The loss of translation: label-smoothed cross-entropy of each target token given the source and earlier tokens."""

from __future__ import annotations

from typing import cast

from torch import nn

from regard.attention.span import Span
from regard.core.state import State
from regard.core.task import LossTerms, MetricSums, Objective
from regard.data.pairs import PairBatch
from regard.metrics.text import METRICS, metric_value
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.translation.config import TranslationConfig


def objective(config: TranslationConfig) -> Objective:
    """Return the loss of a batch of pairs, summed over tokens, with the label smoothing of the config."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: PairBatch, carry: State = ()) -> LossTerms:
        model = cast(EncoderDecoder, net)
        spans = Span.of(batch.source_valid), Span.of(batch.target_valid)
        terms = model.loss(
            batch.source, spans[0], batch.target_input, spans[1], batch.target_output, smoothing=smoothing
        )
        return LossTerms(terms.smoothed, {"nll": terms.nll.detach(), "tokens": batch.target_valid.sum()})

    return loss


def compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Return ``loss``, in nats per target token without smoothing, and the metrics of decoded text that have sums."""
    loss = float(sums["nll"]) / float(sums["tokens"])
    return {"loss": loss} | {name: metric_value(name, sums[name].tolist()) for name in METRICS if name in sums}

"""Observations of supervised tasks: the displayed inputs, the predictions, and the attention of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from regard.attention.observe import attention_maps
from regard.attention.weight_terms import AttentionCall
from regard.core.answer import MAX_ALTERNATIVES, ContinuingAnswer, InputContext, TaskAnswer
from regard.core.field import ContinuedField, EncodedRow, Field, NumericField
from regard.core.observation import WHOLE, AttentionMap, Axis, Observation, Prediction, Site, Surface
from regard.tasks.net_outputs import encoded_labels
from regard.tasks.supervised_codecs import Row, SupervisedCodecs


def surfaces(codec: SupervisedCodecs, values: Sequence[Any], row: Row) -> tuple[Surface, ...]:
    """Return the displayed input: the answered tokens, or the positions of each part of each field."""
    fields = tuple(codec.fields.values())
    if codec.answer.per_position:
        return (Surface(fields[0].kind, codec.tokens(values), separator=" "),)
    return tuple(
        Surface(
            field.kind, field.labels(part),
            numbers=field.numbers(value, part) if isinstance(field, NumericField) else None,
        )
        for field, value, encoded in zip(fields, values, row, strict=True)
        for part in field.parts(encoded)
    )  # fmt: skip


def predictions(answer: TaskAnswer, logits: Tensor) -> tuple[Prediction, ...]:
    """Return the most probable labels of the input or of each token; or a number."""
    if answer.kind == "number":
        number = answer.predict(logits[0], answer.settings(), InputContext())
        return (Prediction(WHOLE, "number", answer.write(number, json=False)),)
    if not answer.per_position:
        return (Prediction.best(WHOLE, answer.kind, answer.alternatives(logits[0])),)
    return tuple(
        Prediction.best(Site("piece", (place,)), answer.kind, answer.alternatives(row)[:MAX_ALTERNATIVES])
        for place, row in enumerate(logits)
    )


def continued_observation(
    answer: ContinuingAnswer, field: ContinuedField, row: EncodedRow, logits: Tensor, attention: Sequence[AttentionMap]
) -> Observation:
    """Return the observation of a row that the answer continues; each position is predicted from earlier ones."""
    labels = field.labels(row)[1:]
    alternatives = [answer.alternatives(position) for position in logits]
    predictions = [
        Prediction(
            Site("after", (place - 1,)), answer.kind, label, answer.log_probability(logits[place], label),
            alternatives[place],
        )
        for place, label in enumerate(labels)
    ]  # fmt: skip
    predictions.append(Prediction.best(Site("after", (len(labels) - 1,)), answer.kind, alternatives[-1]))
    return Observation((Surface(field.kind, labels, separator=" "),), tuple(predictions), tuple(attention))


def encoder_maps(
    net: nn.Module,
    calls: Mapping[str, AttentionCall],
    field: Field,
    row: EncodedRow,
    *,
    position: str,
    side: str,
) -> list[AttentionMap]:
    """Return the attention of the encoder for each part or window of a row that is encoded separately."""
    parts = field.parts(row)
    sequences = [window for part in parts for window in field.windows(part)]
    noun = "window" if len(parts) == 1 else "series" if field.kind == "series" else "text"
    maps: list[AttentionMap] = []
    for number, sequence in enumerate(sequences):
        labels = encoded_labels(net, field.labels(sequence))
        query, key = Axis(position, labels), Axis(f"{position} attended to", labels)
        for table in attention_maps(calls, query, key, row=number, side=side):
            named = table._replace(part=f"{table.part} of {noun} {number + 1}")
            maps.append(named if len(sequences) > 1 else table)
    return maps

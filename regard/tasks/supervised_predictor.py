"""The predictor of supervised tasks, which are declared by fields, a network and an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel
from torch import Tensor, nn

from regard.attention.observe import observe_calls, shared_copy
from regard.attention.weight_terms import AttentionCall
from regard.core.answer import ContinuingAnswer, InputContext
from regard.core.field import FileField, InputBatch, Padded
from regard.core.observation import (
    AttentionMap,
    Axis,
    Influence,
    Observation,
    Prediction,
    Surface,
    with_attributes,
)
from regard.core.predictor import Output, Predictor
from regard.core.predictor_interface import PredictorInterface
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.tensors import to_device
from regard.data.order import packed_runs
from regard.errors import ConfigError, DataError
from regard.inference.decoding import Engine
from regard.inference.reading import reading_form
from regard.inference.states import cut_after, grouped, pooled, row_states
from regard.tasks.influence import BATCH_ROWS, HiddenInput, HiddenPieces, answer_scores, hidden_inputs, influences
from regard.tasks.net_outputs import NetOutputs, RunNetwork, encoded_labels, measured_sums, run_network
from regard.tasks.prediction_settings import validated_settings
from regard.tasks.supervised_codecs import EncodedInputs, Row, SupervisedCodecs
from regard.tasks.supervised_examples import MAX_SHOWN
from regard.tasks.supervised_observation import continued_observation, encoder_maps, predictions, surfaces
from regard.tasks.supervised_wording import PLAIN, Wording, described

BATCH_POSITIONS = 4096  # maximum batch of packed rows; of padded rows it is BATCH_ROWS windows


class SupervisedPredictor(Predictor[Output]):
    """A trained network with its fields and answer: ``regard.load("runs/sst2")(["a fine film"])[0].label``.

    The predictor of classification, tagging and next items, and the base of those of forecasts and whole graphs. It may
    be called from several threads.

    Args:
        net: the network.
        codec: the learned fields and the answer of the run.
        config: the config of the run.
        engine: the engine that reads inputs; None: float32, equal to the network. ``bfloat16`` and ``int8`` have fewer
            bits.
        network: calls the network with the padded fields of a batch.
        wording: words for messages.
    """

    def __init__(
        self,
        net: nn.Module,
        codec: SupervisedCodecs,
        config: Any,
        engine: Engine | None = None,
        *,
        network: RunNetwork = run_network,
        wording: Wording = PLAIN,
    ) -> None:
        self.net, self.codec, self.config, self.engine = net.eval(), codec, config, engine
        self._network, self._wording = network, wording

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.net.parameters()).device

    @cached_property
    def _reading(self) -> nn.Module:
        """Network in the form for the engine, created at first use."""
        return reading_form(self.net, self.engine)

    @property
    def reads_json(self) -> bool:
        """True if inputs are JSON values; several fields are texts separated by tabs."""
        fields = tuple(self.codec.fields.values())
        return len(fields) == 1 and fields[0].reads_json

    @property
    def labels(self) -> tuple[str, ...]:
        """Label names, ordered by class index; () for numbers."""
        return self.codec.answer.class_names

    @property
    def interface(self) -> PredictorInterface:
        """Description for servers; the settings are those of the answer."""
        answer = self.codec.answer
        settings = answer.defaults if answer.settings.model_fields else None
        words = described(self.codec, self._wording)
        return PredictorInterface(
            words.takes, words.gives, settings, self._predict, words.purpose, words.classes, words.form
        )

    def _predict(self, input: Any, settings: BaseModel | None, interrupted: Callable[[], bool]) -> Any:
        return self.predict([input], **({} if settings is None else settings.model_dump()))[0]

    def is_one(self, inputs: Any) -> bool:
        """Return whether an argument is one input: a tuple with a value for each field, or a value of the field."""
        fields = tuple(self.codec.fields.values())
        if len(fields) > 1:
            return isinstance(inputs, tuple) and len(inputs) == len(fields)
        return fields[0].is_value(inputs)

    def predict(self, inputs: Sequence[Any], **settings: Any) -> list[Output]:
        """Return a prediction for each input.

        Args:
            inputs: the inputs, each a text or a tuple of texts, or what the field of the model reads.
            settings: settings of the answer, such as ``abstain_below`` or ``threshold``; None is the default.

        Raises:
            ConfigError: for a setting that the answer does not have, or a value out of bounds.
            DataError: for an invalid input, with its number.
        """
        chosen = validated_settings(self.codec.answer.settings, settings)
        values = [self._accept(input, f"input {number}") for number, input in enumerate(inputs, start=1)]
        encoded = self._encode(values)
        outputs = self._compute(encoded.rows, at_end=self.codec.continued is not None)
        predictions: list[Any] = []
        # One check of all inputs: a check of each took 2 % of the time of a tagger.
        is_finite = not outputs or bool(torch.cat([output.logits.flatten() for output in outputs]).isfinite().all())
        bounds = [*pairwise(encoded.starts)]
        joined = self._add_wide(values, [self._joined(outputs[start:end]) for start, end in bounds])
        for value, truncated, logits, (start, end) in zip(values, encoded.truncated, joined, bounds, strict=True):
            weights = [
                weight
                for number in range(start, end)
                for weight in self._position_weights(encoded.rows[number], outputs[number].weights)
            ]
            context = InputContext(weights, truncated, self.codec.tokens(value), value)
            if not is_finite and not logits.isfinite().all():
                what, why = "the output is not finite", "the numbers of the input or the weights are too large"
                raise DataError(what, where=f"input {len(predictions) + 1}", why=why)
            predictions.append(self.codec.answer.predict(logits, chosen, context))
        return predictions

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; the parts and windows of an input are one sequence."""
        values = [self._accept(input, f"input {number}") for number, input in enumerate(inputs, start=1)]
        encoded = self._encode(values)
        rows, windowed = encoded.rows, self.codec.window is not None
        states = row_states(
            self._reading if layer is None else cut_after(self.net, layer),
            [[number] for number in range(len(rows))] if windowed else self._batches(rows),
            lambda net, numbers: self._network(net, self._padded([rows[number] for number in numbers])),
        )
        return pooled(grouped(states, np.diff(encoded.starts)), pooling)

    def _joined(self, outputs: Sequence[NetOutputs]) -> Tensor:
        """Return the logits of a value, (outputs,) or (positions, outputs), from those of its rows."""
        if not self.codec.answer.per_position:
            return outputs[0].logits[0]
        if len(outputs) == 1:
            return outputs[0].logits
        return torch.cat([output.logits for output in outputs] or [torch.zeros(0, len(self.labels))])

    def _add_wide(self, values: Sequence[tuple[Any, ...]], logits: list[Tensor]) -> list[Tensor]:
        """Return the weighted sum of the logits of each value and the outputs of the wide part.

        If the answer continues the value, they are those of its last positions, and of an unknown one after it.
        """
        if self.codec.wide is None or not values:
            return logits
        continued = self.codec.continued
        extended = None if continued is None else [[continued.extended(value[0]) for value in values]]
        columns = [*zip(*values, strict=True)] if extended is None else extended
        added = self.codec.wide_outputs(columns)
        assert added is not None
        deep = [self.codec.weights.network * one for one in logits]
        if not self.codec.answer.per_position:
            return [one + other for one, other in zip(deep, added, strict=True)]
        parts = added.split([len(one) for one in logits] if extended is None else [*map(len, extended[0])])
        return [one + part[len(part) - len(one) :] for one, part in zip(deep, parts, strict=True)]

    def _accept(self, input: Any, where: str | None = None) -> tuple[Any, ...]:
        """Return the values of an input, one per field; for several fields, the input is a tuple."""
        fields = tuple(self.codec.fields.values())
        parts = (input,) if len(fields) == 1 else tuple(input)
        return tuple(field.accept(part, where) for field, part in zip(fields, parts, strict=True))

    def _encode(self, values: Sequence[tuple[Any, ...]]) -> EncodedInputs:
        columns = list(zip(*values, strict=True)) if values else [()] * len(self.codec.fields)
        return self.codec.encode_inputs(columns)

    @torch.no_grad()
    def _compute(self, rows: Sequence[Row], *, at_end: bool = False) -> list[NetOutputs]:
        """Return the outputs of each row: logits (answers, outputs) in float64, and weights.

        Args:
            rows: the encoded rows.
            at_end: whether only the last position of each row is predicted.
        """
        results: dict[int, NetOutputs] = {}
        for numbers in self._batches(rows):
            inputs = self._padded([rows[number] for number in numbers])
            if at_end:
                inputs = {name: cast("Padded", padded).at_end() for name, padded in inputs.items()}
            outputs, answered = self._network(self._reading, inputs), next(iter(inputs.values())).answered
            weights = {name: inputs[name].by_row(table.cpu()) for name, table in outputs.weights.items()}
            logits = outputs.logits.double().cpu().split(1 if answered is None else answered.sum(1).tolist())
            for place, number in enumerate(numbers):
                results[number] = NetOutputs(logits[place], {name: table[place] for name, table in weights.items()})
        return [results[number] for number in range(len(rows))]

    def _batches(self, rows: Sequence[Row]) -> list[list[int]]:
        """Return the indices of the rows of each batch; padded rows of a batch have similar lengths."""
        lengths = np.array([sum(map(len, row)) for row in rows], np.int64)
        if self.codec.packed_field is not None:
            return [run.tolist() for run in packed_runs(np.arange(len(rows)), lengths, BATCH_POSITIONS)]
        order = np.argsort(lengths, kind="stable")
        window = self.codec.window
        windows = np.ones_like(lengths) if window is None else -(-lengths // window)
        return [run.tolist() for run in packed_runs(order, windows, BATCH_ROWS)]

    def _padded(self, rows: Sequence[Row]) -> dict[str, InputBatch]:
        columns = zip(self.codec.fields.items(), zip(*rows, strict=True), strict=True)
        return {name: to_device(field.pad(column), self.device) for (name, field), column in columns}

    def _position_weights(self, row: Row, weights: Mapping[str, Tensor]) -> list[tuple[str, float]]:
        """Return the label and the weight of each position."""
        shown: list[tuple[str, float]] = []
        for (name, field), part in zip(self.codec.fields.items(), row, strict=True):
            if name in weights:
                labels = encoded_labels(self.net, field.labels(part))
                shown += zip(labels, field.unpad(part, weights[name]).tolist(), strict=False)
        return shown

    @torch.no_grad()
    def inspect(self, text: Any) -> Observation:
        """Return the attention over the positions of an input, the pooling weights, and the most probable labels.

        The labels are those of the input or of each token.

        Raises:
            ConfigError: if the input is empty, or longer than ``MAX_SHOWN`` or than the network reads at once.
        """
        values = self._accept(text)
        encoded = self._encode([values])
        rows = encoded.rows
        if not rows:
            raise ConfigError("cannot inspect an empty input")
        length = sum(self.config.encoded_length(sum(map(len, row))) for row in rows)
        if len(rows) > 1 or length > MAX_SHOWN:
            limit = min(MAX_SHOWN, self.config.longest) if len(rows) > 1 else MAX_SHOWN
            what = f"the input is too long to inspect: {length} positions"
            why = f"the limit is {limit} positions"
            raise ConfigError(what, why=why, help="shorten the input")
        (row,) = rows
        shared = shared_copy(self.net)  # hooks on the network itself would also observe predictions of other threads
        with observe_calls(shared) as calls:
            outputs = self._network(shared, self._padded([row]))
        attention, of_inputs = self._decoder_maps(calls, values)
        for (name, field), part in zip(self.codec.fields.items(), row, strict=True):
            attention += encoder_maps(
                self.net, of_inputs, field, part, position=self._wording.position,
                side="encoder" if self.codec.continued is None else "decoder",
            )  # fmt: skip
            if name in outputs.weights:
                key = Axis(self._wording.position, encoded_labels(self.net, field.labels(part)))
                pooling = field.unpad(part, outputs.weights[name][0].cpu())[: len(key.labels)]
                attention.append(AttentionMap.at("pooling", pooling[None, None], Axis("answer", ("answer",)), key))
        deep = outputs.logits.double().cpu()
        (logits,) = self._add_wide([values], [deep])
        facts = self._parts(deep, logits) | {"unknown": self.codec.unknown(values), "truncated": encoded.truncated[0]}
        if self.codec.continued is not None:
            answer = cast("ContinuingAnswer", self.codec.answer)
            return continued_observation(answer, self.codec.continued, row[0], logits, attention)._replace(facts=facts)
        shown, predicted = self._displayed(values, row, logits)
        return Observation(shown, predicted, tuple(attention), facts=facts)

    def _decoder_maps(
        self, calls: Mapping[str, AttentionCall], values: tuple[Any, ...]
    ) -> tuple[list[AttentionMap], Mapping[str, AttentionCall]]:
        """Return the attention of a decoder of outputs, and the other calls, whose queries are inputs."""
        return [], calls

    def _displayed(
        self, values: tuple[Any, ...], row: Row, logits: Tensor
    ) -> tuple[tuple[Surface, ...], tuple[Prediction, ...]]:
        """Return the displayed input and predictions of an observation."""
        return surfaces(self.codec, values, row), predictions(self.codec.answer, logits)

    def _scores(self, observation: Observation, outputs: Sequence[Tensor]) -> list[list[float]]:
        """Return the score of each prediction for the outputs of each input."""
        return answer_scores(self.codec.answer, observation, outputs)

    def _parts(self, deep: Tensor, logits: Tensor) -> dict[str, Any]:
        """Return the contributions of network and baseline to the output: the fact ``parts``; {} without a wide part.

        They are in the unit of the outputs. For classes: the logit of the most probable class minus the mean of the
        others. For a number: its distance from the mean of the training data, in standard deviations.
        """
        if self.codec.wide is None or self.codec.answer.per_position:
            return {}
        network = self.codec.weights.network * deep[0]
        best = int(logits[0].argmax())

        def added(part: Tensor) -> float:
            rest = torch.cat([part[:best], part[best + 1 :]])
            return float(part[best] - rest.mean()) if len(rest) else float(part[best])

        return {"parts": {"network": added(network), "baseline": added(logits[0] - network)}}

    @property
    def network(self) -> nn.Module:
        """See ``core.observation.Traced``."""
        return self.net

    def with_network(self, network: nn.Module) -> Self:
        """See ``core.observation.Traced``."""
        return with_attributes(self, "_reading", net=network)

    @torch.no_grad()
    def scores(self, input: Any, observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        values = self._accept(input)
        outputs = self._network(self.net, self._padded(self._encode([values]).rows))
        logits = self._add_wide([values], [outputs.logits.double().cpu()])
        (scores,) = self._scores(observation, logits)
        return scores

    def influences(self, input: Any, observation: Observation) -> tuple[Influence, ...]:
        """See ``core.observation.Influenced``."""
        values = self._accept(input)
        (row,) = self._encode([values]).rows

        def scores(variants: list[HiddenInput]) -> list[list[float]]:
            inputs = [HiddenInput(row, values), *variants]
            logits = [output.logits for output in self._compute([input.row for input in inputs])]
            return self._scores(observation, self._add_wide([input.values for input in inputs], logits))

        return influences(observation.predictions, self._hidden(values, row, observation), scores)

    def _hidden(self, values: tuple[Any, ...], row: Row, observation: Observation) -> list[HiddenPieces]:
        """Return the input without each piece of each surface of its observation."""
        return hidden_inputs(tuple(self.codec.fields.values()), values, row)

    def read(self, line: str) -> Any:
        """Parse a line to an input; several fields are separated by tabs."""
        fields = tuple(self.codec.fields.values())
        return fields[0].parse(line) if len(fields) == 1 else self._accept(line.rstrip("\r\n").split("\t"))

    @property
    def suffixes(self) -> tuple[str, ...]:
        """See ``core.predictor_interface.ReadsFiles``."""
        field = next(iter(self.codec.fields.values()))
        return field.suffixes if isinstance(field, FileField) else ()

    def read_file(self, contents: bytes, name: str) -> Any:
        """See ``core.predictor_interface.ReadsFiles``."""
        field: Any = next(iter(self.codec.fields.values()))
        return field.read_file(contents, name)

    def write(self, output: Any, *, json: bool) -> str:
        """Return a prediction as one line: see the ``write`` of the answer."""
        return self.codec.answer.write(output, json=json)

    def cost(self, input: Any) -> int:
        """Return the number of values that one layer holds for an input (``core.predictor_interface.input_cost``)."""
        fields = tuple(self.codec.fields.values())
        return sum(field.cost(value) for field, value in zip(fields, self._accept(input), strict=True))

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = not_interrupted
    ) -> MetricSums:
        """Return the sums of the metrics that the answer computes from predictions; the objective has the others."""
        if not {*names} & {*self.codec.answer.measured}:
            return {}
        values = examples.values_starting_in(indices)
        logits = self.value_outputs(examples, values)
        targets = [torch.from_numpy(np.asarray(examples.targets[examples.target_places(index)])) for index in values]
        return measured_sums(self.codec.answer, logits, targets, names)

    def value_outputs(self, examples: Any, values: Sequence[Indices]) -> list[Tensor]:
        """Return the outputs (targets, outputs) of values, each given by its ``examples``, with those of the wide part.

        The outputs are in float64.
        """
        outputs = iter(self._compute([examples.rows[number] for numbers in values for number in numbers]))
        logits = [torch.cat([next(outputs).logits for _ in numbers]) for numbers in values]
        if examples.wide is None:
            return logits
        wide = [torch.from_numpy(examples.wide[examples.target_places(index)]) for index in values]
        weight = self.codec.weights.network
        return [weight * deep + added for deep, added in zip(logits, wide, strict=True)]

"""Inspection of one input, for every task without a search."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from regard.attention.observe import shared_copy
from regard.core.file_lines import described_line
from regard.core.observation import Continues, Influence, Influenced, Observation, Observes, Traced, require_observation
from regard.core.predictor_interface import interface_of, read_input
from regard.errors import ConfigError
from regard.inspection.attention_parts import rollouts, vectors
from regard.inspection.build_document import Part
from regard.inspection.changed_network import head_changes, logit_lens
from regard.inspection.document import Inspection
from regard.inspection.network_blocks import network_blocks, recorded_shapes
from regard.inspection.observation_document import alternatives

PARTS_OF_ALL_TASKS: tuple[Part, ...] = ("ablation", "lens", "vectors")


def inspect_input(
    predictor: Any,
    text: str,
    model: Mapping[str, str | None],
    include: Collection[Part] = (),
    settings: BaseModel | None = None,
) -> Inspection:
    """Return the inspection of one input.

    Args:
        predictor: of the model.
        text: a line, as ``predictor.read`` parses it.
        model: name, task and checkpoint, copied into the document.
        include: expensive parts: ``ablation`` (one pass per head), ``influence`` (one pass per piece), ``lens`` (one
            pass per layer), ``vectors`` (queries, keys and values, which are large).
        settings: settings of a request; they add ``output``, the readable output, or ``next``, the next tokens.

    Raises:
        ConfigError: if the predictor or the input cannot be inspected.
    """
    if not isinstance(predictor, Observes):
        raise ConfigError(
            f"the task {model['task']} cannot be inspected",
            why="its predictor has no method inspect(input) -> Observation",
            help="regard.core.observation describes its result, which the page draws",
        )
    input = read_input(predictor, text) if hasattr(predictor, "read") else text
    added: dict[str, Any] = {}
    if isinstance(predictor, Traced):
        # Hooks are on a copy, because other threads may use the network.
        traced: Any = predictor.with_network(shared_copy(predictor.network))
        with recorded_shapes(traced.network) as shapes:
            observation = require_observation(traced.inspect(input))
        added["network"] = network_blocks(traced.network, shapes, observation.attention)
        added |= _changed(traced, input, observation, include)
    else:
        observation = require_observation(predictor.inspect(input))
    if settings is not None:
        added |= _output(predictor, input, settings)
    if "vectors" in include:
        added["vectors"] = vectors(observation.attention)
    if "influence" in include:
        observation = observation._replace(influences=_influences(predictor, input, observation, model))
    inspection = Inspection.of(require_observation(observation), model, described_line(text))
    inspection.document.update(rollout=rollouts(observation.attention), **added)
    return inspection


def _changed(traced: Any, input: Any, observation: Observation, include: Collection[Part]) -> dict[str, Any]:
    """Return the parts that require a changed network."""
    parts: dict[str, Any] = {}

    def scores(rows: int) -> Tensor:
        return torch.tensor([sum(traced.scores(input, observation))], dtype=torch.float64)

    if "ablation" in include:
        parts["ablation"] = head_changes(traced.network, observation.attention, scores)
    if "lens" in include:
        parts["lens"] = logit_lens(traced.network, lambda: traced.inspect(input).predictions)
    return {name: part for name, part in parts.items() if part is not None}


def _output(predictor: Any, input: Any, settings: BaseModel) -> dict[str, Any]:
    """Return the output under the settings of a request; for a language model, the next-token distribution."""
    if isinstance(predictor, Continues):
        return {"next": alternatives(predictor.next_tokens(input, settings))}
    output = interface_of(predictor).predict(input, settings, lambda: False)
    return {"output": predictor.write(output, json=False)}


def _influences(
    predictor: object, input: Any, observation: Observation, model: Mapping[str, str | None]
) -> tuple[Influence, ...]:
    """Return the influence of each piece. Raises ConfigError if the predictor does not compute it."""
    influences = predictor.influences(input, observation) if isinstance(predictor, Influenced) else ()
    if not influences and observation.predictions:
        why = "its predictor has no method influences(input, observation)"
        raise ConfigError(f"influence is not available for {model['task']} models", why=why)
    return influences

"""Predictions of a changed network: without one head, or with only its first layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism
from regard.attention.observe import mechanisms
from regard.core.observation import AttentionMap, Prediction
from regard.inspection.observation_document import finite

Scores = Callable[[int], Tensor]  # (number of equal rows) → (rows,) the score of each row


def head_changes(
    network: nn.Module, maps: Sequence[AttentionMap], scores: Scores, *, at_once: int = 1
) -> dict[str, list[float]]:
    """Return, for each attention and head, the change of the score if the context of the head is set to 0.

    A score is a log-probability in nats, or a number; a change is negative if the head helped. See Michel et al. 2019,
    "Are sixteen heads really better than one?", §2.3, for one input.

    Args:
        network: the network that ``scores`` uses.
        maps: the attention maps; maps without a source are omitted.
        scores: computes the score of equal rows. In row r, the context of the r-th head of a group is set to 0.
        at_once: the number of heads in a group.
    """
    named, changes, whole = mechanisms(network), dict[str, list[float]](), float(scores(1)[0])
    by_name: dict[str, list[float]] = {}
    for attention in maps:
        name = attention.source and _name_in(named, attention.source.name)
        if name is None:
            continue
        if name not in by_name:
            by_name[name] = []
            heads = range(len(attention.weights))
            for first in heads[::at_once]:
                group = heads[first : first + at_once]
                with _without(named[name], group, len(heads)):
                    by_name[name] += [round(value, 6) for value in (scores(len(group)).double() - whole).tolist()]
        changes[attention.place] = by_name[name]
    return changes


def _name_in(named: Mapping[str, Mechanism], name: str) -> str | None:
    """Return the name of an attention in the whole network; ``name`` can be its name in a part of the network."""
    return next((whole for whole in named if whole == name or whole.endswith(f".{name}")), None)


@contextmanager
def _without(mechanism: Mechanism, group: Sequence[int], heads: int) -> Iterator[None]:
    """Inside the block, set the context of the r-th head of ``group`` to 0 in row r; a single head, in all rows."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> Attended:
        factor = 1 - torch.eye(heads, dtype=attended.context.dtype, device=attended.context.device)[list(group)]
        return attended._replace(context=attended.context * factor[:, :, None, None])

    handle = mechanism.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def logit_lens(network: nn.Module, predict: Callable[[], Sequence[Prediction]]) -> dict[str, Any] | None:
    """Return the best label of each prediction after each layer; None for a network without residual layers.

    The last norm, the pooling and the output layer read the state after that layer; later layers are skipped. The
    last row is the whole network. See nostalgebraist 2020, "Interpreting GPT: the logit lens".

    Args:
        network: the network that ``predict`` uses. With an encoder and a decoder, layers of the decoder are skipped.
        predict: returns the predictions.
    """
    layers = _residual_layers(network)
    if not layers:
        return None
    rows = []
    for read in range(len(layers) + 1):
        with ExitStack() as skipped:
            for layer in layers[read:]:
                skipped.enter_context(_skipped(layer))
            rows.append([_best(prediction) for prediction in predict()])
    names = ["embedding", *(f"layer {number}" for number in range(len(layers)))]
    return {"layers": names, "sites": list(range(len(rows[0]))), "rows": rows}


def _residual_layers(network: nn.Module) -> list[nn.Module]:
    """Return the layers of the last stack whose layers add residual branches to the features."""
    stacks: dict[str, list[nn.Module]] = {}
    for path, module in network.named_modules():
        if hasattr(module, "branch_count"):
            stacks.setdefault(path.rpartition(".")[0], []).append(module)
    return [*stacks.values()][-1] if stacks else []


@contextmanager
def _skipped(layer: nn.Module) -> Iterator[None]:
    """Return the features of a layer unchanged, or a difference of 0 for each of its branches."""

    def hook(module: nn.Module, positional: Any, keywords: Mapping[str, Any], output: Any) -> Any:
        x = positional[0]
        return (x if keywords.get("only") is None else torch.zeros_like(x), *output[1:])

    handle = layer.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _best(prediction: Prediction) -> dict[str, Any]:
    """Return the most probable label. The label of a prediction after a piece can be a different one."""
    if prediction.alternatives:
        best = prediction.alternatives[0]
        return {"label": best.label, "log_probability": finite(best.log_probability)}
    return {"label": prediction.label, "log_probability": None}

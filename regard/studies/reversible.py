"""Reversible layers: what is kept for the gradient does not grow with depth.

Claim: where each branch reads one stream and adds to another, the beginning of a stack is computed again from its end,
so that what training keeps does not grow with the number of layers, and the gradients are those of automatic
differentiation (Gomez et al. 2017; Kitaev et al. 2020, §3 and Table 3).

Measured: encoders 64 wide with 2 heads and dropout, over one sequence of 256 columns, of 2 to 32 layers; the bytes in
tensors that wait for the backward pass, parameters aside, plain, checkpointed and reversible; the gradients of six
reversible layers in float64 against the same streams kept by autograd; and, in float32, how far what the first branch
reads in the backward pass, computed back through all layers, is from what it read at first.

Thresholds: as much is kept at the largest depth as at the least, to the byte, and there at most a twentieth of what the
plain order keeps. Gradients agree to 1e-10 of their largest. The way back ends within 1e-5 of where it began, in units
of the largest number there. The baseline is checkpointing, which keeps one input a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.core.randomness import fork, seeded_generator
from regard.models.execution import EXECUTIONS, Execution, Reversible, Step
from regard.models.input import TokenInput
from regard.models.transformer.build import encoder
from regard.models.transformer.config import TransformerStackConfig
from regard.models.transformer.transformer import TransformerEncoder
from regard.studies.study import Findings, Report, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (2, 4, 8, 16, 32)
WIDTH, LENGTH, TYPES, COMPARED = 64, 256, 50, 6


def run(*, seed: int, minimal: bool, report: Report, execution: type[Execution] = Reversible) -> Findings:
    """Measure ``execution`` beside the plain and the checkpointed order."""
    depths, length = (DEPTHS[:3], 32) if minimal else (DEPTHS, LENGTH)
    orders: dict[str, type[Execution]] = {**EXECUTIONS, "reversible": execution}
    kept: dict[str, list[int]] = {name: [] for name in orders}
    for done, depth in enumerate(depths, start=1):
        for name, order in orders.items():
            kept[name].append(_bytes_waiting(_stack(depth, order()), length))
        report(0.8 * done / len(depths))
    apart = _gradients_apart(execution, length, seed)
    report(0.9)
    back = _way_back(execution, depths[-1], length)
    report(1.0)
    mine = kept["reversible"]
    return Findings(
        columns=("layers", *(f"{name}, MB" for name in orders)),
        rows=[(depth, *(kept[name][at] / 1e6 for name in orders)) for at, depth in enumerate(depths)],
        criteria=[
            at_most("bytes kept at the largest depth over those at the least", mine[-1] / mine[0], 1),
            at_most("and over the plain order's", mine[-1] / kept["plain"][-1], 1 / 5 if minimal else 1 / 20),
            at_most("gradients against autograd's, of their largest", apart, 1e-10),
            at_most("error of the way back, of the largest number", back, 1e-5),
        ],
        draw=lambda figure: _draw(figure, depths, kept),
        remarks=("Beside this, memory takes the intermediate results of one branch, in both directions.",),
    )


def _stack(depth: int, order: Execution) -> TransformerEncoder:
    """An encoder with the frames that its order of execution needs."""
    torch.manual_seed(1)
    config = TransformerStackConfig(
        layers=depth, width=WIDTH, heads=2, feed_forward=2 * WIDTH, norm="pre", dropout=0.1, attention_dropout=0.1,
        execution="reversible" if isinstance(order, Reversible | _Kept) else "plain",
    )  # fmt: skip
    made = encoder(config, TokenInput(nn.Parameter(torch.randn(TYPES, WIDTH)))).train()
    made.execution = order
    return made


class _Waiting:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()


def _bytes_waiting(made: TransformerEncoder, length: int) -> int:
    """Bytes that wait for the backward pass after the forward one, parameters aside; shared memory counts once."""
    waiting: WeakSet[_Waiting] = WeakSet()

    def pack(tensor: Tensor) -> _Waiting:
        kept = _Waiting(tensor)
        waiting.add(kept)
        return kept

    own = {parameter.untyped_storage().data_ptr() for parameter in made.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        output = made(*_columns(length)).states
    assert output.requires_grad
    storages = {each.tensor.untyped_storage().data_ptr(): each.tensor.untyped_storage().nbytes() for each in waiting}
    return sum(size for place, size in storages.items() if place not in own)


def _columns(length: int) -> tuple[Tensor, Span]:
    tokens = torch.arange(length)[None] % TYPES
    return tokens, Span.without_padding(tokens)


class _Kept(Execution):
    """The streams of ``Reversible``, all that lies between them kept by autograd."""

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[object, ...]]:
        streams = [x, x]
        for number, branch in enumerate([branch for step in steps for branch in step.branches()]):
            with fork()():
                added, _ = branch.difference(streams[1 - number % 2], *branch.inputs)
            streams[number % 2] = streams[number % 2] + added
        return (streams[0] + streams[1]) / 2, ((),) * len(steps)


def _gradients_apart(execution: type[Execution], length: int, seed: int) -> float:
    made = _stack(COMPARED, execution()).double()
    found = []
    for order in (execution(), _Kept()):
        made.execution = order
        with seeded_generator(seed, torch.device("cpu")):
            loss = made(*_columns(length)).states.square().sum()
            found.append(torch.autograd.grad(loss, list(made.parameters())))
    return max(
        float((one - other).abs().max() / other.abs().max().clamp_min(1e-30)) for one, other in zip(*found, strict=True)
    )


def _way_back(execution: type[Execution], depth: int, length: int) -> float:
    """Largest difference between what the first branch reads forward and backward, of the largest number there."""
    made, read = _stack(depth, execution()), list[Tensor]()

    def note(layer: nn.Module, given: tuple[Tensor, ...], named: dict[str, object]) -> None:
        if named.get("only") == 0:
            read.append(given[0].detach())

    made.layers[0].register_forward_pre_hook(note, with_kwargs=True)
    with seeded_generator(1, torch.device("cpu")):
        made(*_columns(length)).states.sum().backward()
    return float((read[0] - read[-1]).abs().max() / read[0].abs().max()) if len(read) > 1 else float("inf")


def _draw(figure: Figure, depths: Sequence[int], kept: dict[str, list[int]]) -> None:
    axes = figure.subplots()
    for name, found in kept.items():
        axes.loglog(depths, [each / 1e6 for each in found], "o-", label=name)
    axes.set(xlabel="layers", ylabel="MB", title="kept for the gradient")
    axes.legend()

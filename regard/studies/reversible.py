"""Reversible layers: memory for the gradient that does not grow with depth.

Claim: if each branch reads one stream and adds to the other, the inputs of a stack can be computed again from its
outputs. The memory for the backward pass therefore does not grow with the number of layers. The gradients equal those
of automatic differentiation (Gomez et al. 2017; Kitaev et al. 2020, §3 and Table 3).

Measured: encoders of 2 to 32 layers, 64 wide with 2 heads and dropout, on one sequence of 256 positions. Figures are
the bytes of tensors kept for the backward pass, without parameters, in the plain, the checkpointed and the reversible
order. The gradients of six reversible layers in float64 are compared with those of the same streams in autograd. In
float32, the input of the first branch is computed back through all layers in the backward pass. It is compared with the
input in the forward pass.

Thresholds: the bytes at the largest depth equal those at the smallest, and are at most a twentieth of those of the
plain order. Gradients agree to 1e-10 of their largest value. The recomputed input differs by at most 1e-5 of its
largest value. The baseline is checkpointing, which stores one input per layer.
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
from regard.models.transformer.config import TransformerEncoderConfig
from regard.models.transformer.transformer import TransformerEncoder
from regard.studies.study import Findings, Report, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (2, 4, 8, 16, 32)
WIDTH, LENGTH, TYPES, COMPARED = 64, 256, 50, 6


def run(*, seed: int, minimal: bool, report: Report, execution: type[Execution] = Reversible) -> Findings:
    """Measure ``execution`` next to the plain and the checkpointed order."""
    depths, length = (DEPTHS[:3], 32) if minimal else (DEPTHS, LENGTH)
    orders: dict[str, type[Execution]] = {**EXECUTIONS, "reversible": execution}
    saved: dict[str, list[int]] = {name: [] for name in orders}
    for done, depth in enumerate(depths, start=1):
        for name, order in orders.items():
            saved[name].append(_bytes_for_backward(_stack(depth, order()), length))
        report(0.8 * done / len(depths))
    gradient_difference = _gradient_difference(execution, length, seed)
    report(0.9)
    input_error = _recomputation_error(execution, depths[-1], length)
    report(1.0)
    reversible = saved["reversible"]
    return Findings(
        columns=("layers", *(f"{name}, MB" for name in orders)),
        rows=[(depth, *(saved[name][index] / 1e6 for name in orders)) for index, depth in enumerate(depths)],
        criteria=[
            at_most("bytes at the largest depth / at the smallest", reversible[-1] / reversible[0], 1),
            at_most(
                "bytes at the largest depth / of the plain order",
                reversible[-1] / saved["plain"][-1],
                1 / 5 if minimal else 1 / 20,
            ),
            at_most("gradients: relative difference from autograd", gradient_difference, 1e-10),
            at_most("recomputed input: relative error", input_error, 1e-5),
        ],
        draw=lambda figure: _draw(figure, depths, saved),
        remarks=("The intermediate results of one branch need further memory, in both directions.",),
    )


def _stack(depth: int, order: Execution) -> TransformerEncoder:
    """Build an encoder with the configuration that its order of execution requires."""
    torch.manual_seed(1)
    config = TransformerEncoderConfig(
        layers=depth, width=WIDTH, heads=2, feed_forward=2 * WIDTH, norm="pre", dropout=0.1, attention_dropout=0.1,
        execution="reversible" if isinstance(order, Reversible | _AutogradStreams) else "plain",
    )  # fmt: skip
    stack = encoder(config, TokenInput(nn.Parameter(torch.randn(TYPES, WIDTH)))).train()
    stack.execution = order
    return stack


class _SavedTensor:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()


def _bytes_for_backward(stack: TransformerEncoder, length: int) -> int:
    """Return the bytes kept for the backward pass without parameters; shared memory counts once."""
    saved: WeakSet[_SavedTensor] = WeakSet()

    def pack(tensor: Tensor) -> _SavedTensor:
        saved_tensor = _SavedTensor(tensor)
        saved.add(saved_tensor)
        return saved_tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in stack.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved_tensor: saved_tensor.tensor):
        output = stack(*_tokens(length)).states
    assert output.requires_grad
    storages = {entry.tensor.untyped_storage().data_ptr(): entry.tensor.untyped_storage().nbytes() for entry in saved}
    return sum(size for address, size in storages.items() if address not in parameters)


def _tokens(length: int) -> tuple[Tensor, Span]:
    tokens = torch.arange(length)[None] % TYPES
    return tokens, Span.without_padding(tokens)


class _AutogradStreams(Execution):
    """The streams of ``Reversible``, whose intermediate results autograd keeps."""

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[object, ...]]:
        streams = [x, x]
        for number, branch in enumerate([branch for step in steps for branch in step.branches()]):
            with fork()():
                difference, _ = branch.difference(streams[1 - number % 2], *branch.inputs)
            streams[number % 2] = streams[number % 2] + difference
        return (streams[0] + streams[1]) / 2, ((),) * len(steps)


def _gradient_difference(execution: type[Execution], length: int, seed: int) -> float:
    stack = _stack(COMPARED, execution()).double()
    gradients = []
    for order in (execution(), _AutogradStreams()):
        stack.execution = order
        with seeded_generator(seed, torch.device("cpu")):
            loss = stack(*_tokens(length)).states.square().sum()
            gradients.append(torch.autograd.grad(loss, list(stack.parameters())))
    return max(
        float((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
        for actual, expected in zip(*gradients, strict=True)
    )


def _recomputation_error(execution: type[Execution], depth: int, length: int) -> float:
    """Return the relative difference between the first branch's input in the forward and in the backward pass."""
    stack, inputs = _stack(depth, execution()), list[Tensor]()

    def record_input(layer: nn.Module, arguments: tuple[Tensor, ...], keywords: dict[str, object]) -> None:
        if keywords.get("only") == 0:
            inputs.append(arguments[0].detach())

    stack.layers[0].register_forward_pre_hook(record_input, with_kwargs=True)
    with seeded_generator(1, torch.device("cpu")):
        stack(*_tokens(length)).states.sum().backward()
    return float((inputs[0] - inputs[-1]).abs().max() / inputs[0].abs().max()) if len(inputs) > 1 else float("inf")


def _draw(figure: Figure, depths: Sequence[int], saved: dict[str, list[int]]) -> None:
    axes = figure.subplots()
    for name, sizes in saved.items():
        axes.loglog(depths, [size / 1e6 for size in sizes], "o-", label=name)
    axes.set(xlabel="layers", ylabel="MB", title="memory for the gradient")
    axes.legend()

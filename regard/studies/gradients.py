"""Vanishing and exploding gradients of recurrent cells.

Claim: the gradient of an input τ steps back is a product of τ Jacobians. It therefore shrinks or grows exponentially
with the largest singular value ρ of the recurrent matrix (Bengio et al. 1994; Pascanu et al. 2013, §2.1). The gates of
an LSTM or GRU preserve it (Hochreiter & Schmidhuber 1997), but only if they start open (Jozefowicz et al. 2015).

Measured: new cells with H = 64, T = 100 steps of normal inputs of size 0.1, and the loss ½‖h_T‖², in float64. The ratio
is ‖∂L/∂a_{T−τ}‖ / ‖∂L/∂h_T‖, as a geometric mean over rows; a_t = W x_t + b is the input of a step before its
nonlinearity. The recurrent matrix is ρ times an orthogonal matrix. One more row has inputs of size 1.

Thresholds: four properties of the ratio.

- Without a nonlinearity the ratio is exactly ρ^τ; rounding over 100 steps is below 1e-9.
- A tanh has a slope of at most 1 and can only lower the ratio, so ρ^τ bounds it, except for rounding. With ρ = 1.5 the
  ratio must grow from τ = 10 to 99.
- A gate that starts open by a bias b loses 1 − σ(b) of the state in each step. Because gates depend on their inputs,
  the norm may lose twice that share per step.
- A gate without the bias starts half closed. At τ = 99 it must preserve less than the tanh cell with ρ = 0.9, which
  shows that gates alone do not help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.models.recurrent.cells import GRU, LSTM, Carried, Cell, Elman
from regard.studies.study import Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, STEPS = 64, 100
LAST = STEPS - 1
SHOWN = (0, 10, 25, 50, LAST)
ROUNDING = 1e-9
INPUT = 0.1  # size of the inputs; larger ones saturate the tanh
OPEN = 3.0  # bias of a gate that starts open and keeps σ(3) = 95 % of the state per step
LINEAR, TANH = (0.9, 1.0, 1.1), (0.9, 1.0, 1.5)

Curve = list[float]  # over τ = 0 … 99


def orthogonal(rho: float) -> Tensor:
    """Return a recurrent matrix whose singular values are all ρ."""
    return rho * nn.init.orthogonal_(torch.empty(WIDTH, WIDTH, dtype=torch.float64))


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    matrix: Callable[[float], Tensor] = orthogonal,
    bias: float = OPEN,
) -> Findings:
    """Measure the gradients.

    ``matrix`` returns a recurrent matrix for ρ; ``bias`` is that of the gates that start open.
    """
    rows = 2 if minimal else 16
    measurements: dict[str, Callable[[], Curve]] = {f"linear, ρ = {rho}": _linear(rho, matrix, rows) for rho in LINEAR}
    measurements |= {f"tanh, ρ = {rho}": _tanh(rho, matrix, rows, INPUT) for rho in TANH}
    measurements[f"tanh, ρ = {TANH[-1]}, inputs of size 1"] = _tanh(TANH[-1], matrix, rows, 1.0)
    for cell in (LSTM, GRU):
        measurements |= {
            cell.__name__: _gated(cell, 0.0, rows),
            f"{cell.__name__}, gate open": _gated(cell, bias, rows),
        }
    curves: dict[str, Curve] = {}
    for name, measure in measurements.items():
        curves[name] = measure()
        report(len(curves) / len(measurements))
    bound = (1 - 2 / (1 + math.exp(OPEN))) ** LAST
    remaining = {name: curve[LAST] / curve[0] for name, curve in curves.items()}
    linear_law = max(_max_deviation(curves[f"linear, ρ = {rho}"], rho, lambda share: abs(share - 1)) for rho in LINEAR)
    tanh_law = max(_max_deviation(curves[f"tanh, ρ = {rho}"], rho, lambda share: share - 1) for rho in TANH)
    exploding, plain = curves[f"tanh, ρ = {TANH[-1]}"], remaining[f"tanh, ρ = {TANH[0]}"]
    criteria = [
        at_most("linear: |ratio / ρ^τ − 1|, maximum", linear_law, ROUNDING),
        at_most("tanh: ratio / ρ^τ − 1, maximum", tanh_law, ROUNDING),
        at_least(f"tanh, ρ = {TANH[-1]}: growth from τ = 10 to {LAST}", exploding[LAST] / exploding[10], 1),
    ]
    for name in ("LSTM", "GRU"):
        criteria.append(
            at_least(f"{name} with its gate open: remaining at τ = {LAST}", remaining[f"{name}, gate open"], bound)
        )
        criteria.append(at_most(f"{name} without a bias: remaining at τ = {LAST}", remaining[name], plain))
    return Findings(
        columns=("cell", *(f"τ = {tau}" for tau in SHOWN)),
        rows=[(name, *(curve[tau] for tau in SHOWN)) for name, curve in curves.items()],
        criteria=criteria,
        remarks=(
            "A ρ above 1 is necessary for gradients to explode, but not sufficient: inputs of size 1 saturate the "
            "tanh, and its small slope outweighs ρ = 1.5.",
        ),
        draw=lambda figure: _draw(figure, curves),
    )


def _linear(rho: float, matrix: Callable[[float], Tensor], rows: int) -> Callable[[], Curve]:
    """Return the measurement of the cell h_t = a_t + U h_{t−1}."""

    def measure() -> Curve:
        recurrent = matrix(rho)
        inputs = INPUT * torch.randn(rows, STEPS, WIDTH, dtype=torch.float64)
        return _ratios(lambda a, carried: (a + carried[0] @ recurrent.T,), inputs, (torch.zeros_like(inputs[:, 0]),))

    return measure


def _tanh(rho: float, matrix: Callable[[float], Tensor], rows: int, size: float) -> Callable[[], Curve]:
    def measure() -> Curve:
        cell = Elman(WIDTH, WIDTH).double()
        with torch.no_grad():
            cell.weights.recurrent.copy_(matrix(rho))
        return _through(cell, rows, size)

    return measure


def _gated(kind: type[LSTM] | type[GRU], bias: float, rows: int) -> Callable[[], Curve]:
    def measure() -> Curve:
        cell = kind(WIDTH, WIDTH).double()
        cell.add_forget_bias(bias)
        return _through(cell, rows, INPUT)

    return measure


def _through(cell: Cell, rows: int, size: float) -> Curve:
    with torch.no_grad():
        inputs = cell.project_input(size * torch.randn(rows, STEPS, WIDTH, dtype=torch.float64))
    return _ratios(cell.step_function(), inputs, cell.start(rows))


def _ratios(step: Callable[[Tensor, Carried], Carried], inputs: Tensor, carried: Carried) -> Curve:
    """Return ‖∂L/∂a_{T−τ}‖ / ‖∂L/∂h_T‖ for τ = 0 … T − 1, L = ½‖h_T‖²: geometric means over rows."""
    columns = [column.requires_grad_() for column in inputs.unbind(1)]
    for column in columns:
        carried = step(column, carried)
    hidden = carried[0]
    slopes = torch.autograd.grad(hidden.square().sum() / 2, columns)
    ratios = torch.stack([slope.norm(dim=1) for slope in reversed(slopes)]) / hidden.norm(dim=1)
    means: Curve = ratios.log().mean(1).exp().tolist()
    return means


def _max_deviation(curve: Curve, rho: float, deviation: Callable[[float], float]) -> float:
    return max(deviation(ratio / rho**tau) for tau, ratio in enumerate(curve))


def _draw(figure: Figure, curves: Mapping[str, Curve]) -> None:
    plain, gated = figure.subplots(1, 2, sharey=True)
    for name, curve in curves.items():
        axes = plain if "ρ" in name else gated
        axes.semilogy(range(STEPS), curve, label=name, linestyle="--" if "linear" in name else "-")
    plain.set(title="a matrix alone", xlabel="steps back τ", ylabel="‖∂L/∂a‖ / ‖∂L/∂h_T‖", ylim=(1e-16, 1e6))
    gated.set(title="gates", xlabel="steps back τ")
    for axes in (plain, gated):
        axes.legend()

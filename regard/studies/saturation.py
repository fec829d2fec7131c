"""Saturation of the softmax by unscaled dot products.

Claim: if the components of q and k are independent, with mean 0 and variance 1, then q·k has variance d_k. A large d_k
moves the softmax into regions of extremely small gradients (Vaswani et al. 2017, §3.2.1 and footnote 4). Division by
√d_k prevents this.

Measured: sets of 64 keys and 128 queries, all normally distributed. For the weights p of each query: the largest
weight, the entropy, and the norm of the softmax's Jacobian ∂p/∂e = diag(p) − ppᵀ, through which every gradient reaches
the energies e. (The gradient of the *projections* does not vanish at initialization: there the factor √d_k of the keys
outweighs the Jacobian.)

Thresholds: the variance is compared with d_k in units of the estimate's standard error, and may differ by 5 of them.
For n sets of m queries and s keys, the relative standard error is √(2/(d_k·nm) + 2/(d_k·ns) + (2 + 2/d_k)/(nms)).
Unscaled, the gap between the two largest energies grows as √d_k. The mean norm of nearly one-hot weights decreases with
the probability that this gap is about 1, as d_k^(−1/2). The exponent fitted from d_k = 256 is within 0.1 of that.
Scaled, the energies have one distribution for all d_k except for the tails at small d_k: the norms differ by at most a
tenth. The closed form of the norm agrees with autograd's of the mechanism to 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.attention.kernel import weigh
from regard.attention.mask import Bound, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.score import Score
from regard.attention.span import Span
from regard.studies.study import Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES, KEYS = 128, 64  # in one set
LARGE = 256  # the unscaled softmax is saturated from this width; its decay is fitted


class Softness(NamedTuple):
    """Softness of attention weights: means over the sets."""

    variance: float
    largest: float
    entropy: float
    jacobian: float


def run(
    *, seed: int, minimal: bool, report: Report, unscaled: Score | None = None, scaled: Score | None = None
) -> Findings:
    """Compare the scores ``unscaled`` and ``scaled``."""
    unscaled, scaled = unscaled or Dot(scale=1.0), scaled or Dot()
    widths = [4, 16, 64, 256, 1024, 4096]
    sets = 32 if minimal else 512
    plain, divided = [], []
    for done, width in enumerate(widths, start=1):
        plain_softness, divided_softness = _softness(unscaled, scaled, sets=sets, width=width)
        plain.append(plain_softness)
        divided.append(divided_softness)
        report(done / len(widths))
    errors = [
        math.sqrt(2 / (d * sets) * (1 / QUERIES + 1 / KEYS) + (2 + 2 / d) / (sets * QUERIES * KEYS)) for d in widths
    ]
    norms = [softness.jacobian for softness in divided]
    return Findings(
        columns=("d_k", "var(q·k)", "largest p", "scaled", "entropy", "scaled", "‖∂p/∂e‖", "scaled"),
        rows=[
            (d, a.variance, a.largest, b.largest, a.entropy, b.entropy, a.jacobian, b.jacobian)
            for d, a, b in zip(widths, plain, divided, strict=True)
        ],
        criteria=[
            at_most(
                "|var(q·k) / d_k − 1| in standard errors, maximum",
                max(abs(p.variance / d - 1) / error for d, p, error in zip(widths, plain, errors, strict=True)),
                5,
            ),
            at_most("unscaled: |exponent of ‖∂p/∂e‖ in d_k + 1/2|", abs(_exponent(widths, plain) + 0.5), 0.1),
            at_most("scaled: largest ‖∂p/∂e‖ / smallest, over d_k", max(norms) / min(norms), 1.1),
            at_least("scaled / unscaled ‖∂p/∂e‖ at the largest d_k", norms[-1] / plain[-1].jacobian, 2),
            at_most("Jacobian, closed form against autograd", _disagreement(scaled), 1e-12),
        ],
        draw=lambda figure: _draw(figure, widths, plain, divided),
    )


def _softness(*scores: Score, sets: int, width: int) -> list[Softness]:
    """Measure the softness of each score over the same queries and keys."""
    bound, totals = _full_mask(QUERIES), [torch.zeros(len(Softness._fields)) for _ in scores]
    for _ in range(sets):
        query, key = torch.randn(1, 1, QUERIES, width), torch.randn(1, 1, KEYS, width)
        variance = torch.einsum("bhtd,bhsd->bhts", query, key).square().mean()
        for total, score in zip(totals, scores, strict=True):
            p = weigh(score.energy(query, score.prepare(key)), bound)
            means = (p.amax(-1).mean(), -torch.xlogy(p, p).sum(-1).mean(), _jacobian_norm(p).mean())
            total += torch.stack([variance, *means])
    return [Softness(*(total / sets).tolist()) for total in totals]


def _full_mask(queries: int) -> Bound:
    """Return a mask under which all queries attend to all keys."""
    query_span, key_span = (Span.of(torch.ones(1, length, dtype=torch.bool)) for length in (queries, KEYS))
    return Padding().bind(query_span, key_span)


def _jacobian_norm(p: Tensor) -> Tensor:
    """Return ‖diag(p) − ppᵀ‖ = √(Σp² − 2Σp³ + (Σp²)²) over the last dimension."""
    square = p.square().sum(-1)
    return (square - 2 * p.pow(3).sum(-1) + square.square()).clamp_min(0).sqrt()


def _disagreement(score: Score) -> float:
    """Return the difference between that norm and autograd's, for one query in float64."""
    query, key = torch.randn(1, 1, 1, 16, dtype=torch.float64), torch.randn(1, 1, KEYS, 16, dtype=torch.float64)
    bound = _full_mask(1)
    energy = score.energy(query, score.prepare(key))
    jacobian = torch.autograd.functional.jacobian(lambda e: weigh(e, bound).flatten(), energy)
    return float((jacobian.flatten(1).norm() - _jacobian_norm(weigh(energy, bound))).abs().max())


def _exponent(widths: Sequence[int], measured: Sequence[Softness]) -> float:
    """Return the exponent of a power law through the norms at widths of at least LARGE, by least squares."""
    points = [
        (math.log(d), math.log(softness.jacobian)) for d, softness in zip(widths, measured, strict=True) if d >= LARGE
    ]
    x, y = torch.tensor(points, dtype=torch.float64).T
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def _draw(figure: Figure, widths: Sequence[int], plain: Sequence[Softness], divided: Sequence[Softness]) -> None:
    left, middle, right = figure.subplots(1, 3)
    left.loglog(widths, [softness.variance for softness in plain], "o-", label="measured")
    left.loglog(widths, widths, "--", label="d_k")
    left.set(xlabel="d_k", ylabel="variance of q·k", title="variance of the product")
    for axes, title in ((middle, "largest"), (right, "jacobian")):
        for label, measured in (("q·k", plain), ("q·k / √d_k", divided)):
            axes.semilogx(widths, [getattr(softness, title) for softness in measured], "o-", label=label)
        axes.set(xlabel="d_k")
    middle.set(ylabel="largest of 64 weights", title="saturation", ylim=(0, 1))
    right.set(ylabel="‖∂p/∂e‖", title="norm of the Jacobian")
    right.set_ylim(bottom=0)
    for axes in (left, middle, right):
        axes.legend()

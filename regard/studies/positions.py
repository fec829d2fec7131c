"""Order blindness without positions, and the linearity of sinusoids.

Claim: self-attention has no recurrence and no convolution, so without information about positions it does not use the
order of the sequence. For any offset k, the sinusoid PE(p + k) is a linear function of PE(p) (Vaswani et al. 2017,
§3.5).

Measured: the encoder of a small Transformer with random parameters, in float64, reads distinct words and a permutation
of them. Order blindness is permutation equivariance: the maximum difference between the states of permuted words and
the permuted states of the words, which are of size 1. The linear function M_k rotates each pair (sin pω, cos pω) by kω;
its error is the maximum over p < 1000 and k up to 500. The best linear function by least squares is compared for
sinusoids and for a table of random vectors.

Thresholds: rounding in float64 is below 1e-12. Any type of position changes the states by at least 1e-3, nine orders of
magnitude more than rounding. For a random table of n positions and width d, least squares leaves the share √(1 − d/n)
of its size on average. It must leave at least half of that; otherwise linearity would be nothing special.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention.positions.absolute import sinusoids
from regard.attention.span import Span
from regard.core.figure import INK
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.studies.study import Cell, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("none", "sinusoidal", "learned", "rotary", "alibi", "t5", "shaw")
WIDTH, LONGEST = 64, 1000
ROUNDING = 1e-12
OFFSETS = (1, 2, 10, 100, 500)

Encode = Callable[[Tensor], Tensor]


def sines(position: Tensor) -> Tensor:
    """Return the paper's sinusoids in float64."""
    return sinusoids(position, WIDTH, dtype=torch.float64)


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    kinds: Mapping[str, str] | None = None,
    encode: Encode = sines,
) -> Findings:
    """Measure both claims; ``kinds`` maps labels to types of position, ``encode`` returns PE of positions as rows."""
    kinds = kinds or {kind: kind for kind in KINDS}
    words, layers = (6, 1) if minimal else (16, 3)
    changes: dict[str, float] = {}
    for label, kind in kinds.items():
        changes[label] = _order_change(kind, words=words, layers=layers)
        report(len(changes) / (len(kinds) + 1))
    errors = {k: _rotation_error(encode, k) for k in OFFSETS}
    residuals = {"sinusoids": _residual(encode(torch.arange(LONGEST)))}
    residuals["random table"] = _residual(torch.randn(LONGEST, WIDTH, dtype=torch.float64))
    report(1.0)
    rows: list[tuple[Cell, ...]] = [("change of states by another order of words", *pair) for pair in changes.items()]
    rows += [("|PE(p + k) − M_k PE(p)|, maximum", f"k = {k}", error) for k, error in errors.items()]
    rows += [("residual of the best linear map from p to p + 1", *pair) for pair in residuals.items()]
    share = math.sqrt(1 - WIDTH / LONGEST)
    return Findings(
        columns=("measure", "of", "value"),
        rows=rows,
        criteria=[
            at_most("change of states by another order, without positions", changes["none"], ROUNDING),
            at_least("the same with positions, minimum over types", min(_changes_except(changes, "none")), 1e-3),
            at_most("|PE(p + k) − M_k PE(p)|, maximum", max(errors.values()), ROUNDING),
            at_most("residual of the best linear map of sinusoids", residuals["sinusoids"], ROUNDING),
            at_least("residual of the best linear map of a random table", residuals["random table"], share / 2),
        ],
        draw=lambda figure: _draw(figure, encode(torch.arange(100)), changes),
    )


def _order_change(kind: str, *, words: int, layers: int) -> float:
    """Return the maximum difference between the states of permuted words and the permuted states of the words."""
    config = ModelConfig.model_validate(
        dict(width=32, heads=4, feed_forward=64, encoder_layers=layers, decoder_layers=1, dropout=0.0)
        | dict(position={"kind": kind})
    )
    encoder = build(config, source_types=words, target_types=words).encoder.double().eval()
    with torch.no_grad():
        for parameter in encoder.parameters():  # tables initialized to 0 would have no effect
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
        order = torch.cat(
            [torch.arange(0, words, 2), torch.arange(1, words, 2)]
        )  # not the reverse, whose distances are equal
        tokens = torch.arange(words)[None]
        states, permuted = (
            encoder(sequence, Span.without_padding(sequence)).states[0] for sequence in (tokens, tokens[:, order])
        )
    return float((permuted - states[order]).abs().max())


def _rotation_error(encode: Encode, k: int) -> float:
    """Return the maximum error of rotating each pair (sin pω, cos pω) by kω."""
    position = torch.arange(LONGEST)
    sine, cosine = encode(position).unflatten(1, (-1, 2)).unbind(2)
    angle = k * 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    rotated = torch.stack([angle.cos() * sine + angle.sin() * cosine, angle.cos() * cosine - angle.sin() * sine], 2)
    return float((rotated.flatten(1) - encode(position + k)).abs().max())


def _residual(table: Tensor) -> float:
    """Return the relative residual of row p + 1 after the best linear map of row p, by least squares over all p."""
    rows, next_rows = table[:-1], table[1:]
    best = torch.linalg.lstsq(rows, next_rows, driver="gelsd").solution
    return float((rows @ best - next_rows).norm() / next_rows.norm())


def _changes_except(changes: Mapping[str, float], excluded: str) -> list[float]:
    return [change for label, change in changes.items() if label != excluded]


def _draw(figure: Figure, table: Tensor, changes: Mapping[str, float]) -> None:
    left, middle, right = figure.subplots(1, 3)
    for axes, image, title, labels in (
        (left, table, "PE(p)", ("feature", "position p")),
        (middle, table @ table.T, "PE(p) · PE(q)", ("position q", "position p")),
    ):
        drawn = axes.imshow(image.tolist(), cmap="RdBu_r", interpolation="none", aspect="auto")
        axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
        figure.colorbar(drawn, ax=axes, label="value" if axes is left else "dot product")
    right.barh(list(changes), [max(change, 1e-17) for change in changes.values()], log=True)
    right.axvline(ROUNDING, color=INK, linestyle=":", label="rounding")
    right.set(title="another order of words", xlabel="change of states", ylabel="positions")
    right.invert_yaxis()
    right.legend()

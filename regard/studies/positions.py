"""Order blindness without positions, and the linearity of sinusoids.

Claim: self-attention has no recurrence and no convolution, so without information about positions it makes no use of
the order of the sequence; and for any offset k, the sinusoid PE(p + k) is a linear function of PE(p) (Vaswani et al.
2017, §3.5).

Measured: the encoder of a small Transformer, all its parameters random, in float64, reads distinct words and the same
words in another order. Order blindness is permutation-equivariance: states of permuted words less the permuted states
of the words, at most over states (which are of size 1). The linear function M_k turns each pair (sin pω, cos pω) by
kω; its error is the largest over p < 1000 and k up to 500. The best linear function found by least squares does no
worse than M_k, and can do nothing for a table of random vectors.

Thresholds: rounding in float64 stays below 1e-12. What a kind of position changes is held against 1e-3: nine orders of
magnitude above rounding. Least squares leaves of a random table of n positions and width d the share √(1 − d/n) of its
size, in the mean: it must leave at least half of that share, or linearity would be nothing special.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention.positions.absolute import sinusoids
from regard.attention.span import Span
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
    """Measure and judge; ``kinds`` maps labels to kinds of position, ``encode`` returns PE of positions as rows."""
    kinds = kinds or {kind: kind for kind in KINDS}
    words, layers = (6, 1) if minimal else (16, 3)
    changes: dict[str, float] = {}
    for label, kind in kinds.items():
        changes[label] = _order_matters(kind, words=words, layers=layers)
        report(len(changes) / (len(kinds) + 1))
    errors = {k: _turn_error(encode, k) for k in OFFSETS}
    left = {"sinusoids": _left_over(encode(torch.arange(LONGEST)))}
    left["random table"] = _left_over(torch.randn(LONGEST, WIDTH, dtype=torch.float64))
    report(1.0)
    rows: list[tuple[Cell, ...]] = [("another order of words changes states by", *pair) for pair in changes.items()]
    rows += [("|PE(p + k) − M_k PE(p)|, largest", f"k = {k}", error) for k, error in errors.items()]
    rows += [("share that the best linear map from p to p + 1 leaves", *pair) for pair in left.items()]
    share = math.sqrt(1 - WIDTH / LONGEST)
    return Findings(
        columns=("what", "of", "value"),
        rows=rows,
        criteria=[
            at_most("change of states by another order, without positions", changes["none"], ROUNDING),
            at_least("the same with positions of any kind, least", min(_but(changes, "none")), 1e-3),
            at_most("|PE(p + k) − M_k PE(p)|, largest", max(errors.values()), ROUNDING),
            at_most("share that the best linear map leaves of sinusoids", left["sinusoids"], ROUNDING),
            at_least("share that the best linear map leaves of a random table", left["random table"], share / 2),
        ],
        draw=lambda figure: _draw(figure, encode(torch.arange(100)), changes),
    )


def _order_matters(kind: str, *, words: int, layers: int) -> float:
    """Return the largest distance between the states of permuted words and the permuted states of the words."""
    config = ModelConfig.model_validate(
        dict(width=32, heads=4, feed_forward=64, encoder_layers=layers, decoder_layers=1, dropout=0.0)
        | dict(position={"kind": kind})
    )
    encoder = build(config, source_types=words, target_types=words).encoder.double().eval()
    with torch.no_grad():
        for parameter in encoder.parameters():  # some tables start at 0, and would change nothing yet
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
        order = torch.cat([torch.arange(0, words, 2), torch.arange(1, words, 2)])  # no distance sees only a mirror
        tokens = torch.arange(words)[None]
        states, permuted = (encoder(each, Span.without_padding(each)).states[0] for each in (tokens, tokens[:, order]))
    return float((permuted - states[order]).abs().max())


def _turn_error(encode: Encode, k: int) -> float:
    """Return the largest error of turning each pair (sin pω, cos pω) by kω."""
    position = torch.arange(LONGEST)
    sine, cosine = encode(position).unflatten(1, (-1, 2)).unbind(2)
    angle = k * 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    turned = torch.stack([angle.cos() * sine + angle.sin() * cosine, angle.cos() * cosine - angle.sin() * sine], 2)
    return float((turned.flatten(1) - encode(position + k)).abs().max())


def _left_over(table: Tensor) -> float:
    """Return the share of row p + 1 that the best linear map of row p leaves, by least squares over all p."""
    here, there = table[:-1], table[1:]
    best = torch.linalg.lstsq(here, there, driver="gelsd").solution
    return float((here @ best - there).norm() / there.norm())


def _but(changes: Mapping[str, float], left_out: str) -> list[float]:
    return [change for label, change in changes.items() if label != left_out]


def _draw(figure: Figure, table: Tensor, changes: Mapping[str, float]) -> None:
    left, middle, right = figure.subplots(1, 3)
    for axes, image, title, labels in (
        (left, table, "PE(p)", ("feature", "position p")),
        (middle, table @ table.T, "PE(p) · PE(q)", ("position q", "position p")),
    ):
        shown = axes.imshow(image.tolist(), cmap="RdBu_r", interpolation="none", aspect="auto")
        axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
        figure.colorbar(shown, ax=axes)
    right.barh(list(changes), [max(change, 1e-17) for change in changes.values()], log=True)
    right.axvline(ROUNDING, color="black", linestyle=":", label="rounding")
    right.set(title="another order of words", xlabel="changes states by")
    right.invert_yaxis()
    right.legend()

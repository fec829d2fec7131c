"""LayerNorm and BatchNorm: effect on a position, on other sentences of the batch, and on training.

Claim: LayerNorm gives the features of each position mean 0 and variance 1. Its output does not depend on the scale of
the weights before it, nor on the rest of the batch, and it shortens training. BatchNorm uses the statistics of the
batch, which does not suit sequences of different lengths (Ba et al. 2016, §3, §5 and Table 1).

Measured: in float64, the norms of random positions with gain 1 and bias 0, and again with a thousand times the weights.
Then the change of one sentence's states after an encoder in training mode, by other sentences of the batch and by more
padding. Then training: reversing 5 to 10 words out of 16 with four layers on each side, norms before the sub-layers,
Adam at 3e-3. The measure is the number of updates until the loss of 256 new sentences is 0.1 nats, in evaluation mode,
measured every 20 updates.

Thresholds: LayerNorm turns a variance v into v / (v + ε), so the variance differs from 1 by at most ε / v. Rounding is
below 1e-12. Other sentences and padding may change LayerNorm's states by 1e-12; BatchNorm's change by at least 1e-3.
LayerNorm reaches the goal, and needs no more updates than a network without a norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.attention.span import Span
from regard.core.figure import INK
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer.norms import Normalization, normalization
from regard.studies import toy_tasks
from regard.studies.study import Cell, Findings, Report, at_least, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: tuple[Normalization, ...] = ("layer", "rms", "batch", "none")
WIDTH, ROWS = 64, 32
EPSILON, ROUNDING = 1e-5, 1e-12
GOAL, EVERY = 0.1, 20  # nats per token; updates between measurements
TYPES, SHORTEST, LONGEST = 16, 5, 10

Make = Callable[[Normalization, int], nn.Module]


def run(*, seed: int, minimal: bool, report: Report, make: Make = normalization) -> Findings:
    """Measure the norms; ``make`` builds the norm of a name and width whose statistics are measured."""
    updates, layers = (EVERY, 1) if minimal else (400, 4)
    statistics = {kind: _statistics(make(kind, WIDTH).double()) for kind in KINDS}
    leaks = {kind: _leak(kind) for kind in KINDS}
    curves: dict[Normalization, list[float]] = {}
    for kind in KINDS:
        torch.manual_seed(seed)
        report_norm = toy_tasks.report_part(report, len(curves) / len(KINDS), (len(curves) + 1) / len(KINDS))
        curves[kind] = _losses(kind, updates, layers, seed, report_norm)
    steps = {kind: _updates_until(GOAL, curve) for kind, curve in curves.items()}
    mean, variance, scaled = statistics["layer"]
    return Findings(
        columns=(
            "norm",
            "|mean|",
            "|variance − 1|",
            "W × 1000 changes",
            "neighbors change",
            f"updates to {GOAL} nats",
        ),
        rows=[(kind, *statistics[kind], leaks[kind], _format_updates(steps[kind], updates)) for kind in KINDS],
        criteria=[
            at_most("LayerNorm: |mean| of a position, maximum", mean, ROUNDING),
            at_most("LayerNorm: |variance − 1| of a position of variance 1, maximum", variance, EPSILON),
            at_most("LayerNorm: change by a thousand times the weights", scaled, EPSILON / 2 * math.sqrt(WIDTH - 1)),
            at_most("LayerNorm: change by neighbors and padding", leaks["layer"], ROUNDING),
            at_least("BatchNorm: change by neighbors and padding", leaks["batch"], 1e-3),
            at_most("LayerNorm: updates to the goal, against no norm", steps["layer"], min(steps["none"], updates)),
        ],
        draw=lambda figure: _draw(figure, curves, leaks),
    )


def _statistics(norm: nn.Module) -> tuple[float, float, float]:
    """Return the maximum |mean|, |variance − 1| and change under 1000 W of normalized random positions W x."""
    positions = torch.randn(4, 8, WIDTH, dtype=torch.float64) @ torch.randn(WIDTH, WIDTH, dtype=torch.float64)
    positions = positions + 10
    positions = positions / positions.std(-1, correction=0, keepdim=True)
    with torch.no_grad():
        normed, scaled = norm(positions), norm(1000 * positions)
    variance = normed.var(-1, correction=0)
    return tuple(float(error.abs().max()) for error in (normed.mean(-1), variance - 1, scaled - normed))  # type: ignore[return-value]


def _leak(kind: Normalization) -> float:
    """Return the largest change of one sentence's states, in training, by other sentences and by more padding."""
    torch.manual_seed(0)
    encoder = _model(kind, 2).encoder.double().train()
    with torch.no_grad():
        tokens = torch.randint(toy_tasks.FIRST, toy_tasks.FIRST + TYPES, (3, LONGEST))
        valid = torch.zeros(3, LONGEST, dtype=torch.bool)
        valid[0, :SHORTEST], valid[1, :SHORTEST], valid[2] = True, True, True
        alone = encoder(tokens[:2, :SHORTEST], Span.of(valid[:2, :SHORTEST])).states[0]
        padded = encoder(tokens[[0, 2]], Span.of(valid[[0, 2]])).states[0, :SHORTEST]
    return float((padded - alone).abs().max())


def _model(kind: Normalization, layers: int) -> EncoderDecoder:
    return toy_tasks.toy_model(
        TYPES,
        encoder_layers=layers,
        decoder_layers=layers,
        width=WIDTH,
        feed_forward=2 * WIDTH,
        heads=4,
        normalization=kind,
        norm="pre",
    )


def _losses(kind: Normalization, updates: int, layers: int, seed: int, report: Report) -> list[float]:
    """Train a model and return the loss of new sentences after every EVERY updates."""
    model, losses = _model(kind, layers), []
    fresh = toy_tasks.make_batch(_reversed((seed, 0), 256))
    rate = schedule("constant", learning_rate=3e-3, warmup=50)
    training = toy_tasks.train_updates(model, lambda step: _reversed((seed, step), ROWS), rate, last=updates)
    for done, _ in enumerate(training, start=1):
        if done % EVERY == 0:
            with torch.no_grad():
                losses.append(float(toy_tasks.mean_loss(model.eval(), fresh)))
        report(done / updates)
    return losses


def _reversed(seeds: Sequence[int], count: int) -> toy_tasks.ToyPairs:
    sources = toy_tasks.random_sentences(seeds, count, shortest=SHORTEST, longest=LONGEST, types=TYPES)
    return toy_tasks.ToyPairs(sources, [source[::-1] for source in sources])


def _updates_until(goal: float, losses: Sequence[float]) -> float:
    """Return the updates until the first measured loss at the goal; infinity without one."""
    return next((EVERY * number for number, loss in enumerate(losses, start=1) if loss <= goal), math.inf)


def _format_updates(steps: float, updates: int) -> Cell:
    return f"more than {updates}" if math.isinf(steps) else int(steps)


def _draw(
    figure: Figure, curves: Mapping[Normalization, Sequence[float]], leaks: Mapping[Normalization, float]
) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    for kind, losses in curves.items():
        left.semilogy([EVERY * number for number in range(1, len(losses) + 1)], losses, label=kind)
    left.axhline(GOAL, color=INK, linestyle=":", label="goal")
    left.set(xlabel="update", ylabel="loss of new sentences, nats", title="training with each norm")
    right.barh(list(leaks), [max(leak, 1e-17) for leak in leaks.values()], log=True)
    right.axvline(ROUNDING, color=INK, linestyle=":", label="rounding")
    right.set(title="neighbors and padding", xlabel="change of states", ylabel="norm")
    right.invert_yaxis()
    for axes in (left, right):
        axes.legend()

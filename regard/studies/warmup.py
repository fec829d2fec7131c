"""Need for a learning-rate warm-up, by the position of the norm.

Claim: with the norm after the residual sum (post-LN), gradients near the output are large at the start. Training at a
large learning rate then fails without a warm-up. With the norm before the sub-layer (pre-LN), no warm-up is necessary
(Xiong et al. 2020: on IWSLT14 8.45 BLEU without, about 34 with; post-LN is the original of Vaswani et al. 2017).

Measured: twelve layers of width 64, six of the encoder and six of the decoder, learn to reverse 16 random words out of
32. Training takes 400 updates of 32 sentences by Adam with β₂ = 0.98. The learning rate is 3e-3 from the first update,
or increases to it over the first 200. The loss is a mean over the last 50 updates, including END.

Thresholds: a model that knows only the length of 16 words has a loss of chance = 16 ln 32 / 17. A model has learned
nothing if its loss is not below that. The losses of those that learn are at least a tenth below it. Pre-LN without the
warm-up achieves at least half of its gain with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch

from regard.core.figure import INK
from regard.studies import toy_tasks
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TYPES, LENGTH, ROWS = 32, 16, 32
RATE, WARMUP = 3e-3, 200
CHANCE = LENGTH * math.log(TYPES) / (LENGTH + 1)


class Recipe(NamedTuple):
    """Position of the norm, and number of updates over which the learning rate increases."""

    norm: str
    warmup: int


RECIPES = {
    "post-LN": Recipe("post", 0),
    "post-LN, warm-up": Recipe("post", WARMUP),
    "pre-LN": Recipe("pre", 0),
    "pre-LN, warm-up": Recipe("pre", WARMUP),
}


def run(*, seed: int, minimal: bool, report: Report, recipes: Mapping[str, Recipe] = RECIPES) -> Findings:
    """Train the ``recipes``, which have the names of RECIPES, and compare their losses."""
    layers, updates = (1, 6) if minimal else (6, 400)
    curves: dict[str, list[float]] = {}
    for name, recipe in recipes.items():
        torch.manual_seed(seed)
        report_recipe = toy_tasks.report_part(report, len(curves) / len(recipes), (len(curves) + 1) / len(recipes))
        curves[name] = _losses(recipe, layers, updates, seed, report_recipe)
    last = {name: fmean(curve[-50:]) for name, curve in curves.items()}
    gain = {name: CHANCE - loss for name, loss in last.items()}
    return Findings(
        columns=("", *(f"update {step}" for step in _table_updates(updates)), "gain over chance"),
        rows=[
            (name, *(fmean(curve[max(step - 50, 0) : step]) for step in _table_updates(updates)), gain[name])
            for name, curve in curves.items()
        ],
        criteria=[
            at_least("post-LN without warm-up: loss", last["post-LN"], CHANCE),
            at_most("post-LN with warm-up: loss", last["post-LN, warm-up"], 0.9 * CHANCE),
            at_most("pre-LN without warm-up: loss", last["pre-LN"], 0.9 * CHANCE),
            at_least(
                "pre-LN: gain without warm-up, against half of that with", gain["pre-LN"], gain["pre-LN, warm-up"] / 2
            ),
        ],
        draw=lambda figure: _draw(figure, curves),
    )


def _losses(recipe: Recipe, layers: int, updates: int, seed: int, report: Report) -> list[float]:
    """Train a model and return the loss of each update."""
    model = toy_tasks.toy_model(
        TYPES, encoder_layers=layers, decoder_layers=layers, width=64, feed_forward=128, heads=4, norm=recipe.norm
    )

    def draw(step: int) -> toy_tasks.ToyPairs:
        sources = toy_tasks.random_sentences((seed, step), ROWS, shortest=LENGTH, longest=LENGTH, types=TYPES)
        return toy_tasks.ToyPairs(sources, [source[::-1] for source in sources])

    rate = schedule("constant", learning_rate=RATE, warmup=recipe.warmup)
    losses = []
    for loss in toy_tasks.train_updates(model, draw, rate, last=updates, clip_norm=None):
        losses.append(loss)
        report(len(losses) / updates)
    return losses


def _table_updates(updates: int) -> list[int]:
    return [max(updates * quarter // 4, 1) for quarter in range(1, 5)]


def _draw(figure: Figure, curves: Mapping[str, Sequence[float]]) -> None:
    axes = figure.subplots()
    for name, curve in curves.items():
        smooth = [
            fmean(curve[max(step - 20, 0) : step]) for step in range(1, len(curve) + 1, max(len(curve) // 100, 1))
        ]
        steps = range(1, len(curve) + 1, max(len(curve) // 100, 1))
        axes.plot(steps, smooth, label=name, linestyle="-" if "warm-up" in name else "--")
    axes.axhline(CHANCE, color=INK, linestyle=":", label="known length only")
    axes.set(xlabel="update", ylabel="loss, nats per token", title=f"12 layers, learning rate {RATE}", ylim=(0, 4.5))
    axes.legend()

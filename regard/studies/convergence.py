"""Updates and seconds that recurrent models with attention and a Transformer need for the same loss.

Claim: a Transformer needs far less time to train than recurrent models (Vaswani et al. 2017, §1 and §6.1), because all
its positions are computed in parallel.

Measured: reversal of sentences of 10 to 20 words, with 32 types of words. Two models have GRUs: RNNsearch (Bahdanau et
al. 2015), and Luong's decoder without input feeding, whose attention does not delay the recurrence. The third is a
Transformer with two layers per side. All have width 64 and train with the same Adam, 32 sentences per update. Each uses
the better of two learning rates, 3e-3 and 6e-3, which is the rate that reaches the goal first. The goal is 0.5 nats per
token, as a mean over 20 updates; a uniform prediction has 3.3. Seconds are the updates times their median duration,
which is robust against other load on the machine.

Thresholds: the claim is about time, so the Transformer needs at most the seconds of each recurrent model. Updates are
shown for information only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from regard.core.figure import INK
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.study import Cell, Findings, Report, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, ROWS, TYPES, SHORTEST, LONGEST = 64, 32, 32, 10, 20
GOAL, OVER = 0.5, 20  # nats per token, as a mean over OVER updates
RATES = (3e-3, 6e-3)
_RECURRENT = dict(kind="recurrent", encoder=dict(cell="gru"), layers=1, width=WIDTH)
MODELS: dict[str, dict[str, Any]] = {
    "RNNsearch": _RECURRENT
    | dict(decoder=dict(cell="gru", order="bahdanau", readout=WIDTH), cross_attention=dict(kind="additive")),
    "Luong, without feeding": _RECURRENT
    | dict(decoder=dict(cell="gru", order="luong", input_feeding=False), cross_attention=dict(kind="general")),
    "Transformer": dict(layers=2, width=WIDTH, feed_forward=2 * WIDTH, heads=4, norm="pre"),
}


class Trained(NamedTuple):
    """Losses until the goal or the last update, and the median duration of an update in seconds."""

    rate: float
    losses: list[float]
    duration: float

    @property
    def updates(self) -> float:
        """Return the number of updates until the goal; infinite if it is not reached."""
        return len(self.losses) if len(self.losses) >= OVER and fmean(self.losses[-OVER:]) <= GOAL else math.inf

    @property
    def seconds(self) -> float:
        """Return the seconds until the goal, by the median duration of an update."""
        return self.updates * self.duration


def run(*, seed: int, minimal: bool, report: Report, models: Mapping[str, Mapping[str, Any]] = MODELS) -> Findings:
    """Train ``models``, by name and config; the claim is that the last is the fastest."""
    limit, runs = 10 if minimal else 600, len(models) * len(RATES)
    results: dict[str, Trained] = {}
    parameters: dict[str, int] = {}
    for number, (name, config) in enumerate(models.items()):
        tries = []
        for index, rate in enumerate(RATES, start=number * len(RATES)):
            torch.manual_seed(seed)
            model = toy_tasks.toy_model(TYPES, **config)
            tries.append(
                _train(model, rate, limit, seed, toy_tasks.report_part(report, index / runs, (index + 1) / runs))
            )
        parameters[name] = sum(parameter.numel() for parameter in model.parameters())
        results[name] = min(tries, key=lambda trained: trained.updates)
    *recurrent, last = results
    return Findings(
        columns=("model", "parameters", "learning rate", "updates", "ms per update", "seconds"),
        rows=[
            (
                name,
                parameters[name],
                trained.rate,
                _cell(trained.updates),
                1000 * trained.duration,
                _cell(trained.seconds),
            )
            for name, trained in results.items()
        ],
        criteria=[
            at_most(
                f"seconds of the {last}, compared with {name}", _finite(results[last].seconds), results[name].seconds
            )
            for name in recurrent
        ],
        remarks=(
            "RNNsearch computes one position after the other. Without input feeding, Luong's decoder runs its cells "
            "over all positions in one library call and attends from all positions at once. On a CPU, its update then "
            "takes about the time of a Transformer's.",
        ),
        draw=lambda figure: _draw(figure, results),
    )


def _train(model: EncoderDecoder, rate: float, limit: int, seed: int, report: Report) -> Trained:
    def draw(step: int) -> toy_tasks.ToyPairs:
        sources = toy_tasks.random_sentences((seed, step), ROWS, shortest=SHORTEST, longest=LONGEST, types=TYPES)
        return toy_tasks.ToyPairs(sources, [source[::-1] for source in sources])

    losses: list[float] = []
    durations: list[float] = []
    learning_rates = schedule("constant", learning_rate=rate, warmup=50)
    start = time.perf_counter()
    for loss in toy_tasks.train_updates(model, draw, learning_rates, last=limit):
        losses.append(loss)
        durations.append(time.perf_counter() - start)
        report(len(losses) / limit)
        if len(losses) >= OVER and fmean(losses[-OVER:]) <= GOAL:
            break
        start = time.perf_counter()
    report(1.0)
    return Trained(rate, losses, median(durations))


def _finite(seconds: float) -> float:
    """Return NaN, which never holds, for a goal that is not reached."""
    return math.nan if math.isinf(seconds) else seconds


def _cell(count: float) -> Cell:
    return "not reached" if math.isinf(count) else count


def _draw(figure: Figure, results: Mapping[str, Trained]) -> None:
    updates, seconds = figure.subplots(1, 2, sharey=True)
    for name, trained in results.items():
        smooth = [fmean(trained.losses[max(step - OVER, 0) : step]) for step in range(1, len(trained.losses) + 1)][::5]
        updates.plot([1 + 5 * index for index in range(len(smooth))], smooth, label=name)
        seconds.plot([trained.duration * (1 + 5 * index) for index in range(len(smooth))], smooth, label=name)
    updates.set(xlabel="updates", ylabel="loss, nats per token", ylim=(0, None), title="updates to equal loss")
    seconds.set(xlabel="seconds", title="seconds to equal loss")
    for axes in (updates, seconds):
        axes.axhline(GOAL, color=INK, linestyle=":", label="goal")
        axes.legend()

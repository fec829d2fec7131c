"""Updates and seconds that recurrent models with attention and a Transformer need for the same loss.

Claim: a Transformer needs far less time to train than recurrent models (Vaswani et al. 2017, §1 and §6.1), since its
positions are computed together and not one after the other.

Measured: reversing sentences of 10 to 20 words out of 32. RNNsearch (Bahdanau et al. 2015) and Luong's decoder without
input feeding, whose reading need not wait for its cells, both with GRUs, and a Transformer of two layers on each side,
all 64 wide and trained by the same Adam, 32 sentences an update; each at that of two learning rates, 3e-3 and 6e-3,
that brings it to the goal soonest. The goal is 0.5 nats a token, a mean over 20 updates; knowing nothing costs 3.3.
Seconds are updates times the median duration of one, which other work on the machine disturbs least.

Thresholds: the claim is about seconds: the Transformer needs no more of them than either recurrent model. Updates are
shown beside them, and not judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.study import Cell, Findings, Report, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, ROWS, TYPES, SHORTEST, LONGEST = 64, 32, 32, 10, 20
GOAL, OVER = 0.5, 20  # nats a token, and the updates it is a mean of
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
    """Losses of the updates until the goal or the last one, and the median duration of an update in seconds."""

    rate: float
    losses: list[float]
    duration: float

    @property
    def updates(self) -> float:
        """Updates until the goal; infinite if it is not reached."""
        return len(self.losses) if len(self.losses) >= OVER and fmean(self.losses[-OVER:]) <= GOAL else math.inf

    @property
    def seconds(self) -> float:
        """Seconds until the goal, by the median duration of an update."""
        return self.updates * self.duration


def run(*, seed: int, minimal: bool, report: Report, models: Mapping[str, Mapping[str, Any]] = MODELS) -> Findings:
    """Train ``models``, by name and config; the last should be the fastest."""
    most, turns = 10 if minimal else 600, len(models) * len(RATES)
    found: dict[str, Trained] = {}
    parameters: dict[str, int] = {}
    for number, (name, config) in enumerate(models.items()):
        tries = []
        for turn, rate in enumerate(RATES, start=number * len(RATES)):
            torch.manual_seed(seed)
            model = toy_tasks.toy_model(TYPES, **config)
            tries.append(
                _train(model, rate, most, seed, toy_tasks.report_part(report, turn / turns, (turn + 1) / turns))
            )
        parameters[name] = sum(parameter.numel() for parameter in model.parameters())
        found[name] = min(tries, key=lambda each: each.updates)
    *others, last = found
    return Findings(
        columns=("model", "parameters", "learning rate", "updates", "ms an update", "seconds"),
        rows=[
            (name, parameters[name], each.rate, _shown(each.updates), 1000 * each.duration, _shown(each.seconds))
            for name, each in found.items()
        ],
        criteria=[
            at_most(f"seconds of the {last}, against {name}'s", _finite(found[last].seconds), found[name].seconds)
            for name in others
        ],
        remarks=(
            "RNNsearch computes one column after the other; without feeding, Luong's cells run over all columns in one "
            "call of the library, and reading takes all at once: on a CPU that is nearly as cheap as a Transformer.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _train(model: EncoderDecoder, rate: float, most: int, seed: int, report: Report) -> Trained:
    def draw(step: int) -> toy_tasks.ToyPairs:
        sources = toy_tasks.random_sentences((seed, step), ROWS, shortest=SHORTEST, longest=LONGEST, types=TYPES)
        return toy_tasks.ToyPairs(sources, [source[::-1] for source in sources])

    losses: list[float] = []
    durations: list[float] = []
    rises = schedule("constant", learning_rate=rate, warmup=50)
    began = time.perf_counter()
    for loss in toy_tasks.train_updates(model, draw, rises, last=most):
        losses.append(loss)
        durations.append(time.perf_counter() - began)
        report(len(losses) / most)
        if len(losses) >= OVER and fmean(losses[-OVER:]) <= GOAL:
            break
        began = time.perf_counter()
    report(1.0)
    return Trained(rate, losses, median(durations))


def _finite(seconds: float) -> float:
    """Return NaN, which never holds, for a goal that is not reached."""
    return math.nan if math.isinf(seconds) else seconds


def _shown(count: float) -> Cell:
    return "not reached" if math.isinf(count) else count


def _draw(figure: Figure, found: Mapping[str, Trained]) -> None:
    updates, seconds = figure.subplots(1, 2, sharey=True)
    for name, each in found.items():
        smooth = [fmean(each.losses[max(step - OVER, 0) : step]) for step in range(1, len(each.losses) + 1)][::5]
        updates.plot([1 + 5 * place for place in range(len(smooth))], smooth, label=name)
        seconds.plot([each.duration * (1 + 5 * place) for place in range(len(smooth))], smooth, label=name)
    updates.set(xlabel="updates", ylabel="loss, nats a token", ylim=(0, None), title="updates to equal loss")
    seconds.set(xlabel="seconds", title="seconds to equal loss")
    for axes in (updates, seconds):
        axes.axhline(GOAL, color="black", linestyle=":", label="goal")
        axes.legend()

"""Choice of an engine by trial: all that a model and a machine have read the same lines, timed in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.span import Span
from regard.core.processor import bfloat16_in_hardware
from regard.core.state import State
from regard.errors import DataError, StorageError
from regard.inference.decoding import Engine
from regard.native.library import find
from regard.search.best_types import BestTypes
from regard.search.contract import ChunkedStep

DIFFERENCE = 0.02  # nats; mean distance of log-probabilities from those of float32
AGREEMENT = 0.99  # share of places, along given outputs, where the likeliest type is that of float32
GAIN = 0.95  # of float32's time at most: what differs by less may change with the weather of a machine
ROUNDS, SECONDS = 5, 2.0  # rounds in which all take their turn, the last of which begins within so many seconds
ROWS, COLUMNS = 32, 24  # of the lines to measure on
NONE = 1e9  # nats; the difference of what are no numbers


class Lines(NamedTuple):
    """Tokens to read, column by column, and those that follow them."""

    given: Int[Tensor, "rows columns"]
    wanted: Int[Tensor, "rows columns"]
    counted: Bool[Tensor, "rows columns"]
    source: Int[Tensor, "rows length"] | None = None
    source_span: Span | None = None


class Judged(NamedTuple):
    """Log-probabilities of the wanted tokens that count, and the likeliest types at their places."""

    log_p: Float[Tensor, "tokens"]
    best: Int[Tensor, "tokens"]


class EngineFigures(NamedTuple):
    """One engine: seconds for the lines, and how near it comes to float32."""

    seconds: float
    difference: float
    agreement: float

    @property
    def exact(self) -> bool:
        """Return whether it may stand for float32."""
        return self.difference <= DIFFERENCE and self.agreement >= AGREEMENT


class Trial(Protocol):
    """An engine that reads lines: to be judged, or to be timed."""

    def judged(self) -> Judged:
        """Probabilities of the lines."""

    def run(self) -> None:
        """Decoding as a greedy search does it."""


class EngineTrials(Protocol):
    """The engines of a run's network, as its task declares them (``core.task.Task.engine_trials``)."""

    def candidates(self) -> list[Engine]:
        """Return the engines to choose from, float32 first: see ``usable_engines``."""

    def lines(self) -> Lines | None:
        """Return lines of the run's prepared data to measure on; None if there are none."""

    def trial(self, engine: Engine, lines: Lines) -> Trial:
        """Return the trial of one of the candidates."""


def first_lines(data: Path, read: Callable[[Path], Lines | None]) -> Lines | None:
    """Return the lines of the prepared validation data of a run, or else of its training data; None if neither has any.

    Args:
        data: the folder of the prepared data.
        read: returns the lines of one part.
    """
    for name in ("valid-0", "train-0"):
        with suppress(DataError, StorageError):
            if (lines := read(data / name)) is not None:
                return lines
    return None


class ReadingTrial:
    """A ``Trial`` of an engine that reads a column at each step, from the state of ``start``."""

    def __init__(self, step: ChunkedStep, start: Callable[[], State], lines: Lines) -> None:
        self.step, self.start, self.lines = step, start, lines

    @torch.no_grad()
    def judged(self) -> Judged:
        state, found = self.start(), []
        for column, wanted in zip(self.lines.given.split(1, 1), self.lines.wanted.unbind(1), strict=True):
            each, state = self.step(column, state, partial(_judge, wanted))
            found.append(each)
        log_p, best = (torch.stack(each, 1)[self.lines.counted] for each in zip(*found, strict=True))
        return Judged(log_p, best)

    @torch.no_grad()
    def run(self) -> None:
        state = self.start()
        for column in self.lines.given.split(1, 1):
            _, state = self.step(column, state, BestTypes(1))


def _judge(
    wanted: Int[Tensor, "rows"], log_p: Float[Tensor, "some types"], rows: slice
) -> tuple[Float[Tensor, "some"], Int[Tensor, "some"]]:
    return log_p.gather(1, wanted[rows, None])[:, 0], log_p.argmax(1)


def usable_engines(weight: Tensor, obstacle: str | None, missing: str | None) -> list[Engine]:
    """Return the engines to choose from, float32 first; none without a fast form or on another device than a CPU.

    Args:
        weight: of the network.
        obstacle: the reason why it has no fast form; None if it has one.
        missing: the reason why the kernels in C do not compute it; None if they do.
    """
    if obstacle is not None or weight.device.type != "cpu":
        return []
    by_kernels: list[Engine] = [] if missing is not None else ["torch", "int8"]
    narrow: list[Engine] = ["bfloat16"] if bfloat16_in_hardware() else []
    return ["float32", *by_kernels, *narrow]


def spread(count: int, number: int = ROWS) -> list[int]:
    """Return ``number`` of the numbers below ``count``, or all, evenly spaced."""
    return sorted({place * count // number for place in range(number)}) if count else []


def kernel_set() -> str | None:
    """Return the instruction set that the kernels in C use on this machine; None without kernels."""
    library = find().library
    return None if library is None else library.set


def measure(
    trials: Mapping[Engine, Trial], clock: Callable[[], float] = time.perf_counter
) -> dict[Engine, EngineFigures]:
    """Time and exactness of each; float32 is among them."""
    plain = trials["float32"].judged()
    judged = {name: plain if name == "float32" else each.judged() for name, each in trials.items()}
    for each in trials.values():
        each.run()  # the first prepares buffers and kernels
    seconds: dict[Engine, list[float]] = {name: [] for name in trials}
    end = clock() + SECONDS
    for number in range(ROUNDS):
        if number and clock() > end:
            break
        for name, each in trials.items():
            began = clock()
            each.run()
            seconds[name].append(clock() - began)
    return {name: EngineFigures(median(seconds[name]), *_distance(judged[name], plain)) for name in trials}


def _distance(found: Judged, plain: Judged) -> tuple[float, float]:
    difference = (found.log_p - plain.log_p).abs().mean().nan_to_num(NONE, NONE)
    return float(difference), float((found.best == plain.best).float().mean())


def choose(measured: Mapping[Engine, EngineFigures]) -> Engine:
    """The fastest that is exact; float32 unless another gains something."""
    most = GAIN * measured["float32"].seconds
    quicker = {name: each.seconds for name, each in measured.items() if each.exact and each.seconds <= most}
    return min(quicker, key=lambda name: quicker[name], default="float32")


def explain(measured: Mapping[Engine, EngineFigures]) -> str:
    """The choice in one sentence."""
    chosen = choose(measured)
    times = ", ".join(f"{name} {1e3 * each.seconds:.3g} ms" for name, each in measured.items())
    told = [
        f"{name} {'is' if each.exact else 'is not'} exact enough ({each.agreement:.1%} of its likeliest tokens are "
        f"those of float32, log-probabilities {each.difference:.2g} nats apart)"
        for name, each in measured.items()
        if name == chosen != "float32" or not each.exact
    ]
    return f"engine {chosen}: {'; '.join([times, *told])}"

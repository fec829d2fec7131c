"""Automatic choice of an engine: all available engines decode the same lines and are timed in turn."""

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

DIFFERENCE = 0.02  # nats; maximum mean difference of log-probabilities from those of float32
AGREEMENT = 0.99  # minimum share of positions with the same most likely token as float32
GAIN = 0.95  # maximum share of float32's time: smaller differences may be noise
ROUNDS, SECONDS = 5, 2.0  # maximum number of rounds over all engines; the last round begins within these seconds
ROWS, COLUMNS = 32, 24  # size of the lines to measure on
NONE = 1e9  # nats; the difference of NaN


class Lines(NamedTuple):
    """Input tokens, fed position by position, and the tokens that follow them."""

    inputs: Int[Tensor, "rows columns"]
    targets: Int[Tensor, "rows columns"]
    target_mask: Bool[Tensor, "rows columns"]
    source: Int[Tensor, "rows length"] | None = None
    source_span: Span | None = None


class Predictions(NamedTuple):
    """Log-probabilities of the target tokens, and the most likely tokens at their positions."""

    log_p: Float[Tensor, "tokens"]
    best: Int[Tensor, "tokens"]


class EngineFigures(NamedTuple):
    """Figures of one engine: seconds for the lines, and the difference from float32."""

    seconds: float
    difference: float
    agreement: float

    @property
    def exact(self) -> bool:
        """True if it may replace float32."""
        return self.difference <= DIFFERENCE and self.agreement >= AGREEMENT


class Trial(Protocol):
    """An engine applied to lines, to compare its predictions or to time it."""

    def predictions(self) -> Predictions:
        """Return the predictions on the lines."""

    def run(self) -> None:
        """Decode as in greedy search."""


class EngineTrials(Protocol):
    """The engines for a run's network, as declared by its task (``core.task.Task.engine_trials``)."""

    def candidates(self) -> list[Engine]:
        """Return the engines to choose from, float32 first; see ``usable_engines``."""

    def lines(self) -> Lines | None:
        """Return lines of the run's prepared data to measure on; None if there is no data."""

    def trial(self, engine: Engine, lines: Lines) -> Trial:
        """Return the trial of one of the candidates."""


def first_lines(data: Path, read: Callable[[Path], Lines | None]) -> Lines | None:
    """Return lines of the prepared validation data of a run, else of its training data; None if neither has any.

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
    """A ``Trial`` of an engine that reads one position per step, from the state of ``start``."""

    def __init__(self, step: ChunkedStep, start: Callable[[], State], lines: Lines) -> None:
        self.step, self.start, self.lines = step, start, lines

    @torch.no_grad()
    def predictions(self) -> Predictions:
        state, steps = self.start(), []
        for tokens, targets in zip(self.lines.inputs.split(1, 1), self.lines.targets.unbind(1), strict=True):
            reduced, state = self.step(tokens, state, partial(_target_scores, targets))
            steps.append(reduced)
        log_p, best = (torch.stack(values, 1)[self.lines.target_mask] for values in zip(*steps, strict=True))
        return Predictions(log_p, best)

    @torch.no_grad()
    def run(self) -> None:
        state = self.start()
        for tokens in self.lines.inputs.split(1, 1):
            _, state = self.step(tokens, state, BestTypes(1))


def _target_scores(
    targets: Int[Tensor, "rows"], log_p: Float[Tensor, "some types"], rows: slice
) -> tuple[Float[Tensor, "some"], Int[Tensor, "some"]]:
    return log_p.gather(1, targets[rows, None])[:, 0], log_p.argmax(1)


def usable_engines(weight: Tensor, obstacle: str | None, missing: str | None) -> list[Engine]:
    """Return the engines to choose from, float32 first; [] without a fast form, or on a device other than a CPU.

    Args:
        weight: a weight of the network.
        obstacle: the reason why it has no fast form; None if it has one.
        missing: the reason why the C kernels do not support it; None if they do.
    """
    if obstacle is not None or weight.device.type != "cpu":
        return []
    by_kernels: list[Engine] = [] if missing is not None else ["torch", "int8"]
    narrow: list[Engine] = ["bfloat16"] if bfloat16_in_hardware() else []
    return ["float32", *by_kernels, *narrow]


def spread(count: int, number: int = ROWS) -> list[int]:
    """Return ``number`` of the numbers below ``count``, or all, evenly spaced."""
    return sorted({index * count // number for index in range(number)}) if count else []


def kernel_set() -> str | None:
    """Return the instruction set that the C kernels use on this machine; None without kernels."""
    library = find().library
    return None if library is None else library.set


def measure(
    trials: Mapping[Engine, Trial], clock: Callable[[], float] = time.perf_counter
) -> dict[Engine, EngineFigures]:
    """Return the time and the exactness of each engine; float32 is among them."""
    plain = trials["float32"].predictions()
    predictions = {name: plain if name == "float32" else trial.predictions() for name, trial in trials.items()}
    for trial in trials.values():
        trial.run()  # warm-up: prepares buffers and kernels
    seconds: dict[Engine, list[float]] = {name: [] for name in trials}
    end = clock() + SECONDS
    for number in range(ROUNDS):
        if number and clock() > end:
            break
        for name, trial in trials.items():
            began = clock()
            trial.run()
            seconds[name].append(clock() - began)
    return {name: EngineFigures(median(seconds[name]), *_distance(predictions[name], plain)) for name in trials}


def _distance(actual: Predictions, plain: Predictions) -> tuple[float, float]:
    difference = (actual.log_p - plain.log_p).abs().mean().nan_to_num(NONE, NONE)
    return float(difference), float((actual.best == plain.best).float().mean())


def choose(measured: Mapping[Engine, EngineFigures]) -> Engine:
    """Return the fastest exact engine; float32 unless another one is notably faster."""
    limit = GAIN * measured["float32"].seconds
    faster = {name: figures.seconds for name, figures in measured.items() if figures.exact and figures.seconds <= limit}
    return min(faster, key=lambda name: faster[name], default="float32")


def explain(measured: Mapping[Engine, EngineFigures]) -> str:
    """Return the choice and its reasons in one line."""
    chosen = choose(measured)
    times = ", ".join(f"{name} {1e3 * figures.seconds:.3g} ms" for name, figures in measured.items())
    differences = [
        f"{name} {'is' if figures.exact else 'is not'} exact enough ({figures.agreement:.1%} of its most likely tokens "
        f"equal those of float32, log-probabilities differ by {figures.difference:.2g} nats)"
        for name, figures in measured.items()
        if name == chosen != "float32" or not figures.exact
    ]
    return f"engine {chosen}: {'; '.join([times, *differences])}"

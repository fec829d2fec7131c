"""Latency of simultaneous translation: average lagging, three ways, and SimulEval's log of streamed outputs.

Symbols: d_i, the source that was read when word i was committed (words, or ms); X, the length of the source in the same
unit; Y, the words of the output; Y*, the words of the reference. Values are means over sentences, in the unit of d.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.core import atomic_files
from regard.core.untrusted_files import json_value
from regard.core.wording import describe_validation_error
from regard.data.text_files import read_lines
from regard.errors import DataError

DEGENERATE = 0.2  # difference of two shares above which a policy is reported as degenerate


class Timed(NamedTuple):
    """The delays of one streamed output, in words or ms, and the lengths of its source and reference."""

    delays: Sequence[float]
    source_length: float
    reference_length: int


def average_lagging(timed: Timed) -> float | None:
    """Return AL = 1/τ Σ_{i ≤ τ} (d_i − (i − 1) X/Y*), τ the first i with d_i ≥ X, or Y (Ma et al. 2019, Eq. 8).

    d_1 if d_1 > X; None for an empty output or source. The reference length Y* replaces Y, as in SimulEval.
    """
    return _lagging(timed, timed.reference_length)


def length_adaptive_lagging(timed: Timed) -> float | None:
    """Return LAAL, which is AL with max(Y, Y*) in the place of Y* (Papi et al. 2022): long outputs gain nothing."""
    return _lagging(timed, max(len(timed.delays), timed.reference_length))


def _lagging(timed: Timed, length: int) -> float | None:
    delays, source = timed.delays, timed.source_length
    if not delays or source <= 0 or not length:
        return None
    if delays[0] > source:
        return delays[0]
    total, count = 0.0, 0
    for number, delay in enumerate(delays):
        total, count = total + delay - number * source / length, number + 1
        if delay >= source:
            break
    return total / count


def yet_another_lagging(timed: Timed) -> float | None:
    """Return YAAL: LAAL over the words before the first with d_i ≥ X (arXiv 2509.17349); None without such words.

    Words after the end of a segment cost no waiting, and bias AL and LAAL.
    """
    source, length = timed.source_length, max(len(timed.delays), timed.reference_length)
    early: list[float] = []
    for delay in timed.delays:
        if delay >= source:
            break
        early.append(delay)
    if not early:
        return None
    return sum(delay - number * source / length for number, delay in enumerate(early)) / len(early)


MEASURES: dict[str, Callable[[Timed], float | None]] = {
    "AL": average_lagging,
    "LAAL": length_adaptive_lagging,
    "YAAL": yet_another_lagging,
}


def mean_lags(outputs: Iterable[Timed]) -> dict[str, float]:
    """Return the mean of each measure over the outputs that have it; NaN if none has."""
    outputs = list(outputs)
    means = {}
    for name, measure in MEASURES.items():
        values = [value for timed in outputs if (value := measure(timed)) is not None]
        means[name] = sum(values) / len(values) if values else math.nan
    return means


def degenerate(outputs: Iterable[Timed]) -> str | None:
    """Return a warning if the lag does not describe the policy; None if it does.

    The share of words before the end of the source is compared with 1 − Σ YAAL / Σ X, its value for an even pace. They
    differ by more than 20 points if a policy writes much at once, or waits for the end of some sources only.
    """
    outputs = [timed for timed in outputs if timed.delays and timed.source_length > 0]
    words = sum(len(timed.delays) for timed in outputs)
    if not words:
        return None
    early = sum(delay < timed.source_length for timed in outputs for delay in timed.delays) / words
    source = sum(timed.source_length for timed in outputs)
    lags = (yet_another_lagging(timed) for timed in outputs)
    saved = sum(
        max(timed.source_length - lag, 0.0) for timed, lag in zip(outputs, lags, strict=True) if lag is not None
    )
    if abs(early - saved / source) <= DEGENERATE:
        return None
    return (
        f"{early:.0%} of the words were written before the end of their source; the lag suggests {saved / source:.0%}. "
        "This policy does not write at an even pace, and its lag describes it badly"
    )


class StreamedInstance(BaseModel):
    """A line of SimulEval's log: an output with its times, and raw text of source and reference.

    ``delays``: words read, or ms of sound. ``elapsed``: ms, or the same unit with computation.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    index: int = Field(ge=0)
    prediction: str
    delays: list[float] = Field(max_length=1 << 20)
    elapsed: list[float] = Field(max_length=1 << 20)
    prediction_length: int = Field(ge=0)
    reference: str
    source: str | list[str]
    source_length: float = Field(ge=0)

    @property
    def timed(self) -> Timed:
        """The delays, without computation."""
        return Timed(self.delays, self.source_length, len(self.reference.split()))


def write_instances(instances: Iterable[StreamedInstance], path: Path) -> None:
    """Write SimulEval's log, a JSON object a line."""
    lines = (json.dumps(one.model_dump(), ensure_ascii=False) + "\n" for one in instances)
    atomic_files.write_bytes_atomically(path, "".join(lines).encode())


def read_instances(path: Path) -> list[StreamedInstance]:
    """Return the instances of SimulEval's log; raise DataError for a line that is none, with its number."""
    instances = []
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        try:
            instance = StreamedInstance.model_validate(json_value(line))
        except ValidationError as error:
            raise DataError(
                "cannot parse a streamed output", where=where, why=describe_validation_error(error)
            ) from error
        counts = len(instance.delays), len(instance.elapsed), instance.prediction_length
        if len(set(counts)) > 1:
            why = f"delays: {counts[0]:,}; elapsed: {counts[1]:,}; prediction_length: {counts[2]:,}"
            raise DataError("the times do not match the words of the prediction", where=where, why=why)
        instances.append(instance)
    return instances

"""Evaluation of streams of sound: word errors, and the delay from the end of a word to its commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from regard.core.task import not_interrupted
from regard.data.utterance import Utterance
from regard.errors import DataError
from regard.metrics.edits import Edits, count_edits, units
from regard.tasks.recognition.streaming import SpeechOutput, StreamingRecognizer


class SpeechStreamScore(NamedTuple):
    """Scores of one policy at one lag over recordings.

    Attributes:
        policy: its name.
        lag: in steps, of AlignAtt in frames of 10 ms.
        step: seconds of sound between two hypotheses.
        wer: word error rate in percent.
        cer: character error rate in percent.
        delay: seconds of sound from the end of a word to its commit: mean and 90th percentile; nan without CTC.
        computed: the same with computation, if the sound arrives in real time.
        elapsed: milliseconds of computation of a step: median and 99th percentile.
        words: the number of words with a delay.
    """

    policy: str
    lag: int
    step: float
    wer: float
    cer: float
    delay: tuple[float, float]
    computed: tuple[float, float]
    elapsed: tuple[float, float]
    words: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        pairs = {
            name: dict(zip(("mean", "p90"), getattr(self, name), strict=True)) for name in ("delay", "computed")
        }  # fmt: skip
        return self._asdict() | pairs | {"elapsed": dict(zip(("p50", "p99"), self.elapsed, strict=True))}


class HeardStream(NamedTuple):
    """The text of one streamed recording, the delays of its words without and with computation, seconds of steps."""

    text: str
    delays: list[float]
    computed: list[float]
    steps: list[float]


def score_speech_streams(
    model: StreamingRecognizer,
    recordings: Iterable[Utterance],
    *,
    done: Callable[[int], None] = lambda count: None,
    interrupted: Callable[[], bool] = not_interrupted,
) -> SpeechStreamScore:
    """Stream recordings step by step, as if they arrived in real time, and return the scores.

    Args:
        model: the recognizer with its policy.
        recordings: with sounds and texts.
        done: called with the number of finished recordings.
        interrupted: returns whether to stop.

    Raises:
        DataError: a sound cannot be read, or a recording has frames only.
    """
    words, characters = Edits(0, 0, 0, 0), Edits(0, 0, 0, 0)
    heard = list[HeardStream]()
    for recording in recordings:
        one = stream_recording(model, recording, interrupted)
        heard.append(one)
        words = added_edits(words, recording.text or "", one.text, "wer")
        characters = added_edits(characters, recording.text or "", one.text, "cer")
        done(1)
    delays, computed, steps = (
        [value for one in heard for value in getattr(one, name)] for name in ("delays", "computed", "steps")
    )
    return SpeechStreamScore(
        model.policy.title, model.policy.lag, model.options.step, words.rate, characters.rate, _mean_and_tail(delays),
        _mean_and_tail(computed), _percentiles(1000 * np.array(steps), 50, 99), len(delays),
    )  # fmt: skip


class HeardStep(NamedTuple):
    """A step of a streamed recording.

    ``arrived``: second of the recording at which its sound is complete. ``seconds``: of its computation.
    """

    arrived: float
    outputs: list[SpeechOutput]
    seconds: float


def stream_recording(
    model: StreamingRecognizer, recording: Utterance, interrupted: Callable[[], bool] = not_interrupted
) -> HeardStream:
    """Stream one recording. A step is computed when its sound has arrived and the step before it is computed."""
    texts, delays, computed, steps = list[str](), list[float](), list[float](), list[float]()
    ready = 0.0  # second at which the last step was computed
    for arrived, outputs, seconds in heard_steps(model, recording, interrupted):
        steps.append(seconds)
        ready = max(arrived, ready) + seconds
        for output in outputs:
            delays += [arrived - word.end for word in output.words]
            computed += [ready - word.end for word in output.words]
            texts += [output.committed] if output.final else []
    return HeardStream(" ".join(filter(None, texts)), delays, computed, steps)


def heard_steps(
    model: StreamingRecognizer, recording: Utterance, interrupted: Callable[[], bool] = not_interrupted
) -> Iterator[HeardStep]:
    """Yield the steps of a recording.

    Raises:
        DataError: the sound cannot be read, or the recording has frames only.
    """
    if recording.frames is not None:
        raise DataError("frames cannot be streamed", where=recording.where, help="name recordings of sounds")
    samples, stream = recording.sound(model.rate).samples, model.open()
    for first in range(0, max(len(samples), 1), model.step):
        end = min(first + model.step, len(samples))
        begin = time.perf_counter()
        outputs, stream = model.advance(
            stream, samples[first:end], final=end == len(samples), interrupted=interrupted
        )  # fmt: skip
        yield HeardStep(end / model.rate, outputs, time.perf_counter() - begin)


def added_edits(edits: Edits, reference: str, output: str, metric: str) -> Edits:
    """Return edits, those of an output added; ``metric``: wer counts words, cer characters."""
    more = count_edits(units(metric, reference), units(metric, output))
    return Edits(*map(sum, zip(edits, more, strict=True)))


def _mean_and_tail(seconds: list[float]) -> tuple[float, float]:
    if not seconds:
        return float("nan"), float("nan")
    return float(np.mean(seconds)), float(np.percentile(seconds, 90))


def _percentiles(values: Any, *shares: float) -> Any:
    return tuple(float(np.percentile(values, share)) if len(values) else float("nan") for share in shares)

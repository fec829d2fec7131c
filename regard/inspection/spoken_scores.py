"""Evaluation of streams of sound that are recognized and translated: quality, and lag in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.core.task import not_interrupted
from regard.data.utterance import Utterance
from regard.inference.continued_text import ContinuedSegments
from regard.metrics.edits import Edits
from regard.metrics.latency import StreamedInstance, Timed, mean_lags
from regard.metrics.text import evaluate
from regard.tasks.recognition.stream_scores import added_edits, heard_steps
from regard.tasks.recognition.streaming import StreamingRecognizer
from regard.tasks.translation.streaming import StreamingTranslator


class SpokenScore(NamedTuple):
    """Scores of recognition and translation, each with a policy and its lag.

    Attributes:
        policy: the name of the policy of recognition.
        lag: in steps, of AlignAtt in frames of 10 ms.
        step: seconds of sound between two hypotheses.
        translate_policy: the name of the policy of translation.
        translate_lag: in recognized words.
        wer: word error rate of the recognized words in percent.
        figures: metrics of the final translations.
        sound: AL, LAAL and YAAL in seconds of sound.
        computed: the same with computation, if the sound arrives in real time.
        elapsed: milliseconds of computation of a step: median and 99th percentile.
        instances: for the log, in ms.
    """

    policy: str
    lag: int
    step: float
    translate_policy: str
    translate_lag: int
    wer: float
    figures: dict[str, float]
    sound: dict[str, float]
    computed: dict[str, float]
    elapsed: tuple[float, float]
    instances: list[StreamedInstance]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON without the instances."""
        values = self._asdict()
        del values["instances"]
        return values | {"elapsed": dict(zip(("p50", "p99"), self.elapsed, strict=True))}


class TranslatedSound(NamedTuple):
    """A streamed recording and its translation.

    ``heard``: the recognized text. ``delays``: for each translated word the second of the sound at which it was
    committed. ``computed``: the same with computation. ``steps``: seconds of computation. ``length``: of the sound.
    """

    heard: str
    text: str
    delays: list[float]
    computed: list[float]
    steps: list[float]
    length: float


def score_spoken_translation(
    recognizer: StreamingRecognizer,
    translator: StreamingTranslator,
    recordings: Sequence[Utterance],
    references: Sequence[str],
    metrics: Sequence[str],
    *,
    language: str | None = None,
    done: Callable[[int], None] = lambda count: None,
    interrupted: Callable[[], bool] = not_interrupted,
) -> SpokenScore:
    """Stream recordings as if they arrived in real time, translate the recognized words, and return the scores.

    Args:
        recognizer: the recognizer with its policy.
        translator: the translator with its policy.
        recordings: with sounds and texts.
        references: the translation of each recording.
        metrics: names of the metrics of translations.
        language: of the references, for metrics that divide texts into words.
        done: called with the number of finished recordings.
        interrupted: returns whether to stop.

    Raises:
        DataError: a sound cannot be read, or a recording has frames only.
    """
    streamed, errors = list[TranslatedSound](), Edits(0, 0, 0, 0)
    for recording in recordings:
        one = translate_recording(recognizer, translator, recording, interrupted)
        streamed.append(one)
        errors = added_edits(errors, recording.text or "", one.heard, "wer")
        done(1)
    lengths = [len(reference.split()) for reference in references]
    delays = [Timed(one.delays, one.length, n) for one, n in zip(streamed, lengths, strict=True)]
    computed = [Timed(one.computed, one.length, n) for one, n in zip(streamed, lengths, strict=True)]
    texts, targets = [one.text for one in streamed], [[reference] for reference in references]
    figures = {name: evaluate(name, texts, targets, language=language).value for name in metrics}
    steps = 1000 * np.array([step for one in streamed for step in one.steps] or [np.nan])
    instances = [
        _instance(number, *one) for number, one in enumerate(zip(streamed, recordings, references, strict=True))
    ]
    return SpokenScore(
        recognizer.policy.title, recognizer.policy.lag, recognizer.options.step, translator.policy.title,
        translator.policy.lag, errors.rate, figures, mean_lags(delays), mean_lags(computed),
        (float(np.median(steps)), float(np.percentile(steps, 99))), instances,
    )  # fmt: skip


def translate_recording(
    recognizer: StreamingRecognizer,
    translator: StreamingTranslator,
    recording: Utterance,
    interrupted: Callable[[], bool] = not_interrupted,
) -> TranslatedSound:
    """Stream one recording; each step is recognized and then translated, after the step before it."""
    heard, texts, state = list[str](), list[str](), ContinuedSegments()
    delays, computed, steps = list[float](), list[float](), list[float]()
    arrived = ready = 0.0
    for arrived, outputs, seconds in heard_steps(recognizer, recording, interrupted):
        begin, words = time.perf_counter(), 0
        for output in outputs:
            grown, state = state.advance(
                translator, output.new.strip(), final=output.final, interrupted=interrupted
            )  # fmt: skip
            words += len(grown.new.split())
            if output.final:
                heard, texts = [*heard, output.committed], [*texts, grown.committed]
        steps.append(seconds + time.perf_counter() - begin)
        ready = max(arrived, ready) + steps[-1]
        delays, computed = [*delays, *[arrived] * words], [*computed, *[ready] * words]
    texts, heard = ([text for text in own if text] for own in (texts, heard))
    return TranslatedSound(" ".join(heard), " ".join(texts), delays, computed, steps, arrived)


def _instance(number: int, one: TranslatedSound, recording: Utterance, reference: str) -> StreamedInstance:
    return StreamedInstance(
        index=number, prediction=one.text, delays=[1000 * delay for delay in one.delays],
        elapsed=[1000 * delay for delay in one.computed], prediction_length=len(one.delays), reference=reference,
        source=recording.where, source_length=1000 * one.length,
    )  # fmt: skip

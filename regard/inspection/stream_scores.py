"""Evaluation of streams: quality and latency of a policy on a test set, at several lags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.config.stream_settings import RATE
from regard.core.figure import MARKERS
from regard.core.task import not_interrupted
from regard.inference.streamed import Streamed, stream_texts
from regard.metrics.latency import StreamedInstance, Timed, degenerate, mean_lags
from regard.tasks.translation.evaluation import TranslationTest
from regard.tasks.translation.streaming import StreamingTranslator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class StreamScore(NamedTuple):
    """Scores of one policy at one lag.

    ``figures``: metrics of the final outputs. ``words``: AL, LAAL and YAAL in source words. ``milliseconds``: the same
    with computation, if source words arrive at a constant rate. ``step``: milliseconds from a word to its answer, the
    median and the 99th percentile. ``revisions``: changed words of unstable text, per sentence. ``warning``: if the lag
    describes the policy badly. ``instances``: for the log.
    """

    policy: str
    lag: int
    figures: dict[str, float]
    words: dict[str, float]
    milliseconds: dict[str, float]
    step: tuple[float, float]
    revisions: float
    warning: str | None
    instances: list[StreamedInstance]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON without the instances."""
        values = self._asdict()
        del values["instances"]
        return values | {"step": dict(zip(("p50", "p99"), self.step, strict=True))}


def score_streams(
    test: TranslationTest,
    model: StreamingTranslator,
    metrics: Sequence[str],
    *,
    rate: float = RATE,
    together: int = 1,
    done: Callable[[int], None] = lambda count: None,
    interrupted: Callable[[], bool] = not_interrupted,
) -> StreamScore:
    """Stream a test set word by word and return the scores.

    Args:
        test: the sources and references.
        model: the model with its policy; it should not split sentences.
        metrics: names of the metrics of final outputs.
        rate: source words per second.
        together: the number of streams in one batch; only 1 measures the time of one stream.
        done: called with the number of finished sentences.
        interrupted: returns whether to stop.
    """
    sources, references = test.examples
    streamed = stream_texts(model, sources, together=together, done=done, interrupted=interrupted)
    lengths = [len(own[0].split()) for own in references]
    outputs = [one.text for one in streamed]
    delays = [Timed(one.delays, one.source_length, n) for one, n in zip(streamed, lengths, strict=True)]
    elapsed = [elapsed_times(one, rate) for one in streamed]
    timed = [
        Timed(times, 1000 * one.source_length / rate, n)
        for one, times, n in zip(streamed, elapsed, lengths, strict=True)
    ]
    steps = 1000 * np.array([step for one in streamed for step in one.steps] or [np.nan])
    instances = [
        StreamedInstance(
            index=number, prediction=one.text, delays=list(map(float, one.delays)), elapsed=times,
            prediction_length=len(one.delays), reference=references[number][0], source=sources[number],
            source_length=one.source_length,
        )
        for number, (one, times) in enumerate(zip(streamed, elapsed, strict=True))
    ]  # fmt: skip
    return StreamScore(
        model.policy.title, model.policy.lag, {name: test.score(name, outputs).value for name in metrics},
        mean_lags(delays), mean_lags(timed), (float(np.median(steps)), float(np.percentile(steps, 99))),
        sum(one.revisions for one in streamed) / max(len(streamed), 1), degenerate(delays), instances,
    )  # fmt: skip


def elapsed_times(streamed: Streamed, rate: float) -> list[float]:
    """Return for each word the ms from the beginning of the source to its commit, one computation after the other.

    Source word n arrives after n / ``rate`` seconds. Its computation begins then, or when the previous one has ended.
    """
    ends: list[float] = []
    for number, step in enumerate(streamed.steps, start=1):
        ends.append(max(number / rate, ends[-1] if ends else 0.0) + step)
    return [1000 * ends[delay - 1] for delay in streamed.delays]


def draw_curves(figure: Figure, scores: Sequence[StreamScore], metric: str, offline: float | None = None) -> None:
    """Draw a metric over LAAL in source words, a series for each policy.

    Args:
        figure: an empty figure.
        scores: of all policies and lags.
        metric: name of the metric.
        offline: its value with the whole source, a horizontal line; None if unknown.
    """
    axes = figure.subplots()
    for number, policy in enumerate(dict.fromkeys(score.policy for score in scores)):
        own = sorted((score.words["LAAL"], score.figures[metric]) for score in scores if score.policy == policy)
        axes.plot(*zip(*own, strict=True), marker=MARKERS[number % len(MARKERS)], label=policy)
    if offline is not None:
        axes.axhline(offline, color="#777777", linewidth=1.0, linestyle=":", label="whole source")
    axes.set(xlabel="LAAL (source words)", ylabel=metric)
    axes.grid(True)
    axes.legend()

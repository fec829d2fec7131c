"""``regard evaluate --streaming`` of a recognizer: word errors and delays, or translations and their lag."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from regard.commands.metric_tables import aligned
from regard.commands.options import open_predictor
from regard.commands.progress import progress
from regard.commands.spoken_translation import SpokenTranslation
from regard.commands.stream_evaluation import StreamEvaluationRequest, write_logs
from regard.commands.streaming import refuse_with_streaming
from regard.config.stream_settings import DEFAULT_POLICY, RATE, SOUND_LAG, PolicyName
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.data.utterance import Utterance
    from regard.inspection.spoken_scores import SpokenScore
    from regard.runs.run_folder import RunFolder
    from regard.tasks.recognition.stream_scores import SpeechStreamScore
    from regard.tasks.recognition.streaming import StreamingRecognizer


def evaluate_speech_streams(
    run: RunFolder, files: Sequence[Path], names: list[str] | None, search_options: dict[str, Any],
    opening: dict[str, Any], request: StreamEvaluationRequest, *, as_json: bool,
) -> None:  # fmt: skip
    """Print word errors and delays for each lag, or quality and lag of translations.

    Args:
        run: the run folder.
        files: the lists of test recordings; with ``--translate``, the last file has a translation in each line.
        names: names of the metrics of translations; None for the default ones.
        search_options: the search options of the command line.
        opening: keyword arguments of ``open_predictor``, and ``engine``, which must be None.
        request: the options of streams.
        as_json: whether to print JSON.
    """
    translation = request.translation
    refuse_with_streaming(curve=request.curve, rate=request.rate != RATE, together=request.together != 1)
    if translation is None:
        refuse_with_streaming(metric=names, log=request.log)
    policy: PolicyName = request.policy or DEFAULT_POLICY
    lags = request.lags(policy, SOUND_LAG)
    engine = opening.pop("engine", None)
    refuse_with_streaming(engine=engine)
    recordings, references = _test_data(files, translated=translation is not None)
    model: Any = open_predictor(run.path, **opening)
    search = model.adjusted({name: value for name, value in search_options.items() if value is not None})
    streams = _Streams(run, model, policy, request.agree, request.step, search, opening["checkpoint"])
    if translation is None:
        _print(_word_errors(streams, lags, recordings), as_json=as_json)
        return
    scores = _translations(streams, lags, recordings, references, translation, names)
    if request.log is not None:
        write_logs(scores, request.log)
    _print_translations(scores, as_json=as_json)


class _Streams(NamedTuple):
    """Settings of all streams of a recognizer."""

    run: RunFolder
    model: Any
    policy: PolicyName
    agree: int | None
    step: float | None
    search: Any
    checkpoint: str | None

    def open(self, lag: int) -> StreamingRecognizer:
        from regard.tasks.recognition.open_streaming import open_streaming
        from regard.tasks.recognition.streaming import SegmentOptions

        options = SegmentOptions() if self.step is None else SegmentOptions(step=self.step)
        return open_streaming(
            self.run, self.model, self.policy, lag, agree=self.agree, options=options, search=self.search,
            checkpoint=self.checkpoint,
        )  # fmt: skip


def _word_errors(streams: _Streams, lags: Sequence[int], recordings: Sequence[Utterance]) -> list[SpeechStreamScore]:
    from regard.tasks.recognition.stream_scores import score_speech_streams

    scores = []
    for lag in lags:
        with progress(f"{streams.policy}, lag {lag}", len(recordings)) as advance:
            scores.append(score_speech_streams(streams.open(lag), recordings, done=advance))
    return scores


def _translations(
    streams: _Streams, lags: Sequence[int], recordings: Sequence[Utterance], references: Sequence[str],
    translation: SpokenTranslation, names: list[str] | None,
) -> list[SpokenScore]:  # fmt: skip
    from regard.inspection.spoken_scores import score_spoken_translation
    from regard.tasks.evaluation import require_metrics

    run, translator = translation.open()
    metrics, config = require_metrics(run, names), run.config
    language = config.data.target_language  # type: ignore[attr-defined]
    scores = []
    for lag in lags:
        with progress(f"{streams.policy}, lag {lag}", len(recordings)) as advance:
            scores.append(
                score_spoken_translation(
                    streams.open(lag), translator, recordings, references, metrics, language=language, done=advance
                )
            )  # fmt: skip
    return scores


def _test_data(files: Sequence[Path], *, translated: bool) -> tuple[list[Utterance], list[str]]:
    """Return the recordings, and their translations from the last file if they are ``translated``."""
    from regard.data.text_files import read_lines

    if not translated:
        return _recordings(files), []
    if len(files) < 2:
        help = "regard evaluate RUN test.jsonl test.de --streaming --translate RUN"
        raise ConfigError("a file with a translation of each recording is required", where="--translate", help=help)
    recordings, references = _recordings(files[:-1]), [line.strip() for line in read_lines(files[-1])]
    if len(recordings) != len(references):
        counts = f"{pluralize(len(recordings), 'recording')}, {pluralize(len(references), 'line')}"
        raise DataError("each recording requires one translation", where=str(files[-1]), why=counts)
    return recordings, references


def _recordings(files: Sequence[Path]) -> list[Utterance]:
    from regard.tasks.recognition.data_config import RecordingFiles
    from regard.tasks.recognition.recordings import read_recordings

    recordings = list(read_recordings([RecordingFiles(source=file) for file in files]))
    if not recordings:
        raise DataError("there are no recordings to evaluate", where=", ".join(map(str, files)))
    return recordings


def _print(scores: Sequence[SpeechStreamScore], *, as_json: bool) -> None:
    from regard.core.task import MetricTable

    if as_json:
        typer.echo(json.dumps([score.as_dict() for score in scores]).replace("NaN", "null"))
        return
    columns = "policy", "lag", "step", "wer", "cer", "delay s", "p90 s", "with computation", "p50 ms", "p99 ms"
    rows = [
        (score.policy, score.lag, score.step, score.wer, score.cer, *score.delay, score.computed[0], *score.elapsed)
        for score in scores
    ]
    typer.echo(aligned(MetricTable(columns, tuple(rows)), decimals=2))
    words = pluralize(scores[0].words, "word")
    typer.echo(f"\ndelay: sound from the end of a word to its commit, mean of {words} · ms: computation of a step")


def _print_translations(scores: Sequence[SpokenScore], *, as_json: bool) -> None:
    from regard.core.task import MetricTable

    if as_json:
        typer.echo(json.dumps([score.as_dict() for score in scores]).replace("NaN", "null"))
        return
    names = list(scores[0].figures)
    columns = "policy", "lag", "step", "wer", *names, "AL s", "LAAL s", "YAAL s", "with computation", "p50 ms", "p99 ms"
    rows: list[tuple[str | int | float, ...]] = [
        (
            score.policy, score.lag, score.step, score.wer, *score.figures.values(), *score.sound.values(),
            score.computed["LAAL"], *score.elapsed,
        )
        for score in scores
    ]  # fmt: skip
    typer.echo(aligned(MetricTable(columns, tuple(rows)), decimals=2))
    first = scores[0]
    typer.echo(f"\ntranslated with {first.translate_policy}, lag {first.translate_lag}", nl=False)
    typer.echo(" · AL, LAAL, YAAL: lag in seconds of sound; with computation: LAAL · ms: computation of a step")

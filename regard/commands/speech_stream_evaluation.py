"""``regard evaluate --streaming`` of a recognizer: word errors and delays of a policy at several lags."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.commands.metric_tables import aligned
from regard.commands.options import open_predictor
from regard.commands.progress import progress
from regard.commands.stream_evaluation import StreamEvaluationRequest
from regard.commands.streaming import refuse_with_streaming
from regard.config.stream_settings import DEFAULT_POLICY, RATE, SOUND_LAG, PolicyName
from regard.core.wording import pluralize
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.utterance import Utterance
    from regard.runs.run_folder import RunFolder
    from regard.tasks.recognition.stream_scores import SpeechStreamScore


def evaluate_speech_streams(
    run: RunFolder, files: Sequence[Path], names: list[str] | None, search_options: dict[str, Any],
    opening: dict[str, Any], request: StreamEvaluationRequest, *, as_json: bool,
) -> None:  # fmt: skip
    """Print word errors and delays for each lag.

    Args:
        run: the run folder.
        files: the lists of test recordings.
        names: must be None: the metrics are word and character errors.
        search_options: the search options of the command line.
        opening: keyword arguments of ``open_predictor``, and ``engine``, which must be None.
        request: the options of streams.
        as_json: whether to print JSON.
    """
    from regard.tasks.recognition.open_streaming import open_streaming
    from regard.tasks.recognition.stream_scores import score_speech_streams
    from regard.tasks.recognition.streaming import SegmentOptions

    refuse_with_streaming(metric=names, log=request.log, curve=request.curve)
    refuse_with_streaming(rate=request.rate != RATE, together=request.together != 1)
    policy: PolicyName = request.policy or DEFAULT_POLICY
    lags = request.lags(policy, SOUND_LAG)
    engine = opening.pop("engine", None)
    refuse_with_streaming(engine=engine)
    model: Any = open_predictor(run.path, **opening)
    options = SegmentOptions() if request.step is None else SegmentOptions(step=request.step)
    search = model.adjusted({name: value for name, value in search_options.items() if value is not None})
    recordings = _recordings(files)
    scores = []
    for lag in lags:
        streaming = open_streaming(
            run, model, policy, lag, options=options, search=search, checkpoint=opening["checkpoint"]
        )  # fmt: skip
        with progress(f"{policy}, lag {lag}", len(recordings)) as advance:
            scores.append(score_speech_streams(streaming, recordings, done=advance))
    _print(scores, as_json=as_json)


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

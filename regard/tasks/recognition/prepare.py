"""Preparation of a recognition run: recordings to frames, texts to pieces, and a report of those left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.core.contents import PreparedParts
from regard.core.task import Data, ProgressCallback, Report, RunFiles
from regard.core.wording import pluralize
from regard.data.utterance import Utterance
from regard.errors import DataError
from regard.models.ctc import required_states
from regard.tasks.recognition.codecs import SpeechCodecs, make_tokenizer, open_codecs, unknown_report
from regard.tasks.recognition.config import RecognitionConfig
from regard.tasks.recognition.data_config import RecordingFiles
from regard.tasks.recognition.examples import RecordingExamples, Transcribed
from regard.tasks.recognition.features import Features
from regard.tasks.recognition.recordings import StoredFrames, read_recordings, seconds_report, store_frames

LISTED = 5  # recordings that a report of omitted ones names


class _Part(NamedTuple):
    """The recordings of a part, their frames, and its name."""

    name: str
    recordings: list[Utterance]
    frames: StoredFrames


def prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    """Prepare or open the codecs and the examples of a run, and log their sizes and the omitted recordings."""
    config: RecognitionConfig = run.config
    data, trains = config.data, run.contents != {}  # an evaluation accepts any contents
    features = Features(data)
    speeds = (1.0, *(speed for speed in dict.fromkeys(data.sound.speeds) if speed != 1)) if trains else (1.0,)

    def read(name: str, corpora: Sequence[RecordingFiles], speeds: Sequence[float]) -> _Part:
        recordings = list(read_recordings(corpora))
        if not recordings:
            why = "the files, or the share of them, are empty"
            raise DataError(f"the {name} data has no recording", where=corpora[0].name, why=why)
        if data.input == "frames":
            _require_frames(recordings)
        folder = run.data / f"{name}-frames"
        return _Part(name, recordings, store_frames(recordings, features, folder, speeds, log, progress))

    train = read("train", data.train, speeds)
    codecs = _make_codecs(run, features, train, log) if run.makes_codecs else open_codecs(run)
    parts = PreparedParts(run.contents, log)
    valid = None
    if data.valid:
        valid = _examples(read("valid", data.valid, (1.0,)), codecs, config, parts, log, trains=False)
    examples = _examples(train, codecs, config, parts, log, trains=trains)
    if trains and valid is not None:
        _report_shared_speakers(examples, valid, log)
    return Data(examples, valid, codecs, codecs.spec, parts.contents, int(examples.lengths.max()))


def _make_codecs(run: RunFiles, features: Features, part: _Part, log: Report) -> SpeechCodecs:
    texts = [recording.text or "" for recording in part.recordings]
    tokenizer = make_tokenizer(run, texts, log)
    frames = [part.frames.at(index) for index in range(len(texts))]
    _require_channels(part, frames)
    features.learn(frames, [len(pieces) for pieces in tokenizer.encode_lines(texts)], run)
    return SpeechCodecs(features, tokenizer)


def _require_frames(recordings: Sequence[Utterance]) -> None:
    sound = next((recording for recording in recordings if recording.frames is None), None)
    if sound is not None:
        help = 'name a .npz with the arrays frames, offsets and text; a model of sounds has data.input = "audio"'
        why = 'it has data.input = "frames"'
        raise DataError("this model does not read sounds", where=sound.where, why=why, help=help)


def _require_channels(part: _Part, frames: Sequence[Any]) -> None:
    widths = {len(table[0]) for table in frames}
    if len(widths) != 1:
        what = "the frames of the training data differ in length"
        why = f"they have {' and '.join(map(str, sorted(widths)))} numbers"
        raise DataError(what, where=part.recordings[0].where, why=why)


def _examples(
    part: _Part, codecs: SpeechCodecs, config: RecognitionConfig, parts: PreparedParts, log: Report, *, trains: bool
) -> RecordingExamples:  # fmt: skip
    texts = [recording.text or "" for recording in part.recordings]
    if report := unknown_report(part.name, texts, codecs.tokenizer):
        log(f"warning: {report}")
    pieces = [np.array(row, np.int64) for row in codecs.tokenizer.encode_lines(texts)]
    chosen = _fitting(part, pieces, config, codecs, log) if trains or part.name == "valid" else range(len(pieces))
    frames = part.frames
    rows = [frames.rows[index * frames.speeds + speed] for index in chosen for speed in range(frames.speeds)]
    transcribed = [
        Transcribed(part.recordings[index].where, texts[index], pieces[index], part.recordings[index].speaker)
        for index in chosen
    ]
    examples = RecordingExamples(
        transcribed, StoredFrames(rows, frames.speeds), codecs.features, config, trains=trains
    )  # fmt: skip
    own = [examples.frames.at(index) for index in range(len(transcribed))]
    for one, table in zip(transcribed, own, strict=True):
        codecs.features.require_channels(table, one.where)
    speakers = len({one.speaker for one in transcribed} - {""})
    report = seconds_report(part.name, own, codecs.features.frame_rate, speakers)
    parts.add(part.name, examples.digest(), report, what="recordings", where=part.recordings[0].where)
    return examples


def _fitting(
    part: _Part, pieces: Sequence[Any], config: RecognitionConfig, codecs: SpeechCodecs, log: Report
) -> list[int]:
    """Return the recordings that the model can learn, and log the numbers of the others with the first of them."""
    joined, frames = config.model.encoder.input, part.frames
    longest = config.data.max_seconds * codecs.features.frame_rate
    uses_ctc = config.model.alone or config.model.ctc > 0
    long, short, fitting = list[int](), list[int](), list[int]()
    for index, row in enumerate(pieces):
        lengths = [len(frames.at(index, speed)) for speed in range(frames.speeds)]
        if lengths[0] > longest:
            long.append(index)
        elif uses_ctc and min(map(joined.positions, lengths)) < required_states(row):
            short.append(index)
        else:
            fitting.append(index)
    reasons = (long, f"longer than {config.data.max_seconds:g} s"), (short, "with more text than encoder states")
    for indices, reason in reasons:
        if indices:
            named = ", ".join(part.recordings[index].where for index in indices[:LISTED])
            log(f"{part.name}: {pluralize(len(indices), 'recording')} {reason} left out: {named}")
    if not fitting:
        what = f"the {part.name} data has no recording that the model can learn"
        why = f"{pluralize(len(long), 'recording')} too long, {len(short):,} with more text than encoder states"
        help = "increase data.max_seconds, or lower model.encoder.input.subsample"
        raise DataError(what, where=part.recordings[0].where, why=why, help=help)
    return fitting


def _report_shared_speakers(train: RecordingExamples, valid: RecordingExamples, log: Report) -> None:
    speakers = [{one.speaker for one in part.transcribed} - {""} for part in (train, valid)]
    if shared := speakers[0] & speakers[1]:
        log(f"warning: {pluralize(len(shared), 'speaker')} in both training and validation, such as {min(shared)}")

"""Recordings as the input of a classifier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.baselines.frames import FrameBaseline
from regard.core.task import Card
from regard.data.file_names import named_files
from regard.data.recordings import SoundFeatures, Speaker, recording_line
from regard.data.rows import Column, Row
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import DataError
from regard.fields.sound import Sounds
from regard.models.frame_input import frame_input
from regard.models.input import Input
from regard.tasks.classification.choose_audio import choose
from regard.tasks.classification.inputs import ClassifierInput
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.classification.spoken_examples import LABEL, SPEAKER, SpokenExample, read_spoken

AUDIO = "audio"


def _examples(data: Any, corpora: Sequence[FilesConfig]) -> list[SpokenExample]:
    features = SoundFeatures(data.sound)
    examples = [
        example
        for corpus in corpora
        for path in named_files(corpus.source)
        for example in read_spoken(data, path, features, labeled=True, part=corpus.part)
        if falls_into(example.split_key, corpus.share)
    ]
    return _with_speakers(data, examples, required=True)


def _with_speakers(data: Any, examples: list[SpokenExample], *, required: bool) -> list[SpokenExample]:
    """Give each recording its speaker, if the config standardizes frames by speaker."""
    speakers = defaultdict[str, Speaker](Speaker)
    for example in examples if data.sound.normalization == SPEAKER else ():
        if example.speaker is not None:
            example.recording.speaker = speakers[example.speaker]
            speakers[example.speaker].recordings.append(example.recording)
        elif required:
            raise DataError(
                "the speaker of a recording is not known", where=f"{example.path}:{example.number}",
                why="data.sound.normalization = speaker needs a column or an array named speaker",
                help="--set data.sound.normalization=corpus",
            )  # fmt: skip
    return examples


def _rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[Row]:
    for example in _examples(data, corpora):
        cells: dict[Any, Any] = {AUDIO: example.recording, LABEL: example.label}
        yield Row(cells, example.path, example.number)


def _make_field(data: Any, model: Any = None) -> Sounds:
    return Sounds((AUDIO,), data.sound, max_length=data.max_length)


def _network(model: Any, spec: Mapping[str, int]) -> Input:
    return frame_input(spec["channels"], model.encoder.embedding_width, model.encoder.input)


def _row_inputs(config: Any, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    examples = [*read_spoken(config.data, path, SoundFeatures(config.data.sound), labeled=False)]
    for example in _with_speakers(config.data, examples, required=False):
        yield f"{example.path}:{example.number}", recording_line(example.recording)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    answer = make_answer(data)
    for row in _rows(data, corpora):
        recording: Any = row.cells[AUDIO]
        yield recording.identity, "\n".join(sorted(answer.value(row))), row.where


INPUT = ClassifierInput(
    field=_make_field,
    network=_network,
    rows=_rows,
    row_inputs=_row_inputs,
    lint_rows=_lint_rows,
    lint_unit=None,
    propose=choose,
    card=Card("audio-classification", "print(model([open('seven.wav', 'rb').read()])[0])", "classify {run} seven.wav"),
    baseline=lambda data: FrameBaseline(),
)

"""The baseline of a recognizer, by its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.baselines.nearest_recording import NearestRecording
from regard.core.baseline import FOLDER, open_saved_baseline, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.tasks.recognition.codecs import SpeechCodecs
from regard.tasks.recognition.measure import WORDLESS, measure


class RecognitionBaseline:
    """``core.task.TaskBaseline`` of the text of the nearest recording; it has no loss, and always some text."""

    def __init__(self, model: NearestRecording) -> None:
        self.model = model

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``."""
        return measure(examples, indices, [name for name in names if name != WORDLESS], self.model.outputs)

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_recognition_baseline(run: RunFiles, data: Data) -> RecognitionBaseline:
    """Fit the baseline on the training recordings."""
    examples: Any = data.train
    model = NearestRecording()
    model.learn(examples.standardized, [one.text for one in examples.transcribed])
    return RecognitionBaseline(model)


def open_recognition_baseline(run: RunFiles, codecs: SpeechCodecs) -> RecognitionBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    one = np.zeros((1, codecs.features.channels), np.float32)
    model = open_saved_baseline(run.path / FOLDER, NearestRecording(), lambda model: model.outputs([one]))
    return None if model is None else RecognitionBaseline(model)

"""The check of the data of a recognizer."""

from __future__ import annotations

from functools import partial

from regard.core.task import ProgressCallback
from regard.data.lint.check import LintReport
from regard.data.lint.utterances import lint_utterances
from regard.tasks.recognition.config import RecognitionConfig
from regard.tasks.recognition.recordings import read_recordings


def lint(config: RecognitionConfig, max_findings: int, progress: ProgressCallback) -> LintReport:
    """See ``core.task.Task.lint``."""
    data = config.data
    trained = {corpus.name for corpus in data.train}
    held_out = {
        "the held-out part" if corpus.name in trained else corpus.name: partial(read_recordings, [corpus])
        for corpus in data.valid or ()
    }
    return lint_utterances(
        read_recordings(data.train), held_out, frame_rate=data.frame_rate, max_findings=max_findings,
        progress=progress,
    )  # fmt: skip

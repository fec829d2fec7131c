"""Sums over recognized texts: edits of words and characters, and words in recordings without words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from regard.core.randomness import example_generator
from regard.core.task import Indices, MetricSums, MetricTable
from regard.metrics.edits import SIGNATURES, Edits, count_edits, edit_table, units
from regard.tasks.recognition.examples import RecordingExamples

GREEDY = {"beam": 1, "nbest": 1}
WORDLESS, SEED, SECONDS = "words_in_silence", 7, (0.5, 4.0)  # recordings without words, their seed and durations
RECORDINGS = 40

Frames = npt.NDArray[np.float32]


def measure(
    examples: RecordingExamples, indices: Indices, names: Sequence[str],
    recognize: Callable[[Sequence[Frames]], list[str]],
) -> MetricSums:  # fmt: skip
    """Return the sums of the metrics over recordings.

    ``wer`` and ``cer``: the counts of ``metrics.edits.Edits``. ``words_in_silence``: words and recordings, counted with
    the first example, since those recordings are not examples.
    """
    sums: MetricSums = {}
    rates = [name for name in names if name in SIGNATURES]
    if rates and len(indices):
        outputs = recognize([examples.standardized(int(index)) for index in indices])
        for name in rates:
            counts = [
                count_edits(units(name, examples.transcribed[int(index)].text), units(name, output))
                for index, output in zip(indices, outputs, strict=True)
            ]
            sums[name] = torch.tensor(counts, dtype=torch.float64).sum(0)
    if WORDLESS in names and len(indices):
        own = 0 in indices
        outputs = recognize(wordless(examples)) if own else []
        sums[WORDLESS] = torch.tensor([sum(len(text.split()) for text in outputs), len(outputs)], dtype=torch.float64)
    return sums


def wordless(examples: RecordingExamples) -> list[Frames]:
    """Return recordings without words, always the same."""
    rate = examples.features.frame_rate
    draws = [example_generator(SEED, 0, number, 0) for number in range(RECORDINGS)]
    return [examples.features.wordless(max(int(draw.uniform(*SECONDS) * rate), 1), draw) for draw in draws]


def edit_counts(sums: MetricSums) -> dict[str, Edits]:
    """Return the counts of the metrics of edits that have sums."""
    return {name: Edits(*(int(count) for count in sums[name].tolist())) for name in SIGNATURES if name in sums}


def compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Return the metrics that have sums: ``loss`` and ``ctc`` in nats per piece, END included, and error rates."""
    figures = {}
    if "tokens" in sums:
        figures["loss"] = float(sums["nll"]) / float(sums["tokens"])
        figures |= {"ctc": float(sums["ctc"]) / float(sums["tokens"])} if "ctc" in sums else {}
    figures |= {name: edits.rate for name, edits in edit_counts(sums).items()}
    if WORDLESS in sums:
        words, recordings = sums[WORDLESS].tolist()
        figures[WORDLESS] = words / max(recordings, 1)
    return figures


def tables(sums: MetricSums, codecs: object) -> Mapping[str, MetricTable]:
    """Return the table of substitutions, deletions and insertions."""
    counts = edit_counts(sums)
    return {"edits": edit_table(counts)} if counts else {}

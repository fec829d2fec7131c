"""The baseline of a language model, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.baselines.ngrams import NgramBaseline
from regard.core.baseline import FOLDER, open_baseline, open_saved_baseline, save_baseline
from regard.core.task import Data, ExampleIndices, Indices, MetricSums, RunFiles
from regard.data.tokenizers.notes import FRAME_END
from regard.tasks.language_model.scoring import text_sizes
from regard.tasks.language_model.wide import fit_ngrams, tokens_of_batch

AT_ONCE = 256  # windows that are read together


class LanguageModelBaseline:
    """``core.task.TaskBaseline`` of n-grams, which read the same windows as the network."""

    def __init__(self, model: NgramBaseline, *, music: bool) -> None:
        self.model, self.music = model, music

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``."""
        nll, number, frames = 0.0, 0, 0
        indices = indices[indices >= 0]
        for start in range(0, len(indices), AT_ONCE):
            index = indices[start : start + AT_ONCE]
            tokens, counted = tokens_of_batch(examples.collate(ExampleIndices(index, np.zeros(len(index), np.int64))))
            nll -= float(self.model.log_probabilities(tokens)[counted].sum())
            number += int(counted.sum())
            frames += int((tokens.targets[counted] == FRAME_END).sum())
        sums = {"nll": torch.tensor(nll, dtype=torch.float64), "tokens": torch.tensor(number)}
        sums |= {"frames": torch.tensor(frames)} if self.music else {}
        return sums | (text_sizes(examples, indices, names) if names else {})

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_text_baseline(run: RunFiles, data: Data) -> LanguageModelBaseline:
    """Fit the baseline on the windows of the training data, unless it is the wide part, which is fitted already."""
    model = data.codecs.wide or fit_ngrams(data.train, data.spec["types"])
    return LanguageModelBaseline(model, music=run.config.data.tokenizer.kind == "notes")


def open_text_baseline(run: RunFiles, codecs: Any) -> LanguageModelBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = codecs.wide or open_ngrams(run, len(codecs.tokenizer))
    return None if model is None else LanguageModelBaseline(model, music=run.config.data.tokenizer.kind == "notes")


def open_ngrams(run: RunFiles, types: int) -> NgramBaseline | None:
    """Open the saved n-grams of a run; None if it has no n-grams. Raises ModelError if they are damaged."""
    saved = open_baseline(run.path / FOLDER, NgramBaseline.kind)
    if saved is None or "format" not in saved.settings:  # the first format had no counts, which a mixture needs
        return None

    def check(model: NgramBaseline) -> None:
        if model.types != types:
            raise ValueError("the vocabulary of the baseline differs from that of the run")

    return open_saved_baseline(run.path / FOLDER, NgramBaseline(), check)

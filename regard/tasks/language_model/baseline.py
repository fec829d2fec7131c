"""The baseline of a language model, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.baselines.ngrams import MAX_TOKENS, ContextTokens, NgramBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, save_baseline
from regard.core.task import Data, ExampleIndices, Indices, MetricSums, RunFiles
from regard.data.tokenizers.notes import FRAME_END
from regard.data.windows import TokenBatch
from regard.tasks.language_model.scoring import text_sizes

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
            tokens, counted = _tokens(examples.collate(ExampleIndices(index, np.zeros(len(index), np.int64))))
            nll -= float(self.model.log_probabilities(tokens)[counted].sum())
            number += int(counted.sum())
            frames += int((tokens.targets[counted] == FRAME_END).sum())
        sums = {"nll": torch.tensor(nll, dtype=torch.float64), "tokens": torch.tensor(number)}
        sums |= {"frames": torch.tensor(frames)} if self.music else {}
        return sums | (text_sizes(examples, indices, names) if names else {})

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_text_baseline(run: RunFiles, data: Data) -> LanguageModelBaseline:
    """Fit the baseline on the windows of the training data."""
    parts, number, examples = list[ContextTokens](), 0, data.train
    for batch in examples.batches(0):  # in the random order of the first epoch: a sample of a large corpus
        tokens, _ = _tokens(cast("TokenBatch", examples.collate(batch)))
        parts.append(tokens)
        number += len(tokens.targets)
        if number >= MAX_TOKENS:
            break
    model = NgramBaseline()
    model.learn(ContextTokens(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))), data.spec["types"])
    return LanguageModelBaseline(model, music=run.config.data.tokenizer.kind == "notes")


def open_text_baseline(run: RunFiles, codecs: Any) -> LanguageModelBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""

    def check(model: NgramBaseline) -> None:
        if model.types != len(codecs.tokenizer):
            raise ValueError("the vocabulary of the baseline differs from that of the run")

    model = open_saved_baseline(run.path / FOLDER, NgramBaseline(), check)
    return None if model is None else LanguageModelBaseline(model, music=run.config.data.tokenizer.kind == "notes")


def _tokens(batch: TokenBatch) -> tuple[ContextTokens, Any]:
    """Return the valid targets of a batch, row by row, and which of them count in the loss."""
    valid, (rows, length) = batch.valid.numpy(), batch.input.shape
    depth = np.tile(np.arange(length), (rows, 1))
    if isinstance(batch.position, Tensor):
        depth = np.minimum(depth, batch.position.numpy())
    counted = batch.loss_mask.numpy() if isinstance(batch.loss_mask, Tensor) else valid
    inputs, targets = batch.input.numpy(), batch.target.numpy()
    return ContextTokens(inputs[valid], depth[valid], targets[valid]), counted[valid]

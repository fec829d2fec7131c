"""The wide part of a language model: n-grams, fitted before the network, that each batch brings along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.baselines.ngrams import MAX_TOKENS, ContextTokens, NgramBaseline
from regard.core.task import ExampleIndices, Indices
from regard.data.windows import TokenBatch

FOLDS = 5


class WideExamples:
    """Examples of a language model whose batches have the evidence of n-grams for each target (``TokenBatch.wide``).

    Those of training are evidence of n-grams that were fitted without the fold of the example: consecutive examples are
    one fold, because a text resembles its surroundings.
    """

    def __init__(self, examples: Any, models: Sequence[NgramBaseline]) -> None:
        """Prepare examples; ``models``: one for all of them, or one for each of ``FOLDS`` folds."""
        self.examples, self.models = examples, models

    def __getattr__(self, name: str) -> Any:
        return getattr(self.examples, name)

    def __len__(self) -> int:
        return len(self.examples)

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        """See ``core.task.Examples``."""
        batch: TokenBatch = self.examples.collate(examples)
        tokens, _ = tokens_of_batch(batch)
        rows = np.nonzero(batch.valid.numpy())[0]
        fold = fold_of(np.maximum(batch.index.numpy(), 0), len(self), len(self.models))[rows]
        values = np.zeros((len(fold), 2), np.float32)
        for number in np.unique(fold).tolist():  # whole rows, whose contexts are complete
            own = fold == number
            evidence = self.models[number].evidence(ContextTokens(*(array[own] for array in tokens)))
            values[own] = np.stack([evidence.log_probabilities, evidence.buckets], 1)
        wide = torch.zeros(*batch.input.shape, 2)
        wide[batch.valid] = torch.from_numpy(values)
        return batch._replace(wide=wide)


def fold_of(index: Indices, examples: int, number: int) -> Indices:
    """Return the fold of examples: all of them, consecutive ones together, are divided into ``number`` parts."""
    return np.asarray(index) * number // max(examples, 1)


def fit_ngrams(
    examples: Any, types: int, *, chosen: npt.NDArray[np.bool_] | None = None, longest: int | None = None
) -> NgramBaseline:
    """Fit n-grams on the windows of training data, at most ``MAX_TOKENS`` tokens.

    Args:
        examples: training data, read in the random order of the first epoch: a sample of a large corpus.
        types: size of the vocabulary.
        chosen: (examples,) whether an example is read; None: all are.
        longest: see ``NgramBaseline.learn``.
    """
    parts, number = list[ContextTokens](), 0
    for batch in examples.batches(0):
        read = batch if chosen is None else _chosen(batch, chosen[batch.index])
        if not len(read.index):
            continue
        tokens, _ = tokens_of_batch(cast("TokenBatch", examples.collate(read)))
        parts.append(tokens)
        number += len(tokens.targets)
        if number >= MAX_TOKENS:
            break
    model = NgramBaseline()
    model.types = types
    if parts:  # otherwise uniform: the only example is held out
        together = ContextTokens(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        model.learn(together, types, longest=longest)
    return model


def _chosen(batch: ExampleIndices, chosen: npt.NDArray[np.bool_]) -> ExampleIndices:
    return ExampleIndices(batch.index[chosen], batch.visit[chosen])


def held_out_models(examples: Any, model: NgramBaseline) -> list[NgramBaseline]:
    """Return n-grams like ``model``, each fitted without one fold of the training data."""
    fold = fold_of(np.arange(len(examples)), len(examples), FOLDS)
    return [
        fit_ngrams(examples, model.types, chosen=fold != number, longest=model.longest)
        for number in np.unique(fold).tolist()
    ]


def tokens_of_batch(batch: TokenBatch) -> tuple[ContextTokens, Any]:
    """Return the valid targets of a batch, row by row, and which of them count in the loss."""
    valid, (rows, length) = batch.valid.numpy(), batch.input.shape
    depth = np.tile(np.arange(length), (rows, 1))
    if isinstance(batch.position, Tensor):
        depth = np.minimum(depth, batch.position.numpy())
    counted = batch.loss_mask.numpy() if isinstance(batch.loss_mask, Tensor) else valid
    inputs, targets = batch.input.numpy(), batch.target.numpy()
    return ContextTokens(inputs[valid], depth[valid], targets[valid]), counted[valid]

"""The wide part of a masked model: tables, fitted before the network, whose evidence each batch brings along."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from regard.baselines.context_product import CHAINS
from regard.baselines.gaps import GapBaseline, HiddenTokens
from regard.core.task import ExampleIndices
from regard.data.masked_examples import MaskedBatch, MaskedExamples
from regard.tasks.masked.baseline import fit_tables

FOLDS = 5


class WideMaskedExamples:
    """Masked examples whose batches have the evidence of tables for each chosen position (``MaskedBatch.tables``).

    The tables read no chosen position, also where the network reads the original token. In training they are those that
    were fitted without the fold of the example: equal documents are in one fold.
    """

    def __init__(self, examples: MaskedExamples, models: Sequence[GapBaseline]) -> None:
        """Prepare examples; ``models``: one for all of them, or one for each of ``FOLDS`` folds."""
        self.examples, self.models = examples, models

    def __getattr__(self, name: str) -> Any:
        return getattr(self.examples, name)

    def __len__(self) -> int:
        return len(self.examples)

    def collate(self, examples: ExampleIndices) -> MaskedBatch:
        """See ``core.task.Examples``."""
        batch = self.examples.collate(examples)
        texts, chosen = [self.examples.text(int(index)) for index in batch.index], batch.chosen.numpy()
        tables = np.zeros((int(chosen.sum()), self.models[0].types), np.float32)
        buckets = np.zeros((len(tables), CHAINS), np.int64)
        fold = np.array([self.fold(int(index)) for index in batch.index])
        fold_of_gap = np.repeat(fold, chosen.sum(1))
        for number in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == number)
            tokens = HiddenTokens.of([texts[row] for row in rows], [chosen[row, : len(texts[row])] for row in rows])
            own = fold_of_gap == number
            tables[own], buckets[own] = self.models[number].evidence(tokens)
        return batch._replace(tables=torch.from_numpy(tables), buckets=torch.from_numpy(buckets))

    def fold(self, index: int) -> int:
        """Return the number of the model that an example is read with."""
        return 0 if len(self.models) == 1 else fold_of(self.models[0].key(self.examples.document(index)))


def fold_of(key: bytes) -> int:
    """Return the fold of a document, by a hash of its content."""
    return hashlib.blake2b(key, digest_size=1).digest()[0] * FOLDS >> 8


def held_out_tables(examples: MaskedExamples, model: GapBaseline, make: Callable[[], GapBaseline]) -> list[GapBaseline]:
    """Return tables like ``model``, each fitted without one fold of the training data; ``make`` returns empty ones."""
    fold = np.array([fold_of(model.key(examples.document(index))) for index in range(len(examples))])
    exponents = model.product.exponents
    return [
        fit_tables(examples, make(), model.types, chosen=fold != number, exponents=exponents) for number in range(FOLDS)
    ]

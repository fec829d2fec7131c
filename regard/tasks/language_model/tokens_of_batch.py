"""The tokens of a batch of a language model, as n-grams read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from regard.baselines.ngrams import ContextTokens
from regard.data.windows import TokenBatch


def tokens_of_batch(batch: TokenBatch) -> tuple[ContextTokens, Any]:
    """Return the valid targets of a batch, row by row, and which of them count in the loss."""
    valid, (rows, length) = batch.valid.numpy(), batch.input.shape
    depth = np.tile(np.arange(length), (rows, 1))
    if isinstance(batch.position, Tensor):
        depth = np.minimum(depth, batch.position.numpy())
    counted = batch.loss_mask.numpy() if isinstance(batch.loss_mask, Tensor) else valid
    inputs, targets = batch.input.numpy(), batch.target.numpy()
    return ContextTokens(inputs[valid], depth[valid], targets[valid]), counted[valid]

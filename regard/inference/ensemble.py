"""Several models as one: the mean of their probabilities at each step of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError


def log_mean(log_p: Sequence[Float[Tensor, "*rows types"]]) -> Float[Tensor, "*rows types"]:
    """Return log(1/K Σ_k p_k) of the log-probabilities of K models (Sutskever et al. 2014, §3.6)."""
    device = log_p[0].device
    return torch.stack([rows.float().to(device) for rows in log_p]).logsumexp(0) - math.log(len(log_p))


def require_equal_pieces(first: Sequence[str], other: Sequence[str], number: int, name: str) -> None:
    """Raise ConfigError if a further model has another vocabulary.

    Args:
        first: all pieces of the first model.
        other: those of the other model.
        number: the number of the other model, from 1.
        name: the name of the vocabulary, for the message.
    """
    if first != other:
        why = "the probabilities of different pieces cannot be averaged"
        help = "train all models on the same data, for example with --set seed=2"
        raise ConfigError(f"model {number} has another {name}", where="ensemble", why=why, help=help)

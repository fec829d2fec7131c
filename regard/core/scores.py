"""Contracts of predictors whose task declares ``Task.scores``: probabilities of given outputs, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class ScoresPairs(Protocol):
    """Predictor of a task with ``scores = "pairs"``."""

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, where: Callable[[int], str] = ...
    ) -> list[list[float]]:
        """Return log P of each token of each target. Raises DataError at ``where(index)`` for too long a pair."""

    def scored_pieces(self, target: str) -> list[str]:
        """Return the tokens of a target, one for each number of ``score``."""


class ScoresTexts(Protocol):
    """Predictor of a task with ``scores = "texts"``."""

    context: int  # number of tokens that a prediction depends on

    def read(self, line: str) -> str:
        """Return the prompt of a line. Raises RegardError if the vocabulary cannot encode it."""

    def score(self, text: str, *, prompt: str | None = None, stride: int | None = None) -> Any:
        """Return ``pieces``, ``piece_log_probabilities``, ``nll``, ``tokens``, ``bytes`` and ``bits_per_byte``."""

"""Contracts of predictors whose task declares ``Task.scores``: probabilities of given outputs, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class ScoresPairs(Protocol):
    """Predictor of a task with ``scores = "pairs"``."""

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, where: Callable[[int], str] = ...
    ) -> list[list[float]]:
        """Return log p of each piece of each target. Raises DataError, at ``where(index)``, for a pair too long."""

    def scored_pieces(self, target: str) -> list[str]:
        """Return the pieces of a target that ``score`` has a number for."""


class ScoresTexts(Protocol):
    """Predictor of a task with ``scores = "texts"``."""

    context: int  # tokens that a prediction depends on

    def read(self, line: str) -> str:
        """Return the prompt that a line is. Raises RegardError if the vocabulary cannot spell it."""

    def score(self, text: str, *, prompt: str | None = None, stride: int | None = None) -> Any:
        """Return ``pieces``, ``piece_log_probabilities``, ``nll``, ``tokens``, ``bytes`` and ``bits_per_byte``."""

"""ROUGE of summaries (Lin 2004), with Google's ``rouge-score``: the mean F1 of shared words over items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from regard.core.installation import extra_command
from regard.errors import ConfigError

ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}  # Regard's names to those of the library


def rouge_counts(metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Return (F1, 1) of each output against its best-matching reference; words are stemmed (Porter).

    ``rouge-1`` and ``rouge-2`` compare words and pairs of words, ``rouge-l`` the longest common subsequence.
    """
    scorer, name = _scorer(), ROUGE[metric]
    return [
        (scorer[name].score_multi(list(accepted), output)[name].fmeasure, 1.0)
        for output, accepted in zip(outputs, references, strict=True)
    ]


def rouge_signature() -> str:
    """Return the part of the signature that describes the computation of ROUGE."""
    return f"stem:porter|mean:f1|version:rouge-score-{version('rouge-score')}"


@cache
def _scorer() -> dict[str, Any]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ConfigError(
            "ROUGE needs rouge-score", why="it is not installed", help=extra_command("summaries")
        ) from error
    return {name: RougeScorer([name], use_stemmer=True) for name in ROUGE.values()}

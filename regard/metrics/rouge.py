"""ROUGE of summaries (Lin 2004), by Google's ``rouge-score``: the mean over items of F1 in shared words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from regard.core.installation import extra_command
from regard.errors import ConfigError

ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}  # our names to the library's


def rouge_counts(metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """(F1, 1) of each output against the reference that it is nearest to; words are stemmed (Porter).

    ``rouge-1``, ``rouge-2``: of words and of pairs of words; ``rouge-l``: of the longest common subsequence.
    """
    scorer, name = _scorer(), ROUGE[metric]
    return [
        (scorer[name].score_multi(list(own), output)[name].fmeasure, 1.0)
        for output, own in zip(outputs, references, strict=True)
    ]


def rouge_signature() -> str:
    """The part of the signature that says how ROUGE was computed."""
    return f"stem:porter|mean:f1|version:rouge-score-{version('rouge-score')}"


@cache
def _scorer() -> dict[str, Any]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ConfigError(
            "there is no ROUGE", why="rouge-score is not installed", help=extra_command("summaries")
        ) from error
    return {name: RougeScorer([name], use_stemmer=True) for name in ROUGE.values()}

"""Summary of a study over several seeds: each criterion by seed, its mean, and in how many seeds it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from regard.studies.study import Cell, format_cell

Record = Mapping[str, Any]


def summarize_seeds(records: Sequence[Record]) -> dict[str, Any]:
    """Return the summary of the records of one study, one record per seed.

    Criteria are matched by their order. Their names may contain a measured choice, such as the best rate; a criterion
    with several names lists those of each seed under ``names``.

    Args:
        records: contents of ``result.json``, at least one.

    Raises:
        ValueError: if the records have different numbers of criteria.
    """
    by_criterion = zip(*(record["criteria"] for record in records), strict=True)
    return {
        "seeds": [record["seed"] for record in records],
        "holds": [record["holds"] for record in records],
        "seconds": [record["seconds"] for record in records],
        "criteria": [_summary(criteria) for criteria in by_criterion],
    }


def _summary(criteria: Sequence[Record]) -> dict[str, Any]:
    names = [criterion["what"] for criterion in criteria]
    values = [criterion["value"] for criterion in criteria]
    numbers = [float(value) for value in values]  # NaN and infinities are strings in records
    finite = all(map(math.isfinite, numbers))
    error = stdev(numbers) / math.sqrt(len(numbers)) if finite and len(numbers) > 1 else None
    return {
        "what": names[0],
        **({"names": names} if len({*names}) > 1 else {}),
        "comparison": criteria[0]["comparison"],
        "values": values,
        "thresholds": [criterion["threshold"] for criterion in criteria],
        "mean": fmean(numbers) if finite else None,
        "error": error,
        "holds": sum(criterion["holds"] for criterion in criteria),
    }


def seed_verdict(summary: Record) -> str:
    """Return the verdict in words, such as ``holds in 4 of 5``."""
    return f"holds in {sum(summary['holds'])} of {len(summary['holds'])}"


def seed_table(summary: Record) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return the columns and the rows of the criteria by seed; the last row is the verdict on all of them."""
    count = len(summary["seeds"])
    columns = ("criterion", *(f"seed {seed}" for seed in summary["seeds"]), "mean ± error", "threshold", "holds in")
    rows: list[tuple[Cell, ...]] = []
    for criterion in summary["criteria"]:
        name = criterion["what"] + (" (differs by seed)" if "names" in criterion else "")
        rows.append(
            (name, *criterion["values"], _mean(criterion), _threshold(criterion), f"{criterion['holds']} of {count}")
        )
    marks = ["yes" if holds else "no" for holds in summary["holds"]]
    rows.append(("all criteria", *marks, "", "", f"{sum(summary['holds'])} of {count}"))
    return columns, rows


def _mean(criterion: Record) -> str:
    if criterion["mean"] is None:
        return ""
    error = "" if criterion["error"] is None else f" ± {criterion['error']:.2g}"
    return format_cell(criterion["mean"]) + error


def _threshold(criterion: Record) -> str:
    """Return the threshold; the range of several, if it is computed from the values of a seed."""
    texts = list(dict.fromkeys(format_cell(threshold) for threshold in sorted(criterion["thresholds"], key=float)))
    return f"{criterion['comparison']} {texts[0]}" + (f" to {texts[-1]}" if len(texts) > 1 else "")

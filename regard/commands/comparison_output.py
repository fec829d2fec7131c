"""Output of the comparison of two runs, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.tasks.run_comparison import RunComparison


def print_comparison(comparison: RunComparison, names: Iterable[str], targets: int) -> None:
    """Print the metrics of the other run, and the differences to them.

    Args:
        comparison: the comparison.
        names: the metrics to print.
        targets: the number of targets.
    """
    figures, differences = comparison.metrics.figures, comparison.metrics.differences
    shown = [name for name in names if name in differences]
    print(f"\n{comparison.metrics.description}: metric, difference ± one standard error (jackknife over 16 groups)")
    width = max(map(len, shown), default=0)
    for name in shown:
        difference, error = differences[name]
        spread = "" if math.isnan(error) else f" ± {error:.4f}"
        print(f"{name:<{width}}  {figures[name]:.4f}  {difference:+.4f}{spread}")
    if comparison.right is not None:
        right = comparison.right
        name = "McNemar's exact test" if comparison.exact else f"McNemar's test by {comparison.unit}"
        test = "" if comparison.p is None else f"; {name}: p = {comparison.p:.4f}"
        print(f"only this run is right: {right.this:,}, only the other: {right.other:,}, of {targets:,}{test}")
    over = f"{comparison.values:,} {comparison.unit}"
    print(f"loss, paired permutation test over {over}: p = {comparison.loss_p:.4f}")


def comparison_as_json(comparison: RunComparison) -> dict[str, Any]:
    """Return the same as a JSON object; an unknown standard error is null."""
    metrics = comparison.metrics
    differences = {
        name: {"value": value, "standard_error": None if math.isnan(error) else error}
        for name, (value, error) in metrics.differences.items()
    }
    right = None if comparison.right is None else comparison.right._asdict()
    return {
        "name": metrics.description, "figures": metrics.figures, "differences": differences, "only_right": right,
        "p": comparison.p, "loss_p": comparison.loss_p, "values": comparison.values, "unit": comparison.unit,
    }  # fmt: skip

"""Lint of tables of series: constant, equal and missing columns, far values, and the extent of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.lint.check import FindingList, LintReport
from regard.data.time_series import Series

FAR = 30.0  # robust deviations from the median of a column, beyond which a value may have another unit
FEW, OFTEN = 3, 1e-3  # far values are usual if there are more, as a number and as a share of a column
MISSING = 0.05  # share of the values of a column


def lint_tables(
    series: Iterable[Series], *, max_findings: int = 20, progress: Callable[[int], None] | None = None
) -> LintReport:
    """Check series, one column after the other.

    Args:
        series: the series, as training reads them.
        max_findings: maximum number of reported findings of each kind; all are counted.
        progress: called with the number of rows read.
    """
    findings, read, rows = FindingList(max_findings), list[Series](), 0
    for one in series:
        for column, values in zip(one.targets, one.values.T, strict=True):
            _check_column(one, column, values, findings)
        _check_equal(one, findings)
        read.append(one)
        rows += len(one)
        if progress is not None:
            progress(rows)
    return findings.report(rows, [], (described(read),) if read else ())


def _check_column(series: Series, column: str, values: npt.NDArray[np.float32], findings: FindingList) -> None:
    observed = np.isfinite(values)
    known = values[observed].astype(np.float64)
    if (share := 1 - len(known) / max(len(values), 1)) > MISSING:
        findings.add(
            "missing", None, f"{share:.0%} of the values of {column} of {series.name} are missing", series.file
        )
    if not len(known):
        return
    if known.min() == known.max():
        message = f"{column} of {series.name} is always {known[0]:g}: it has no MASE, and nothing can be learned"
        findings.add("constant", None, message, series.file)
        return
    median = np.median(known)
    usual = 1.4826 * np.median(np.abs(known - median))
    far = np.flatnonzero(observed)[np.abs(known - median) > FAR * usual] if usual else []
    if len(far) <= max(FEW, OFTEN * len(known)):
        for row in far:
            message = f"{values[row]:g} in {column} is far from the median {median:g} of {series.name}"
            findings.add("far", series.line(int(row)), message, series.file)


def _check_equal(series: Series, findings: FindingList) -> None:
    first: dict[bytes, str] = {}
    for column, values in zip(series.targets, series.values.T, strict=True):
        known = first.setdefault(np.ascontiguousarray(values).tobytes(), column)
        if known != column and np.isfinite(values).any():
            findings.add("equal", None, f"{column} has the values of {known} in {series.name}", series.file)


def described(series: Sequence[Series]) -> str:
    """Describe series in one line: their number, the distance of their rows, the period and the gaps."""
    first = series[0]
    number = len(first.targets) if len(series) == 1 else len(series)
    rows = sum(map(len, series))
    missing = sum(int(np.isnan(one.values).any(1).sum()) for one in series)
    gaps = f"{pluralize(missing, 'row')} with missing values" if missing else "no gaps"
    if first.start is None or first.step is None:
        return f"{pluralize(len(series), 'series', 'series')} of {pluralize(len(first.targets), 'channel')}, {gaps}"
    dates = [first.labels([row])[0].split(" ")[0] for row in (0, len(first) - 1)]
    noun = pluralize(number, "series", "series")
    return f"{noun}, {first.step.describe()}, {pluralize(rows, 'row')}, {dates[0]} to {dates[1]}, {gaps}"

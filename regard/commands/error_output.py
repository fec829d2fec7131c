"""Output of the analysis of errors, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.metric_tables import aligned, table_as_json, visible
from regard.commands.prediction_files import row_record
from regard.core.untrusted_files import shortened

if TYPE_CHECKING:
    from regard.core.outcomes import OutcomeRow

WIDTH, MAX_LABEL = 80, 24  # characters of a line, and of a label


def print_errors(rows: Sequence[OutcomeRow]) -> None:
    """Print the examples with the highest losses, the most frequent confusions, and the metrics of slices."""
    from regard.metrics.error_analysis import confusions, slices, worst_rows

    texts = any(row.outcome.chrf is not None for row in rows)
    print("\nlowest chrF" if texts else "\nhighest losses")
    for row in worst_rows(rows):
        if row.outcome.chrf is not None:
            loss = "" if row.loss is None else f"  loss {row.loss:.4f}"
            print(f"  {_location(row)}  chrF {row.outcome.chrf:.1f}{loss}")
            for text in (row.input, str(row.outcome.target), str(row.outcome.prediction)):
                print(f"    {shortened(visible(text), WIDTH - 4)}")
            continue
        print(f"  {_location(row)}  loss {row.loss:.4f}  {_difference(row)}")
        print(f"    {shortened(visible(row.input), WIDTH - 4)}")
    for title, table in (("most frequent confusions", confusions(rows)), ("slices", slices(rows))):
        if table.rows:
            print(f"\n{title}\n{aligned(table, limit=MAX_LABEL + 4)}")
    print()


def errors_as_json(rows: Sequence[OutcomeRow]) -> dict[str, Any]:
    """Return the same as a JSON object."""
    from regard.metrics.error_analysis import confusions, slices, worst_rows

    tables = {"confusions": confusions(rows), "slices": slices(rows)}
    plain = {
        name: [
            {column: None if isinstance(cell, float) and math.isnan(cell) else cell for column, cell in row.items()}
            for row in table_as_json(table)
        ]
        for name, table in tables.items()
    }
    return {"worst": [row_record(row) for row in worst_rows(rows)], **plain}


def _location(row: OutcomeRow) -> str:
    """Return the name of the file and the line, and the token or its number."""
    name = shortened(Path(row.where).name, MAX_LABEL)
    place = row.token if row.token is not None else row.position
    return name if place is None else f"{name}  {shortened(str(place), MAX_LABEL)}"


def _difference(row: OutcomeRow) -> str:
    """Return the target and the prediction, with its probability."""
    target, prediction = (
        shortened(f"{value:.6g}" if isinstance(value, float) else visible(value), MAX_LABEL)
        for value in (row.outcome.target, row.outcome.prediction)
    )
    p = "" if row.outcome.probability is None else f" ({row.outcome.probability:.2f})"
    return f"{target} → {prediction}{p}"

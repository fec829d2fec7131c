"""Evaluation tables as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.core.task import MetricTable

MAX_NAME = 16  # characters of a name in a table


def table_as_json(table: MetricTable) -> object:
    """Return a square table as its names and rows of counts, any other table as one object per row."""
    if table.square:
        return {"names": list(table.columns[1:]), "counts": [list(row[1:]) for row in table.rows]}
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def aligned(table: MetricTable, *, decimals: int = 4) -> str:
    """Return the table as text with aligned columns: names to the left, numbers to the right."""
    lines = [list(table.columns)]
    lines += [
        [f"{cell:.{decimals}f}" if isinstance(cell, float) else _short(cell) for cell in row] for row in table.rows
    ]
    lines[0] = [_short(name) for name in lines[0]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _short(cell: str | float) -> str:
    text = f"{cell:,}" if isinstance(cell, int) else str(cell)
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"

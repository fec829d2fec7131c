"""Tables of an evaluation as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.core.task import MetricTable

MOST_LETTERS = 16  # of a name


def table_as_json(table: MetricTable) -> object:
    """A square as its names and rows of counts, any other table as an object a row."""
    if table.square:
        return {"names": list(table.columns[1:]), "counts": [list(row[1:]) for row in table.rows]}
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def aligned(table: MetricTable, *, decimals: int = 4) -> str:
    """Columns side by side: names to the left, numbers to the right."""
    lines = [list(table.columns)]
    lines += [
        [f"{each:.{decimals}f}" if isinstance(each, float) else _short(each) for each in row] for row in table.rows
    ]
    lines[0] = [_short(name) for name in lines[0]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _short(cell: str | float) -> str:
    told = f"{cell:,}" if isinstance(cell, int) else str(cell)
    return told if len(told) <= MOST_LETTERS else told[: MOST_LETTERS - 1] + "…"

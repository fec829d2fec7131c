"""Tables of metrics as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.core.untrusted_files import shortened

if TYPE_CHECKING:
    from regard.core.task import MetricTable

MAX_NAME = 16  # characters of a name in a table


def table_as_json(table: MetricTable) -> Any:
    """Return a square table as its names and rows of counts, any other table as one object per row."""
    if table.square:
        return {"names": list(table.columns[1:]), "counts": [list(row[1:]) for row in table.rows]}
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def aligned(table: MetricTable, *, decimals: int = 4, limit: int = MAX_NAME) -> str:
    """Return the table as text with aligned columns: names to the left, numbers to the right.

    Args:
        table: the table.
        decimals: the digits after the point.
        limit: the maximum number of characters of a name.
    """
    lines = [[_short(name, limit) for name in table.columns]]
    lines += [
        [f"{cell:.{decimals}f}" if isinstance(cell, float) else _short(cell, limit) for cell in row]
        for row in table.rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def visible(text: str) -> str:
    """Return the text on one line; white space alone, such as a token, in quotes."""
    return " ".join(text.split()) or (repr(text) if text else "")


def _short(cell: str | float, limit: int) -> str:
    return shortened(f"{cell:,}" if isinstance(cell, int) else visible(str(cell)), limit)

"""Files of predictions: one row for each target of an evaluation, as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.atomic_files import write_bytes_atomically
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.core.outcomes import OutcomeRow

COLUMNS = (
    "location", "example", "position", "token", "input", "length", "target", "prediction", "probability",
    "target_probability", "loss", "error", "rank", "output", "log_probability", "exact", "chrf",
)  # fmt: skip
ROWS = (".csv", ".jsonl")
DIGITS = 9  # significant digits, enough for single precision
FORMULA = re.compile(r"[=+\-@\t\r]")  # first characters that make a spreadsheet compute a cell
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def require_prediction_file(path: Path) -> None:
    """Raise ConfigError unless the name ends in .csv or .jsonl."""
    if path.suffix not in ROWS:
        help = "name a .csv or a .jsonl file: -o predictions.csv"
        raise ConfigError("predictions cannot be written in this format", where=f"--output {path}", help=help)


def write_predictions(rows: Sequence[OutcomeRow], path: Path) -> None:
    """Write the rows in the format that the name of the file states."""
    records = [row_record(row) for row in rows]
    write_bytes_atomically(path, (_as_csv(records) if path.suffix == ".csv" else _as_json_lines(records)).encode())


def row_record(row: OutcomeRow) -> dict[str, Any]:
    """Return the cells of a row that have a value, by ``COLUMNS``."""
    cells = row._asdict() | row.outcome._asdict() | {"location": row.where, "error": row.outcome.error}
    return {name: _rounded(cells[name]) for name in COLUMNS if cells[name] is not None}


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _as_csv(records: Sequence[dict[str, Any]]) -> str:
    """Return the records under the columns that have a value in any of them."""
    used = {name for record in records for name in record}
    file = StringIO()
    writer = csv.DictWriter(file, [name for name in COLUMNS if name in used], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in record.items()} for record in records)
    return file.getvalue()


def _harmless(value: Any) -> Any:
    """Return a cell that spreadsheets show as text: a text that begins like a formula gets an apostrophe in front."""
    is_formula = isinstance(value, str) and FORMULA.match(value) and NUMBER.fullmatch(value) is None
    return f"'{value}" if is_formula else value


def _as_json_lines(records: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)

"""Columns of Parquet files, read with ``pyarrow`` (the extra ``tables``) in memory and time bounded by the file size.

Repeated values take almost no bytes in this format: a column of a billion equal texts fits into 600 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.installation import extra_command
from regard.data.foreign_errors import foreign_errors
from regard.data.parquet_pages import pages
from regard.data.text_files import refuse_pipe
from regard.errors import ConfigError, DataError

DAMAGED = "the Parquet file is damaged"
ROWS = 1024  # in memory at once
BATCH = 1 << 25  # bytes of the texts of these rows
# Limits on the columns that are read: values, bytes of pages, and characters of cells. Each is the larger of a number
# that is always allowed and a number per byte of the file.
FREE_VALUES, VALUES_PER_BYTE = 1 << 20, 64
FREE_BYTES, BYTES_PER_BYTE = 1 << 26, 100
FREE_CHARACTERS, CHARACTERS_PER_BYTE = 1 << 28, 100


class _Cost(NamedTuple):
    """Cost of a column chunk: values, unpacked bytes of its pages, and the longest value that may be repeated."""

    values: int
    size: int
    repeated: int


class ParquetFile:
    """A Parquet file: the names of its columns, and the rows of some columns. DataError for an invalid file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parquet = _library()
        refuse_pipe(path)
        with foreign_errors("the file is not valid Parquet", path):
            self._file = self._parquet.ParquetFile(path)
            self.names: tuple[str, ...] = tuple(self._file.schema_arrow.names)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the cells of these columns, row by row: texts, numbers, None, and lists of these.

        Raises:
            DataError: The file is damaged, or unpacks to more than allowed for its size.
        """
        names, number, characters = list(dict.fromkeys(columns)), 0, 0
        limit = self._limit(FREE_CHARACTERS, CHARACTERS_PER_BYTE)
        batch_size, nested = self._plan(names)
        with foreign_errors(DAMAGED, self.path, line=lambda: number + 1):
            file = self._parquet.ParquetFile(self.path, read_dictionary=nested) if nested else self._file
            for batch in file.iter_batches(batch_size=batch_size, columns=names):
                cells = {name: _cells(batch.column(name)) for name in names}
                for row in zip(*(cells[name] for name in columns), strict=True):
                    number += 1
                    characters += sum(_characters(cell) for cell in row)
                    if characters > limit:
                        raise self._too_large(f"{limit:,} characters in its cells")
                    yield row

    def _plan(self, columns: Sequence[str]) -> tuple[int, list[str]]:
        """Return the rows per batch, and the columns inside lists whose texts are read as dictionary indices."""
        with foreign_errors(DAMAGED, self.path):
            costs = [(path, self._cost(group, position)) for group, position, path in self._chunks(columns)]
        values, size = sum(cost.values for _, cost in costs), sum(cost.size for _, cost in costs)
        if values > (limit := self._limit(FREE_VALUES, VALUES_PER_BYTE)):
            raise self._too_large(f"{limit:,} values in the columns that are read")
        if size > (limit := self._limit(FREE_BYTES, BYTES_PER_BYTE)):
            raise self._too_large(f"{limit:,} bytes in the columns that are read")
        # A batch has whole rows, and the list of one row may have all values: the batch size bounds flat columns only.
        repeated = max((cost.repeated for path, cost in costs if path in columns), default=0)
        nested = {path for path, cost in costs if path not in columns and cost.repeated * cost.values > BATCH}
        return max(1, min(ROWS, BATCH // max(repeated, 1))), sorted(nested)

    def _chunks(self, columns: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield the row group, the position in it, and the schema path of each column chunk."""
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            for position in range(metadata.num_columns):
                path = metadata.row_group(group).column(position).path_in_schema
                if any(path == column or path.startswith(f"{column}.") for column in columns):
                    yield group, position, path

    def _cost(self, group: int, position: int) -> _Cost:
        chunk = self._file.metadata.row_group(group).column(position)
        starts = [chunk.data_page_offset, *([chunk.dictionary_page_offset] if chunk.has_dictionary_page else [])]
        size = repeated = 0
        limit = self._limit(FREE_BYTES, BYTES_PER_BYTE)
        with self.path.open("rb") as file:
            for page in pages(file, min(start for start in starts if start), chunk.num_values):
                size += page.size
                repeated = max(repeated, page.size if page.repeats else 0)
                if size > limit:
                    break
        return _Cost(chunk.num_values, size, repeated)

    def _limit(self, free: int, per_byte: int) -> int:
        return max(free, per_byte * self.path.stat().st_size)

    def _too_large(self, what: str) -> DataError:
        return DataError(
            f"the file has more than {what}",
            where=str(self.path),
            why=f"that is the limit for a file of {self.path.stat().st_size:,} bytes",
            help="save the columns as a .csv or .jsonl",
        )


def _cells(array: Any) -> list[Any]:
    """Return the values of an array; each text of a dictionary is one object, regardless of how often it occurs."""
    kind = str(array.type)
    if kind.startswith("dictionary"):
        texts = array.dictionary.to_pylist()
        return [None if number is None else texts[number] for number in array.indices.to_pylist()]
    if "dictionary" in kind and kind.startswith(("list", "large_list")):
        flat, ends = _cells(array.values), array.offsets.to_pylist()
        valid = array.is_valid().to_pylist()
        spans = zip(valid, ends, ends[1:], strict=False)
        return [flat[begin:end] if is_valid else None for is_valid, begin, end in spans]
    values: list[Any] = array.to_pylist()
    return values


def _characters(cell: Any) -> int:
    return sum(map(_characters, cell)) if isinstance(cell, list) else len(cell) if isinstance(cell, str) else 8


def _library() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        what, help = "Parquet files need pyarrow", extra_command("tables")
        raise ConfigError(what, why="it is not installed", help=help) from error
    return pyarrow.parquet

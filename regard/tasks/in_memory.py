"""Data that a program holds, written as files that training reads: tables, lists, pairs, arrays and graphs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import write_array

from regard.core.columns import Columns, columns_of, is_table, require_distinct, write_rows
from regard.core.wording import pluralize
from regard.errors import DataError

FORMS = (
    "pass names of files, a table, a list of texts or of pairs, two lists, or arrays; "
    "docs/reference/python-training.md lists the forms"
)
OF_GRAPHS = ("nodes", "links")  # tasks on one graph
Scalar = str | int | float | bool | None


def is_name(value: Any) -> bool:
    """Return whether a value names a file, a pattern of files, a folder or a recipe."""
    return isinstance(value, str | PathLike)


def write_data(values: Sequence[Any], folder: Path, part: str, task: str | None = None) -> list[Path]:
    """Write the data of a part as files, and return these.

    Args:
        values: one or two objects, see ``docs/reference/python-training.md``.
        folder: the folder for the files.
        part: ``train`` or ``valid``, the name of the files.
        task: the task if it is known; it decides whether pairs of texts have labels or translations.

    Raises:
        DataError: for objects of another form, and for values that a file cannot hold.
    """
    try:
        return _written(values, folder, part, task)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # of objects of the program
        raise DataError("the data cannot be written as files", where=part, why=str(error)[:200], help=FORMS) from error


def _written(values: Sequence[Any], folder: Path, part: str, task: str | None) -> list[Path]:
    if len(values) == 1 and is_table(values[0]):
        return [_write_table(values[0], folder / part)]
    if len(values) == 2 and all(map(is_table, values)):
        return [_write_csv(columns_of(table), folder / f"{part}-{name}.csv")
                for table, name in zip(values, ("nodes", "edges"), strict=True)]  # fmt: skip
    if len(values) == 2:
        return [_write_two(values, folder / part, task)]
    (value,) = values if len(values) == 1 else (None,)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and 1 <= value.ndim <= 3:
        series = value.reshape(1, len(value), -1) if value.ndim < 3 else value
        return [_write_arrays({"x": series}, folder / part)]
    items = _items(value)
    if items and all(isinstance(item, str) for item in items):
        return [_write_texts(items, folder / part)]
    if items and all(isinstance(item, Mapping) for item in items):
        names = dict.fromkeys(name for item in items for name in item)
        return [_write_table({name: [item.get(name) for item in items] for name in names}, folder / part)]
    if items and all(isinstance(item, list | tuple) and len(item) == 2 for item in items):
        return [_write_two([*zip(*items, strict=True)], folder / part, task)]
    types = ", ".join(type(value).__name__ for value in values)
    raise DataError(f"cannot train on {types or 'no data'}", where=part, help=FORMS)


def _items(value: Any) -> list[Any]:
    """Return the texts, rows or pairs of an object; none if it has anything else, which may have no end."""
    items: list[Any] = []
    for item in value if isinstance(value, Iterable) else ():
        if not isinstance(item, str | Mapping | list | tuple):
            return []
        items.append(item)
    return items


def _write_table(table: Any, file: Path) -> Path:
    """Write a table: arrays of several dimensions or lengths as .npz, numbers and dates as CSV, others as JSON."""
    if isinstance(table, Mapping) and any(isinstance(array, np.ndarray) for array in table.values()):
        require_distinct(table)
        arrays = {str(name): np.asarray(array) for name, array in table.items()}
        if len({len(array) for array in arrays.values()}) > 1 or any(array.ndim > 1 for array in arrays.values()):
            return _write_arrays(arrays, file)
    columns = columns_of(_with_dates(table))
    numeric = [all(cell is None or isinstance(cell, int | float) for cell in cells) for cells in columns.values()]
    dates = [all(not isinstance(cell, Scalar | list | tuple | dict) for cell in cells) for cells in columns.values()]
    if all(one or other for one, other in zip(numeric, dates, strict=True)):
        return _write_csv(columns, file.with_suffix(".csv"))
    write_rows(file.with_suffix(".jsonl"), columns)
    return file.with_suffix(".jsonl")


def _with_dates(table: Any) -> Any:
    """Return a table of pandas with the dates of its index as its first column."""
    if getattr(getattr(table, "index", None), "inferred_type", "") in ("datetime64", "period"):
        return table.rename_axis(index=table.index.name or "date").reset_index()
    return table


def _write_csv(columns: Columns, file: Path) -> Path:
    with file.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([[*columns], *zip(*columns.values(), strict=True)])
    return file


def _write_arrays(arrays: Mapping[str, Any], file: Path) -> Path:
    with ZipFile(file.with_suffix(".npz"), "w") as members:  # ``np.savez`` has arguments, which names may equal
        for name, array in arrays.items():
            with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                write_array(member, np.asanyarray(_plain_text(array)), allow_pickle=False)
    return file.with_suffix(".npz")


def _plain_text(array: Any) -> Any:
    """Return an array of objects as one of texts, which can be saved without pickle."""
    return array.astype(str) if array.dtype == object else array


def _write_texts(texts: Sequence[str], file: Path) -> Path:
    """Write texts one per line, or as JSON lines if some have several lines."""
    if any(len(text.splitlines()) > 1 for text in texts):
        write_rows(file.with_suffix(".jsonl"), {"text": list(texts)})
        return file.with_suffix(".jsonl")
    with file.with_suffix(".txt").open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(f"{text}\n" for text in texts)
    return file.with_suffix(".txt")


def _write_two(pair: Sequence[Any], file: Path, task: str | None) -> Path:
    """Write inputs and their outputs: images or series with labels, texts with labels or translations."""
    if task in OF_GRAPHS:
        why = "a graph has a table of nodes, with their features, and a table of edges"
        raise DataError("pairs are not a graph", where=file.name, why=why, help="pass two tables, or a dict of arrays")
    inputs, outputs = pair
    if len(inputs) != len(outputs):
        what = f"{pluralize(len(inputs), 'input')} and {pluralize(len(outputs), 'output')}"
        raise DataError(f"{what} do not belong together", where=file.name)
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "biuf":
        return _write_arrays(_labeled_arrays(inputs, np.asarray(_all_known(outputs, file.name))), file)
    columns = columns_of({"input": inputs, "output": outputs})
    first, second = columns["input"], columns["output"]
    lists = all(isinstance(cell, list | tuple) for cell in second)
    if lists and all(isinstance(cell, list | tuple) for cell in first):
        names = ("tokens", "tags")
    else:
        names = ("source", "target") if _are_translations(second, task) else ("text", "label")
    write_rows(file.with_suffix(".jsonl"), dict(zip(names, (first, second), strict=True)))
    return file.with_suffix(".jsonl")


def _all_known(outputs: Sequence[Any], where: str) -> Sequence[Any]:
    """Return the outputs of arrays. DataError if one is missing, which an array of texts would hold as a text."""
    cells = columns_of({"output": outputs})["output"]
    if None in cells:
        raise DataError(f"input {cells.index(None) + 1} has no output", where=where, help="remove the input")
    return outputs


def _labeled_arrays(inputs: Any, labels: Any) -> dict[str, Any]:
    """Return the arrays of images (examples, height, width[, channels]) or series (examples, time[, channels])."""
    if inputs.ndim == 4 or inputs.dtype == np.uint8:
        return {"images": inputs, "label": labels}
    series = inputs if inputs.ndim == 3 else inputs[..., None]
    if series.ndim != 3:
        what = f"the inputs have {pluralize(inputs.ndim, 'dimension')}"
        raise DataError(what, help="images: (examples, height, width); series: (examples, time, channels)")
    offsets = np.arange(len(series) + 1) * series.shape[1]
    return {"frames": series.reshape(-1, series.shape[2]), "offsets": offsets, "label": labels}


def _are_translations(outputs: Sequence[Any], task: str | None) -> bool:
    """Return whether texts are translations rather than labels: most of them occur once."""
    if task is not None:
        return task == "translation"
    return all(isinstance(text, str) for text in outputs) and 2 * len({*outputs}) > len(outputs)

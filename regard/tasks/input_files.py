"""Inputs of a predictor from Python objects and from files: contents, rows or lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.core.predictor import Predictor
from regard.core.predictor_interface import ReadsFiles
from regard.core.untrusted_files import read_bytes
from regard.data.file_names import named_files
from regard.data.foreign_errors import unreadable
from regard.data.text_files import read_lines
from regard.runs.run_folder import RunFolder
from regard.tasks.prediction import read_inputs
from regard.tasks.row_inputs import has_rows, read_row_inputs

MAX_BYTES = 1 << 30  # of a file that is one input


def inputs_of(
    model: Predictor[Any], run: str | Path, inputs: Any, column: str | Sequence[str] | None, *, embedding: bool = False
) -> list[Any]:
    """Return the inputs of a call, or those in the files that it names, as a list.

    Args:
        model: the predictor.
        run: its run folder.
        inputs: the argument of a call, or paths.
        column: the columns of a table; None for those of training.
        embedding: whether the inputs are for ``Predictor.embed``.
    """
    columns = [column] if isinstance(column, str) else list(column or ())
    if not (paths := paths_in(inputs)):
        return model.listed(inputs, columns, embedding=embedding)
    files = [file for path in paths for file in named_files(path)]
    opened = RunFolder.open(Path(run))
    return [input for file in files for input in _file_inputs(model, opened, file, columns, embedding=embedding)]


def _file_inputs(
    model: Predictor[Any], run: RunFolder, file: Path, columns: Sequence[str], *, embedding: bool
) -> Iterator[Any]:
    """Yield the inputs of a file: its contents, its rows or its lines."""
    if isinstance(model, ReadsFiles) and file.name.lower().endswith(tuple(model.suffixes) or ("\0",)):
        try:
            contents = read_bytes(file, MAX_BYTES)
        except OSError as error:
            raise unreadable(file, error) from error
        yield model.read_file(contents, str(file))
        return
    rows = [*(read_row_inputs(run, file, columns) if has_rows(file) else _numbered(file))]
    names, lines = [name for name, _ in rows], [line for _, line in rows]
    read = model.read_for_embedding if embedding else None
    inputs, failure = read_inputs(model, lines, name=str(file), row_names=names, read=read)
    if failure is not None:
        raise failure
    yield from inputs


def _numbered(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the location and the text of each line."""
    for number, line in enumerate(read_lines(file), start=1):
        yield f"{file}:{number}", line


def paths_in(inputs: Any) -> list[Path]:
    """Return the paths in an argument; [] if it holds inputs."""
    if isinstance(inputs, Path):
        return [inputs]
    return list(inputs) if isinstance(inputs, list) and inputs and all(isinstance(one, Path) for one in inputs) else []

"""Inputs that are the contents of files, such as sounds and images: each named file is one input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.commands.output import open_output
from regard.commands.progress import progress
from regard.core.file_lines import file_line
from regard.core.predictor_interface import ReadsFiles, interface_of
from regard.errors import ConfigError, DataError

CHUNK = 16  # files predicted together
MAX_BYTES = 1 << 30  # of a file


def are_inputs(model: Any, files: Sequence[Path]) -> bool:
    """Return whether each of these files is an input of the model, by the endings of their names."""
    suffixes = model.suffixes if isinstance(model, ReadsFiles) else ()
    return bool(files) and all(file.name.lower().endswith(suffixes) for file in files)


def read_input_file(model: ReadsFiles, file: Path) -> Any:
    """Return the input in a file, which the user named. DataError if it cannot be read."""
    return model.read_file(_contents(file), str(file))


def line_of_file(model: Any, text: str) -> str:
    """Return the line of an input: the contents of the file that a text names, otherwise the text.

    Raises DataError if the file cannot be read.
    """
    file = Path(text)
    if not are_inputs(model, [file]) or not file.is_file():
        return text
    model.read_file(contents := _contents(file), str(file))  # an error names the file
    return file_line(interface_of(model).form.kind, contents)


def _contents(file: Path) -> bytes:
    from regard.core.untrusted_files import read_bytes
    from regard.data.foreign_errors import unreadable

    try:
        return read_bytes(file, MAX_BYTES)
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise DataError("the file is too large", where=str(file), why=str(error)) from error


def print_file_predictions(
    model: Any, files: Sequence[Path], settings: Mapping[str, Any], *, as_json: bool, output: str | None = None
) -> None:
    """Print one line for each file, in order. Files before one that cannot be read are predicted first."""
    from regard.tasks.prediction import predict_lines

    if output is not None:
        what = "-o is for files of lines and for tables"
        raise ConfigError(what, where="-o", help="redirect the output, or write a table of paths: path\\nseven.wav")
    with (
        open_output(None, None, job={}, resume=False) as lines,
        progress("predicting", len(files), unit="files") as advance,
    ):
        for inputs, error in _chunks(model, files):
            for line in predict_lines(model, inputs, settings, json=as_json):
                lines.write(line)
            if error is not None:
                raise error
            advance(len(inputs))


def _chunks(model: Any, files: Sequence[Path]) -> Iterator[tuple[list[Any], DataError | None]]:
    """Yield the inputs of a few files, and the error of the file that follows them."""
    for start in range(0, len(files), CHUNK):
        inputs = list[Any]()
        for file in files[start : start + CHUNK]:
            try:
                inputs.append(read_input_file(model, file))
            except DataError as error:
                yield inputs, error
                return
        yield inputs, None

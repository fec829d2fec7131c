"""Series of frames from .npz files as the input of a classifier.

A file has the arrays ``frames`` (positions, numbers), of all examples one after the other, ``offsets`` (examples + 1,),
where each example begins and the last one ends, and ``label`` (examples,), names or numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.task import Card
from regard.core.wording import pluralize
from regard.data.column_names import part_of
from regard.data.file_names import named_files
from regard.data.foreign_errors import foreign_errors
from regard.data.npz_files import read_arrays
from regard.data.rows import Column, Row, form_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import DataError
from regard.fields.frames import Frames
from regard.models.input import FrameInput, Input
from regard.runs.run_config import Proposal
from regard.tasks.classification.automatic_config import training_settings
from regard.tasks.classification.inputs import ClassifierInput
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.found_files import describe_columns, found_corpus, held_out_parts

FRAMES, OFFSETS, LABEL = "frames", "offsets", "label"
SMALL, CLASSES = 20_000, 20  # examples of a small file; numbers of more values are no classes
MAX_LENGTH = 4096  # frames of an example that the automatic choice does not cut


def read_examples(path: Path, *, labeled: bool, part: tuple[str, str] | None = None) -> Iterator[Row]:
    """Yield the frames of each example, an array, and its label.

    Args:
        path: a .npz file; the row's number is that of the example, from 1.
        labeled: whether rows have labels.
        part: an array of texts (examples,), and the text of the examples to yield.

    Raises:
        DataError: the arrays do not fit together, or reading them takes more memory than a file of its size may.
    """
    if form_of(path) != "npz":
        raise DataError(
            "frames are read from .npz files", where=str(path), help="save them by numpy.savez: docs/how-to/classify.md"
        )
    arrays = read_arrays(path)
    frames, offsets = _array(arrays, FRAMES, "iuf", 2, path), _array(arrays, OFFSETS, "iu", 1, path).astype(np.int64)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(frames) or (np.diff(offsets) <= 0).any():
        why = f"they should rise from 0 to {len(frames):,}, the number of frames, one for each example and the end"
        if len(wrong := np.flatnonzero(np.diff(offsets) <= 0)):
            why += f"; example {wrong[0] + 1} goes from {offsets[wrong[0]]} to {offsets[wrong[0] + 1]}"
        raise DataError(f"the array {OFFSETS} does not cut the frames", where=str(path), why=why)
    names = ([LABEL] if labeled else []) + ([part[0]] if part else [])
    cells = {name: _cells(arrays, name, len(offsets) - 1, path) for name in names}
    for number, (start, end) in enumerate(pairwise(offsets.tolist())):
        texts: dict[Any, Any] = {name: cells[name][number] for name in names}
        row = Row({FRAMES: frames[start:end], **texts}, path, number + 1)
        if part is None or part_of(texts[part[0]], row.where) == part[1]:
            yield row


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, kinds: str, dimensions: int, path: Path) -> Any:
    """Return an array. Raises DataError if it is missing, or of another type or shape."""
    array = arrays.get(name)
    if array is None:
        why = f"the file has {', '.join(arrays) or 'none'}"
        raise DataError(f"the array {name} is missing", where=str(path), why=why, help="docs/how-to/classify.md")
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        why = f"it has the type {array.dtype} and {pluralize(array.ndim, 'dimension')}, not {dimensions}"
        raise DataError(f"the array {name} cannot be used", where=str(path), why=why, help="docs/how-to/classify.md")
    return array


def _cells(arrays: Mapping[str, npt.NDArray[Any]], name: str, examples: int, path: Path) -> list[str]:
    """Return the texts or numbers of an array, one for each example, as texts."""
    array = _array(arrays, name, "iufU", 1, path)
    if len(array) != examples:
        what = f"the array {name} has {pluralize(len(array), 'entry', 'entries')} for {pluralize(examples, 'example')}"
        raise DataError(what, where=str(path), why=f"{OFFSETS} has one entry more than there are examples")
    with foreign_errors(f"the array {name} is damaged", path):
        cells = [str(cell) for cell in array.tolist()]
        "".join(cells).encode()
    return cells


def _rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[Row]:
    for corpus in corpora:
        for path in named_files(corpus.source):
            for row in read_examples(path, labeled=True, part=corpus.part):
                if falls_into(_key(row), corpus.share):
                    yield row


def _key(row: Row) -> str:
    """Return the frames as a text, by whose hash examples are dealt to parts."""
    frames: Any = row.cells[FRAMES]
    return str(frames.tobytes().decode("latin-1"))


def _make_field(data: Any, model: Any = None) -> Frames:
    return Frames((FRAMES,), max_length=data.max_length)


def _network(model: Any, spec: Mapping[str, int]) -> Input:
    return FrameInput(spec["channels"], model.encoder.embedding_width)


def _row_inputs(config: Any, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    field = _make_field(config.data)
    return ((row.where, field.text(field.value(row))) for row in read_examples(path, labeled=False))


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    field, answer = _make_field(data), make_answer(data)
    for row in _rows(data, corpora):
        yield field.text(field.value(row)), "\n".join(sorted(answer.value(row))), row.where


def _propose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """Choose a classifier for .npz files that have frames and labels."""
    corpus = found_corpus(files)
    if corpus is None or corpus.head.form != "npz" or FRAMES not in corpus.head.names:
        return None
    labels, lengths = [], []
    for file in (file for name in files for file in named_files(name)):
        for row in read_examples(file, labeled=True):
            labels.append(str(row.cells[LABEL]))
            lengths.append(len(row.cells[FRAMES]))
    numbers = len({*labels}) > CLASSES and all("." in label for label in labels)
    kind, different = ("number", "numbers") if numbers else ("class", pluralize(len({*labels}), "class", "classes"))

    def keys(corpus: FilesConfig) -> Iterator[str]:
        return map(_key, _rows(None, [corpus]))

    parts, held_out = held_out_parts(corpus, valid, examples="series", hashed="their numbers", keys=keys)
    longest, small = max(lengths), len(lengths) <= SMALL
    settings = training_settings(given, epochs=60 if small else 10, early_stopping=10)
    if "valid" not in parts:
        settings.pop("early_stopping", None)
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, "input": FRAMES, "label_kind": kind, "max_length": min(longest, MAX_LENGTH)},
        "model": {"preset": "tiny" if small else "small", "pooling": "attention"},
        "train": settings,
    }
    size = f"{pluralize(len(lengths), 'series', 'series')} of up to {pluralize(longest, 'frame')}, {different}"
    what = f"{size}: a classifier (task.kind = classification)"
    return Proposal(config, [what, held_out, *describe_columns(corpus, {FRAMES: [FRAMES, OFFSETS], LABEL: [LABEL]})])


INPUT = ClassifierInput(
    field=_make_field,
    network=_network,
    rows=_rows,
    row_inputs=_row_inputs,
    lint_rows=_lint_rows,
    lint_unit=None,
    propose=_propose,
    card=Card("time-series-classification", "print(model([[[…], […]]])[0])", "classify {run} examples.npz"),
)

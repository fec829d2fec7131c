"""Series of frames from .npz files as the input of a classifier.

A file has three arrays: ``frames`` (positions, numbers), the concatenated examples; ``offsets`` (examples + 1,), the
start of each example and the end of the last one; ``label`` (examples,), names or numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.baselines.frames import FrameBaseline
from regard.core.task import Card
from regard.core.wording import pluralize
from regard.data.column_names import part_of
from regard.data.file_names import named_files
from regard.data.npz_examples import OFFSETS, example_bounds, example_cells, typed_array
from regard.data.npz_files import read_arrays
from regard.data.rows import Column, Row, form_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import DataError
from regard.fields.frames import Frames
from regard.models.frame_input import frame_input
from regard.models.input import Input
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import training_settings
from regard.tasks.classification.automatic_config import ADAMW
from regard.tasks.classification.inputs import ClassifierInput
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.detect_files import describe_columns, detect_corpus, held_out_parts, wide_reasons

FRAMES, LABEL = "frames", "label"
SMALL, CLASSES = 20_000, 20  # examples of a small file; maximum number of values of numeric class labels
MAX_LENGTH = 4096  # maximum length that the automatic choice sets, in frames


def read_examples(path: Path, *, labeled: bool, part: tuple[str, str] | None = None) -> Iterator[Row]:
    """Yield the frames of each example, as an array, and its label.

    Args:
        path: the .npz file; row numbers are numbers of examples, from 1.
        labeled: whether rows have labels.
        part: the name of an array of texts (examples,), and the text of the examples to yield.

    Raises:
        DataError: if the arrays do not match, or reading them takes more memory than a file of this size may.
    """
    if form_of(path) != "npz":
        raise DataError(
            "frames are read from .npz files only",
            where=str(path),
            help="save them with numpy.savez: docs/how-to/classify.md",
        )
    arrays = read_arrays(path)
    frames = typed_array(arrays, FRAMES, "iuf", 2, path)
    offsets = example_bounds(arrays, FRAMES, len(frames), path)
    names = ([LABEL] if labeled else []) + ([part[0]] if part else [])
    cells = {name: example_cells(arrays, name, len(offsets) - 1, path) for name in names}
    for number, (start, end) in enumerate(pairwise(offsets.tolist())):
        texts: dict[Any, Any] = {name: cells[name][number] for name in names}
        row = Row({FRAMES: frames[start:end], **texts}, path, number + 1)
        if part is None or part_of(texts[part[0]], row.where) == part[1]:
            yield row


def _rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[Row]:
    for corpus in corpora:
        for path in named_files(corpus.source):
            for row in read_examples(path, labeled=True, part=corpus.part):
                if falls_into(_key(row), corpus.share):
                    yield row


def _key(row: Row) -> str:
    """Return the frames as a text, by whose hash examples are divided into parts."""
    frames: Any = row.cells[FRAMES]
    return str(frames.tobytes().decode("latin-1"))


def _make_field(data: Any, model: Any = None) -> Frames:
    return Frames((FRAMES,), max_length=data.max_length)


def _network(model: Any, spec: Mapping[str, int]) -> Input:
    return frame_input(spec["channels"], model.encoder.embedding_width, model.encoder.input)


def _row_inputs(config: Any, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    field = _make_field(config.data)
    return ((row.where, field.text(field.value(row))) for row in read_examples(path, labeled=False))


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    field, answer = _make_field(data), make_answer(data)
    for row in _rows(data, corpora):
        yield field.text(field.value(row)), "\n".join(sorted(answer.value(row))), row.where


def _propose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a classifier for .npz files with frames and labels; else None."""
    corpus = detect_corpus(files, lambda common: common.head.form == "npz" and FRAMES in common.head.names)
    if corpus is None:
        return None
    labels, lengths = [], []
    for file in (file for name in files for file in named_files(name)):
        for row in read_examples(file, labeled=True):
            labels.append(str(row.cells[LABEL]))
            lengths.append(len(row.cells[FRAMES]))
    numbers = len({*labels}) > CLASSES and all("." in label for label in labels)
    kind, values = ("number", "numbers") if numbers else ("class", pluralize(len({*labels}), "class", "classes"))

    def keys(corpus: FilesConfig) -> Iterator[str]:
        return map(_key, _rows(None, [corpus]))

    parts, held_out = held_out_parts(corpus, valid, examples="series", hashed="their content", keys=keys)
    longest, small = max(lengths), len(lengths) <= SMALL
    settings = training_settings(
        overrides, tokens=sum(lengths), epochs=40 if small else 10, optimizer=ADAMW, largest=2048,
        patience=10 if "valid" in parts else None,
    )  # fmt: skip
    wide = overrides.get("baseline", True)
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, "input": FRAMES, "label_kind": kind, "max_length": min(longest, MAX_LENGTH)},
        "model": {"preset": "tiny" if small else "small", "pooling": "attention", "wide": wide},
        "train": settings,
    }
    size = f"{pluralize(len(lengths), 'series', 'series')} of up to {pluralize(longest, 'frame')}, {values}"
    what = f"{size} → classification"
    described = describe_columns(corpus, {FRAMES: [FRAMES, OFFSETS], LABEL: [LABEL]})
    return Proposal(config, [what, held_out, *described, *wide_reasons(overrides)])


INPUT = ClassifierInput(
    field=_make_field,
    network=_network,
    rows=_rows,
    row_inputs=_row_inputs,
    lint_rows=_lint_rows,
    lint_unit=None,
    propose=_propose,
    card=Card("time-series-classification", "print(model([[[…], […]]])[0])", "classify {run} examples.npz"),
    baseline=lambda data: FrameBaseline(),
)

"""Images as the input of a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.baselines.pixels import PixelBaseline
from regard.core.task import Card
from regard.data.file_names import named_files
from regard.data.pictures import Picture, as_picture, picture_line
from regard.data.rows import Column, Row
from regard.data.shared_files import FilesConfig, falls_into
from regard.fields.image import Images
from regard.models.frame_input import FrameInput
from regard.models.input import Input
from regard.tasks.classification.choose_images import choose
from regard.tasks.classification.inputs import ClassifierInput
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.classification.picture_examples import LABEL, PictureExample, read_pictures

IMAGE = "image"


def _make_field(data: Any, model: Any = None) -> Images:
    patch = None if model is None else model.encoder.input.patch
    return Images((IMAGE,), data.image, patch=patch, max_length=data.max_length)


def _network(model: Any, spec: Mapping[str, int]) -> Input:
    return FrameInput(spec["channels"], model.encoder.embedding_width)


def _picture(data: Any, example: PictureExample) -> Picture:
    where = str(example.path) if isinstance(example.image, bytes) else example.where
    return as_picture(example.image, where).fitted(data.image.size, data.image.channels)


def _rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[Row]:
    for corpus in corpora:
        for path in named_files(corpus.source):
            for example in read_pictures(data, path, labeled=True, part=corpus.part):
                cells: dict[Any, Any] = {IMAGE: _picture(data, example), LABEL: example.label}
                if falls_into(split_key(cells[IMAGE]), corpus.share):
                    yield Row(cells, example.path, example.number)


def split_key(picture: Picture) -> str:
    """Return the text by whose hash examples are divided into parts."""
    return picture.contents.decode("latin-1")


def _row_inputs(config: Any, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    for example in read_pictures(config.data, path, labeled=False):
        yield example.where, picture_line(_picture(config.data, example))


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    answer = make_answer(data)
    for row in _rows(data, corpora):
        picture: Any = row.cells[IMAGE]
        yield picture_line(picture), "\n".join(sorted(answer.value(row))), row.where


INPUT = ClassifierInput(
    field=_make_field,
    network=_network,
    rows=_rows,
    row_inputs=_row_inputs,
    lint_rows=_lint_rows,
    lint_unit=None,
    propose=choose,
    card=Card("image-classification", "print(model([open('seven.png', 'rb').read()])[0])", "classify {run} seven.png"),
    baseline=lambda data: PixelBaseline(),
)

"""Images with labels: from a folder for each class, a table of paths, or a .npz file.

A .npz file has the arrays ``images`` (examples, height, width) or (examples, height, width, channels), and ``label``
(examples,). Pixels are integers of 8 bits or floats from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.column_names import part_of
from regard.data.image_files import SUFFIXES
from regard.data.labeled_files import LabeledFile, read_class_folders, read_contents, read_file_table
from regard.data.npz_examples import example_cells
from regard.data.npz_files import read_arrays
from regard.data.pictures import pixels_of
from regard.data.rows import Part, form_of
from regard.errors import DataError

LABEL, IMAGES = "label", "images"


class PictureExample(NamedTuple):
    """The bytes of an image file, or an array of pixels, with its label, and its file and row."""

    image: Any
    label: str | None
    path: Path
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


def labeled_files(data: Any, path: Path, *, labeled: bool, part: Part | None = None) -> Iterator[LabeledFile]:
    """Yield the image files of a folder or of a table."""
    if path.is_dir():
        return read_class_folders(path, SUFFIXES)
    label = data.label if data is not None and isinstance(data.label, str) else None
    return read_file_table(path, label=label, labeled=labeled, part=part)


def read_pictures(data: Any, path: Path, *, labeled: bool, part: Part | None = None) -> Iterator[PictureExample]:
    """Yield the images of a folder, a table or a .npz file. DataError, with the place, if one cannot be read."""
    if form_of(path) == "npz":
        yield from _npz_examples(path, labeled=labeled, part=part)
        return
    for number, file in enumerate(labeled_files(data, path, labeled=labeled, part=part), start=1):
        yield PictureExample(read_contents(file), file.label, file.path, number)


def _npz_examples(path: Path, *, labeled: bool, part: Part | None) -> Iterator[PictureExample]:
    arrays = read_arrays(path)
    images = arrays.get(IMAGES)
    if images is None or images.ndim not in (3, 4) or not images.size:
        why = (
            f"the arrays of the file are {', '.join(arrays)}" if images is None else f"it has the shape {images.shape}"
        )
        help = "save an array (examples, height, width): docs/how-to/classify-images.md"
        raise DataError(f"the array {IMAGES} is missing or has the wrong shape", where=str(path), why=why, help=help)
    pixels = pixels_of(images if images.ndim == 4 else images[..., None], str(path))
    names = [*([LABEL] if labeled else []), *(part[:1] if part else ())]
    cells = {name: example_cells(arrays, name, len(pixels), path) for name in names}
    for place, image in enumerate(pixels):
        where, texts = f"{path}:{place + 1}", {name: cells[name][place] for name in names}
        if part is None or part_of(texts[part[0]], where) == part[1]:
            yield PictureExample(image, texts.get(LABEL), path, place + 1)

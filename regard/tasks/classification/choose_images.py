"""Automatic choice of the config for images with labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import pluralize
from regard.data.file_names import named_files
from regard.data.image_files import SUFFIXES, image_size
from regard.data.image_geometry import default_patch, patch_grid
from regard.data.labeled_files import has_labeled_files
from regard.data.pictures import as_picture
from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import training_settings
from regard.tasks.classification.automatic_config import ADAMW
from regard.tasks.classification.class_parts import corpus_of, single_examples
from regard.tasks.classification.picture_examples import IMAGES, PictureExample, read_pictures
from regard.tasks.detect_files import held_out_parts, wide_reasons

SMALL = 20_000  # images of a small corpus
SAMPLED = 200  # images whose colors are read
LARGEST = 512  # height and width that the automatic choice sets at most
ANGLE = 10.0  # degrees
SHIFT = 0.08  # of the shorter side


class _Measured(NamedTuple):
    """Labels and sizes of all images, and whether some of them have colors."""

    labels: list[str | None]
    sizes: Counter[tuple[int, int]]
    colored: bool


def reads(path: Path) -> bool:
    """Return whether a file or a folder has images with labels, by its names."""
    return has_labeled_files(path, IMAGES, SUFFIXES)


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a classifier of images; None if these are other files."""
    corpus = corpus_of(files, valid, reads)
    if corpus is None:
        return None
    measured, set_keys = _measured(corpus.whole), overrides.get("data", {}).get("image", {})
    (height, width), common = measured.sizes.most_common(1)[0]
    factor = min(1.0, LARGEST / max(height, width))
    size, channels = (max(round(height * factor), 1), max(round(width * factor), 1)), 3 if measured.colored else 1
    patch = overrides.get("model", {}).get("encoder", {}).get("input", {}).get("patch") or default_patch(size)
    count, patches = len(measured.labels), math.prod(patch_grid(size, patch))
    options = {"size": list(size), "channels": channels, "shift": round(SHIFT * min(size), 1), "angle": ANGLE}
    options |= dict(set_keys)

    def keys(files: FilesConfig) -> Iterator[str]:
        for example in _read(files):
            picture = as_picture(example.image, example.where).fitted(size, channels)
            yield picture.contents.decode("latin-1")

    parts, held_out = corpus.parts or held_out_parts(
        corpus.detected, valid, examples="images", hashed="their content", keys=keys
    )
    small = count <= SMALL
    settings = training_settings(
        overrides, tokens=count * patches, epochs=60 if small else 20, optimizer=ADAMW, largest=4096,
        smallest=2 * patches, patience=15 if "valid" in parts else None,
    )  # fmt: skip
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, "input": "images", "max_length": max(patches, 1), "image": options},
        "model": {
            "preset": "tiny" if small else "small", "pooling": "attention", "encoder": {"input": {"patch": patch}},
            "wide": overrides.get("baseline", True),
        },
        "train": settings,
    }  # fmt: skip
    classes = pluralize(len({*measured.labels}), "class", "classes")
    reasons = [f"{pluralize(count, 'image')} of {size[1]} × {size[0]} pixels, {classes} → classification", held_out]
    if changed := count - (common if factor == 1 else 0):
        reasons.append(f"{pluralize(changed, 'image')} with another size → resized to {size[1]} × {size[0]} pixels")
    reasons += single_examples(measured.labels)
    reasons.append(f"patches of {patch} × {patch} pixels: {patches} of an image (model.encoder.input.patch)")
    moves = f"shifts of up to {options['shift']:g} pixels and rotations of up to {options['angle']:g}°"
    reasons.append(f"training: {moves}, drawn in each epoch (data.image)")
    return Proposal(config, [*reasons, *wide_reasons(overrides)])


def _read(files: FilesConfig) -> Iterator[PictureExample]:
    for path in named_files(files.source):
        yield from read_pictures(None, path, labeled=True, part=files.part)


def _measured(files: FilesConfig) -> _Measured:
    """Read the labels and the sizes of all images, the latter from their headers, and the colors of the first ones."""
    labels, sizes, colored = list[str | None](), Counter[tuple[int, int]](), False
    for number, example in enumerate(_read(files)):
        labels.append(example.label)
        whole = number < SAMPLED or not isinstance(example.image, bytes)
        picture = as_picture(example.image, str(example.path)) if whole else None
        colored |= picture is not None and picture.channels > 1
        size = image_size(example.image, str(example.path)) if picture is None else (picture.height, picture.width)
        sizes[size] += 1
    return _Measured(labels, sizes, colored)

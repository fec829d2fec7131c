"""Images from the bytes of files, by ``pillow`` (the extra ``images``); their size is checked before decoding."""

from __future__ import annotations

import io
import re
import struct
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.installation import extra_command
from regard.data.foreign_errors import foreign_errors
from regard.errors import ConfigError, DataError

SUFFIXES = (".png", ".pgm", ".ppm", ".jpg", ".jpeg")
MAX_PIXELS = 1 << 24  # 4,096 × 4,096
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
# Magic number, width and height of a PNM file, with comments between them.
PNM = re.compile(rb"P([1-6])(?:\s|#[^\n]{0,1000}\n){1,20}(\d{1,9})(?:\s|#[^\n]{0,1000}\n){1,20}(\d{1,9})\s")
OWN = re.compile(rb"P([56])\n(\d{1,5}) (\d{1,5})\n255\n")  # as ``write_pnm`` writes it

Pixels = npt.NDArray[np.uint8]  # (height, width, channels)


def read_image(contents: bytes, name: str) -> Pixels:
    """Return the pixels (height, width, 1 or 3) of a PNG, PGM, PPM or JPEG file. The format follows from the bytes.

    Args:
        contents: the bytes of the file.
        name: of the file, for messages; it is not opened.

    Raises:
        DataError: the file is of another format or damaged, or its header states more than ``MAX_PIXELS`` pixels.
        ConfigError: pillow is not installed.
    """
    height, width = image_size(contents, name)
    if not 0 < height * width <= MAX_PIXELS:
        why = f"its header states a size of {width:,} × {height:,}, and the limit is {MAX_PIXELS:,} pixels"
        raise DataError("cannot read the image", where=name, why=why, help="resize it")
    own = OWN.match(contents)
    if own is not None and len(contents) - own.end() == height * width * (channels := 1 if own[1] == b"5" else 3):
        return np.frombuffer(contents, np.uint8, offset=own.end()).reshape(height, width, channels)
    pillow = _library(name)
    with foreign_errors(f"cannot read the image {name}: it is damaged", None):
        with pillow.open(io.BytesIO(contents), formats=("PNG", "PPM", "JPEG")) as image:
            if image.size != (width, height):
                raise ValueError("its headers state different sizes")
            return _pixels(image)


def image_size(contents: bytes, name: str) -> tuple[int, int]:
    """Return the height and the width that the header of a file states. DataError for another format."""
    if contents.startswith(PNG) and contents[12:16] == b"IHDR" and len(contents) >= 24:
        width, height = struct.unpack(">II", contents[16:24])
        return height, width
    if contents.startswith(JPEG):
        size = _jpeg_size(contents)
        if size is not None:
            return size
    elif (header := PNM.match(contents[:4096])) is not None:
        return int(header[3]), int(header[2])
    why = "it does not begin as a PNG, PGM, PPM or JPEG file does" if contents else "the file is empty"
    raise DataError("cannot read the image", where=name, why=why, help="convert it to PNG")


def _jpeg_size(contents: bytes) -> tuple[int, int] | None:
    """Return the size in the first frame header of a JPEG file; None if it has no such header."""
    place = 2
    while place + 9 <= len(contents) and contents[place] == 0xFF:
        marker, length = contents[place + 1], int.from_bytes(contents[place + 2 : place + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # no tables, extensions or arithmetic codes
            height, width = struct.unpack(">HH", contents[place + 5 : place + 9])
            return height, width
        place += 1 if marker == 0xFF else 2 + length
    return None


def _pixels(image: Any) -> Pixels:
    """Return the pixels of an image of pillow: one channel for gray images, else three."""
    if image.mode.startswith("I"):  # 16 bits
        return np.asarray(np.asarray(image, np.float64) / 257 + 0.5, np.uint8)[..., None]
    gray = image.mode in ("1", "L", "LA")
    pixels: Pixels = np.asarray(image.convert("L" if gray else "RGB"), np.uint8)
    return pixels[..., None] if gray else pixels


def write_pnm(pixels: Pixels) -> bytes:
    """Return the bytes of a PGM file for one channel, of a PPM file for three."""
    height, width, channels = pixels.shape
    return f"P{5 if channels == 1 else 6}\n{width} {height}\n255\n".encode() + pixels.tobytes()


def _library(name: str) -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        what, help = "images need pillow", extra_command("images")
        raise ConfigError(what, where=name, why="it is not installed", help=help) from error

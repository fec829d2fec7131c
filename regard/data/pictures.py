"""Images as values of examples."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

import numpy as np

from regard.core.untrusted_files import json_value
from regard.data.base64_contents import decode_base64
from regard.data.image_files import Pixels, read_image, write_pnm
from regard.data.image_geometry import resized, with_channels
from regard.errors import DataError

REMEDY = 'the contents of a PNG, PGM, PPM or JPEG file in base64: {"image": "iVBORw0…"}'


class Picture(NamedTuple):
    """An image: its size, its channels, and the bytes of its pixels; equal images have equal hashes."""

    height: int
    width: int
    channels: int
    contents: bytes

    @classmethod
    def of(cls, pixels: Pixels) -> Picture:
        height, width, channels = pixels.shape
        return cls(height, width, channels, np.ascontiguousarray(pixels).tobytes())

    @property
    def pixels(self) -> Pixels:
        """(height, width, channels)."""
        return np.frombuffer(self.contents, np.uint8).reshape(self.height, self.width, self.channels)

    def fitted(self, size: tuple[int, int] | None, channels: int) -> Picture:
        """Return the image with another size, unless that is None, and other channels."""
        same = size in (None, (self.height, self.width))
        if same and channels == self.channels:
            return self
        pixels = with_channels(self.pixels, channels)
        return Picture.of(pixels if size is None or same else resized(pixels, *size))


def as_picture(value: Any, where: str | None) -> Picture:
    """Return a picture, the image in the bytes of a file, or an array of pixels. Raises DataError for another object.

    An array has the shape (height, width) or (height, width, channels), and integers of 8 bits or floats from 0 to 1.
    """
    if isinstance(value, Picture):
        return value
    if isinstance(value, bytes):
        return Picture.of(read_image(value, where or "image"))
    if not isinstance(value, np.ndarray) or value.ndim not in (2, 3) or not value.size:
        why = "expected the bytes of a file, or an array (height, width); paths are not opened"
        raise DataError("the input is not an image", where=where, why=why, help="pathlib.Path(…).read_bytes()")
    return Picture.of(pixels_of(value if value.ndim == 3 else value[..., None], where))


def pixels_of(array: Any, where: str | None) -> Pixels:
    """Return an array (…, channels) of integers of 8 bits or of floats from 0 to 1 as pixels."""
    if array.shape[-1] not in (1, 3) or (array.dtype != np.uint8 and array.dtype.kind != "f"):
        why = f"expected 1 or 3 channels of uint8 or of floats from 0 to 1, found {array.shape} of {array.dtype}"
        raise DataError("the pixels have the wrong type or shape", where=where, why=why)
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
        why, help = "floats must be from 0 to 1", "divide by the largest possible value, or save integers as uint8"
        raise DataError("the pixels are out of bounds", where=where, why=why, help=help)
    return np.asarray(np.rint(array * 255), np.uint8)


def picture_line(picture: Picture) -> str:
    """Return the line of JSON of an image: {"image": BASE64}."""
    return json.dumps({"image": base64.b64encode(write_pnm(picture.pixels)).decode()})


def parse_picture(text: str) -> Picture:
    """Return the image of a line. Raises DataError for another line; a path in it is never opened."""
    value = json_value(text)
    if not isinstance(value, dict) or value.keys() != {"image"}:
        raise DataError("the input is not an image", why='expected {"image": BASE64}', help=REMEDY)
    return Picture.of(read_image(decode_base64(value["image"], "image"), "image"))

"""Patches of images of one size, and the scale of their channels, learned from the training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.image_files import Pixels
from regard.data.image_geometry import default_patch, from_patches, patch_grid, to_patches
from regard.data.pictures import Picture
from regard.errors import DataError

LARGEST = 4096  # pixels of a side


class PatchCodec(NamedTuple):
    """The codec.

    Attributes:
        size: height and width of an image.
        patch: height and width of a patch.
        mean, deviation: of each channel, from 0 to 255.
    """

    size: tuple[int, int]
    patch: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def learned(
        cls, pictures: Sequence[Picture], size: tuple[int, int] | None, patch: int | None, *, max_patches: int
    ) -> PatchCodec:
        """Return the codec of training images; ``size`` and ``patch`` are those of the config.

        Raises:
            DataError: if the images differ in size, or have more than ``max_patches`` patches.
        """
        size = size or _common_size(pictures)
        patch = patch or default_patch(size)
        count = math.prod(patch_grid(size, patch))
        if count > max_patches:
            why = f"data.max_length is {max_patches}"
            help = f"--set data.max_length={count}, or a larger model.encoder.input.patch"
            raise DataError(f"an image has {count:,} patches of {patch} × {patch} pixels", why=why, help=help)
        mean = np.mean([picture.pixels.mean((0, 1)) for picture in pictures], 0)
        squares = np.mean([np.square(picture.pixels, dtype=np.float64).mean((0, 1)) for picture in pictures], 0)
        deviation = np.sqrt(np.maximum(squares - np.square(mean), 1.0))
        return cls(size, patch, tuple(mean.tolist()), tuple(deviation.tolist()))

    @classmethod
    def parse(cls, saved: Any, *, channels: int, max_patches: int) -> PatchCodec:
        """Return the saved codec. Raises ValueError if it is damaged."""
        height, width = map(int, saved["size"])
        mean, deviation = tuple(map(float, saved["mean"])), tuple(map(float, saved["deviation"]))
        codec = cls((height, width), int(saved["patch"]), mean, deviation)
        if not all(0 < side <= LARGEST for side in (height, width, codec.patch)):
            raise ValueError(f"sizes must be from 1 to {LARGEST:,}")
        if math.prod(codec.grid) > max_patches:
            raise ValueError(f"the number of patches is above {max_patches:,}")
        if len(mean) != channels or len(deviation) != channels or not all(map(math.isfinite, mean)):
            raise ValueError("each channel needs a finite mean and a deviation")
        if not all(0 < number < math.inf for number in deviation):
            raise ValueError("deviations must be above 0")
        return codec

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return patch_grid(self.size, self.patch)

    @property
    def numbers(self) -> int:
        """Numbers of a patch."""
        return self.patch**2 * len(self.mean)

    def patches(self, pixels: Pixels) -> Pixels:
        """Return the patches (patches, numbers) of an image."""
        return to_patches(pixels, self.patch)

    def image(self, patches: Pixels) -> Pixels:
        """Return the image of patches."""
        height, width = self.size
        return from_patches(patches, self.grid, self.patch)[:height, :width]

    def standardized(self, patches: Pixels) -> npt.NDArray[np.float32]:
        """Return (x − mean) / deviation of each number."""
        mean, deviation = (np.tile(np.array(scale, np.float32), self.patch**2) for scale in (self.mean, self.deviation))
        return np.asarray((patches.astype(np.float32) - mean) / deviation)


def _common_size(pictures: Sequence[Picture]) -> tuple[int, int]:
    sizes = {(picture.height, picture.width) for picture in pictures}
    if len(sizes) != 1:
        listed = ", ".join(f"{width} × {height}" for height, width in sorted(sizes)[:4])
        raise DataError("the images differ in size", why=listed, help="--set data.image.size=[HEIGHT, WIDTH]")
    return next(iter(sizes))

"""Sizes, colors, rotations and patches of images, in NumPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from regard.data.image_files import Pixels

GRAY = np.array([0.299, 0.587, 0.114])  # brightness of red, green and blue (ITU-R BT.601)
TYPICAL, FEWEST, MOST = 49, 16, 200  # patches of an image


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return an image of another size, by linear interpolation; a smaller one averages neighboring pixels."""
    rows, columns = _interpolation(pixels.shape[0], height), _interpolation(pixels.shape[1], width)
    return rounded(np.einsum("yi,ijc,xj->yxc", rows, pixels.astype(np.float64), columns, optimize=True))


def _interpolation(size: int, new_size: int) -> npt.NDArray[np.float64]:
    """Return the weights (new_size, size) of old pixels in new ones: triangles around the place of each new one."""
    scale = size / new_size
    centers = (np.arange(new_size) + 0.5) * scale - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(size) - centers[:, None]) / max(scale, 1.0))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def with_channels(pixels: Pixels, channels: int) -> Pixels:
    """Return an image with one channel, the brightness, or with three."""
    if pixels.shape[2] == channels:
        return pixels
    return rounded(pixels @ GRAY[:, None]) if channels == 1 else np.repeat(pixels, 3, axis=2)


def moved(pixels: Pixels, angle: float, down: float, right: float) -> Pixels:
    """Return an image that is rotated about its center and then shifted, by bilinear interpolation.

    Pixels from outside of the image are 0.

    Args:
        pixels: (height, width, channels).
        angle: in degrees, counterclockwise.
        down: rows by which it moves.
        right: columns by which it moves.
    """
    framed = np.pad(pixels, ((1, 1), (1, 1), (0, 0)))  # 0 beyond the edges
    height, width, _ = framed.shape
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    y, x = np.meshgrid(np.arange(height) - down, np.arange(width) - right, indexing="ij")
    center_y, center_x = (height - 1) / 2, (width - 1) / 2
    from_y = np.clip(cosine * (y - center_y) + sine * (x - center_x) + center_y, 0, height - 1)
    from_x = np.clip(cosine * (x - center_x) - sine * (y - center_y) + center_x, 0, width - 1)
    top, left = np.floor(from_y).astype(int), np.floor(from_x).astype(int)
    bottom, end = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    lower, later = (from_y - top)[..., None], (from_x - left)[..., None]
    upper = framed[top, left] * (1 - later) + framed[top, end] * later
    below = framed[bottom, left] * (1 - later) + framed[bottom, end] * later
    return rounded(upper * (1 - lower) + below * lower)[1:-1, 1:-1]


def rounded(pixels: npt.NDArray[np.floating]) -> Pixels:
    """Return pixels as integers from 0 to 255."""
    return np.asarray(np.clip(np.rint(pixels), 0, 255), np.uint8)


def patch_grid(size: tuple[int, int], patch: int) -> tuple[int, int]:
    """Return the rows and columns of patches that cover an image."""
    return -(-size[0] // patch), -(-size[1] // patch)


def default_patch(size: tuple[int, int]) -> int:
    """Return the power of two for which an image has about ``TYPICAL`` patches."""
    counts = {patch: math.prod(patch_grid(size, patch)) for patch in (1 << power for power in range(13))}
    fitting = {patch: count for patch, count in counts.items() if FEWEST <= count <= MOST} or counts
    return min(fitting, key=lambda patch: (abs(math.log(fitting[patch] / TYPICAL)), patch))


def to_patches(pixels: Pixels, patch: int) -> Pixels:
    """Return the patches (patches, patch · patch · channels) of an image, row by row; pixels after its ends are 0."""
    rows, columns = patch_grid(pixels.shape[:2], patch)
    missing = (0, rows * patch - pixels.shape[0]), (0, columns * patch - pixels.shape[1]), (0, 0)
    whole = np.pad(pixels, missing) if any(end for _, end in missing) else pixels
    cut = whole.reshape(rows, patch, columns, patch, pixels.shape[2]).swapaxes(1, 2)
    return np.ascontiguousarray(cut.reshape(rows * columns, -1))


def from_patches(patches: Pixels, grid: tuple[int, int], patch: int) -> Pixels:
    """Return the image of patches, with the pixels after its ends."""
    cut = patches.reshape(*grid, patch, patch, -1).swapaxes(1, 2)
    return np.ascontiguousarray(cut.reshape(grid[0] * patch, grid[1] * patch, -1))

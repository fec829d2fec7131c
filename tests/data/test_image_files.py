"""Images from bytes: sizes are checked before decoding; resizing, moving and patches by hand."""

from __future__ import annotations

import io
import struct
import sys
import zlib

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.image_files import image_size, read_image, write_pnm
from regard.data.image_geometry import (
    default_patch,
    from_patches,
    moved,
    patch_grid,
    resized,
    to_patches,
    with_channels,
)
from regard.data.pictures import as_picture
from regard.errors import ConfigError, DataError

GRAY = np.arange(12, dtype=np.uint8).reshape(3, 4, 1) * 20
COLORED = np.arange(36, dtype=np.uint8).reshape(3, 4, 3) * 7


def encoded(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    packed = io.BytesIO()
    PIL.Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(packed, kind, **options)
    return packed.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG file that ends after its header."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


@pytest.mark.parametrize("kind", ["PNG", "PPM"])
@pytest.mark.parametrize("pixels", [GRAY, COLORED], ids=["gray", "colored"])
def test_pixels_are_read_exactly(kind: str, pixels: np.ndarray) -> None:
    assert np.array_equal(read_image(encoded(pixels, kind), "a"), pixels)
    assert np.array_equal(read_image(write_pnm(pixels), "a"), pixels)


def test_other_modes_become_gray_or_colors() -> None:
    assert image_size(encoded(COLORED, "JPEG"), "a") == (3, 4)
    assert read_image(encoded(COLORED, "JPEG", quality=95), "a").shape == (3, 4, 3)
    deep = PIL.Image.fromarray(np.array([[0, 257, 65535]], np.uint16))
    packed = io.BytesIO()
    deep.save(packed, "PNG")
    assert read_image(packed.getvalue(), "a").ravel().tolist() == [0, 1, 255]
    palette = PIL.Image.fromarray(COLORED).convert("P")
    palette.save(packed := io.BytesIO(), "PNG")
    assert read_image(packed.getvalue(), "a").shape == (3, 4, 3)


@pytest.mark.parametrize("header", [png_header(40_000, 40_000), b"P5\n# large\n40000 40000\n255\n", png_header(0, 5)])
def test_a_size_beyond_the_limit_is_refused_from_the_header(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIL.Image, "open", lambda *args, **options: pytest.fail("decoded"))
    with pytest.raises(DataError, match=r"big\.png") as caught:
        read_image(header, "big.png")
    assert "its header states" in str(caught.value) and "the limit is 16,777,216 pixels" in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (b"", "the file is empty"),
        (b"GIF89a", "it does not begin as a PNG, PGM, PPM or JPEG file does"),
        (b"\x89PNG\r\n\x1a\n", "it does not begin as"),
        (b"\xff\xd8\xff\xe0\0\x04ab", "it does not begin as"),
        (b"P5\n" + b"# \n" * 50, "it does not begin as"),
        (png_header(4, 3), "it is damaged"),
        (encoded(COLORED, "PNG")[:-40], "it is damaged"),
        (encoded(COLORED, "JPEG")[:300], "it is damaged"),
        (write_pnm(GRAY)[:-3], "it is damaged"),
    ],
)
def test_a_damaged_file_has_one_message(contents: bytes, why: str) -> None:
    with pytest.raises(DataError, match=r"broken\.png") as caught:
        read_image(contents, "broken.png")
    assert why in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert read_image(write_pnm(GRAY), "a.pgm").shape == (3, 4, 1)  # needs no package
    with pytest.raises(ConfigError, match="images need pillow"):
        read_image(encoded(GRAY, "PNG"), "a.png")


def test_resizing_by_hand() -> None:
    image = np.array([[0, 100]], np.uint8)[..., None]
    assert resized(image, 1, 4).ravel().tolist() == [0, 25, 75, 100]  # places −.25, .25, .75, 1.25
    assert resized(np.array([[0, 100, 200, 100]], np.uint8)[..., None], 1, 2).ravel().tolist() == [
        71,
        143,
    ]  # (¾ · 100 + ¼ · 200) / 1¾
    assert np.array_equal(resized(COLORED, 3, 4), COLORED)
    assert (resized(np.full((7, 5, 3), 90, np.uint8), 3, 11) == 90).all()
    assert with_channels(COLORED[:1, :1], 1).item() == round(0.299 * 0 + 0.587 * 7 + 0.114 * 14)


def test_moving_by_hand() -> None:
    image = np.zeros((5, 5, 1), np.uint8)
    image[2, 3] = 200
    assert np.argwhere(moved(image, 0, 1, -1)[..., 0]).tolist() == [[3, 2]]
    assert np.argwhere(moved(image, 90, 0, 0)[..., 0] > 100).tolist() == [[1, 2]]  # from the right to the top
    assert moved(image, 0, 0, 0.5)[2, 3:, 0].tolist() == [100, 100]
    assert np.array_equal(moved(COLORED, 0, 0, 0), COLORED)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.sampled_from([1, 3]))
def test_patches_are_the_image(height: int, width: int, patch: int, channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, channels)).astype(np.uint8)
    patches, grid = to_patches(pixels, patch), patch_grid((height, width), patch)
    assert patches.shape == (grid[0] * grid[1], patch * patch * channels)
    assert np.array_equal(from_patches(patches, grid, patch)[:height, :width], pixels)
    first = pixels[:patch, :patch]
    assert patches[0].reshape(patch, patch, channels)[: len(first), : first.shape[1]].tolist() == first.tolist()


def test_patches_by_default_are_few() -> None:
    sizes = [(8, 8), (28, 28), (32, 32), (64, 64), (224, 224), (480, 640)]
    assert [default_patch(size) for size in sizes] == [1, 4, 4, 8, 32, 64]
    assert default_patch((3, 3)) == 1


@pytest.mark.parametrize(
    "value", ["/etc/passwd", 7, np.zeros(3), np.zeros((2, 2), int), np.full((2, 2), 2.0), np.full((2, 2), np.nan),
              np.zeros((2, 2, 2), np.uint8)]
)  # fmt: skip
def test_other_objects_are_no_images(value: object) -> None:
    with pytest.raises(DataError):
        as_picture(value, None)


def test_floats_from_0_to_1_become_integers() -> None:
    assert as_picture(np.array([[0, 0.5, 1]]), None).pixels.ravel().tolist() == [0, 128, 255]

"""Images as patches of pixels, row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded, VisitDraws, is_number_array
from regard.core.observation import SurfaceKind, SurfaceNumbers
from regard.core.task import Report, RunFiles
from regard.data.image_files import SUFFIXES
from regard.data.image_geometry import from_patches, moved, patch_grid, rounded
from regard.data.image_options import ImageOptions
from regard.data.patch_codec import PatchCodec
from regard.data.pictures import Picture, as_picture, parse_picture, picture_line
from regard.data.rows import Column, Row

FILE = "image.json"
MOVES = 0  # stream of draws


class Images(FieldBase):
    """Images as patches x of ``patch`` × ``patch`` pixels, standardized per channel as (x − mean) / deviation.

    A row has the pixels of a patch as integers; ``parts`` has the numbers that a network reads. Images of another size
    are resized.
    """

    reads_json = True
    kind: ClassVar[SurfaceKind] = "image"
    hiding: ClassVar[str] = "replaced by the mean color of the training data"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    contents: ClassVar[Literal["image"]] = "image"

    def __init__(
        self, columns: tuple[Column, ...], options: ImageOptions, *, patch: int | None, max_length: int
    ) -> None:
        self.columns, self.options, self.max_length, self._patch = columns, options, max_length, patch
        self.size = options.size
        self.codec = PatchCodec(options.size or (1, 1), 1, (0.0,) * options.channels, (1.0,) * options.channels)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"channels": self.codec.numbers}

    def value(self, row: Row) -> Picture:
        return self.accept(row.cells[self.columns[0]], row.where)

    def accept(self, value: Any, where: str | None = None) -> Picture:
        return as_picture(value, where).fitted(self.size, self.options.channels)

    def is_value(self, value: Any) -> bool:
        return isinstance(value, bytes | Picture) or is_number_array(value, 3)

    def parse(self, text: str) -> Picture:
        return self.accept(parse_picture(text))

    def read_file(self, contents: bytes, name: str) -> Picture:
        return self.accept(contents, name)

    def text(self, value: Picture) -> str:
        return picture_line(value)

    def summary(self, value: Picture) -> str:
        return f"{value.width} × {value.height} pixels"

    def learn(self, run: RunFiles, values: Sequence[Picture], log: Report) -> Images:
        if run.config.start is not None:  # the weights of the other run expect its scale
            return self.open(run)
        codec = PatchCodec.learned(values, self.size, self._patch, max_patches=self.max_length)
        save_codec_file(run.tokenizers / FILE, codec._asdict())
        (height, width), (rows, columns) = codec.size, codec.grid
        log(f"images of {width} × {height} pixels → {rows} × {columns} patches of {codec.patch} × {codec.patch} pixels")
        return self.open(run)

    def open(self, run: RunFiles) -> Images:
        parse = partial(PatchCodec.parse, channels=self.options.channels, max_patches=self.max_length)
        self.codec = open_codec_file(run.tokenizers / FILE, parse)
        self.size = self.codec.size
        return self

    def encode(self, values: Sequence[Picture]) -> EncodedRows:
        rows = [self.codec.patches(self.accept(value).pixels) for value in values]
        return EncodedRows(rows, [False] * len(rows))

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        shift, angle = self.options.shift, self.options.angle
        if not draws.visit or not (shift or angle):
            return rows[0]
        random = draws.stream(MOVES)
        down, right = random.uniform(-shift, shift, 2).tolist()
        pixels = moved(self.codec.image(rows[0]), float(random.uniform(-angle, angle)), down, right)
        return self.codec.patches(pixels)

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [self.codec.standardized(row)]

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        values = torch.from_numpy(np.stack([part for row in rows for part in self.parts(row)]))
        return Padded(values, torch.ones(values.shape[:2], dtype=torch.bool))

    def hidden(self, value: Picture, row: EncodedRow) -> list[list[Hidden | None]]:
        variants, mean = list[Hidden | None](), np.tile(rounded(np.array(self.codec.mean)), self.codec.patch**2)
        for place in range(len(row)):
            changed = row.copy()
            changed[place] = mean
            variants.append(Hidden(changed, Picture.of(self.codec.image(changed))))
        return [variants]

    def numbers(self, value: Picture, row: EncodedRow) -> SurfaceNumbers:
        grid, patch = self.codec.grid, self.codec.patch
        pixels = from_patches(self.codec.patches(value.pixels), grid, patch).astype(np.float32) / np.float32(255)
        names = ("red", "green", "blue") if self.options.channels == 3 else ("brightness",)
        return SurfaceNumbers(pixels, names, grid=grid)

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        rows, columns = self.codec.grid
        return tuple(f"row {y + 1}, column {x + 1}" for y in range(rows) for x in range(columns))

    def cost(self, value: Picture) -> int:
        return math.prod(patch_grid((value.height, value.width), self.codec.patch)) ** 2

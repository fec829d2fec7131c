"""Labels that are numbers: how they are read, and the scale in which a network predicts them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.untrusted_files import SMALL
from regard.errors import DataError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
LARGEST = 1e30  # maximum magnitude: sums of squares stay finite in double precision


class Scale(NamedTuple):
    """Mean and standard deviation of the training labels; networks predict deviations from the mean."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        return cls(float(np.mean(values)), float(np.std(values)) or 1.0)

    @classmethod
    def open(cls, path: Path) -> Scale:
        """Return the saved scale; raises ModelError if it is missing or damaged."""

        def parse(value: Any) -> Scale:
            scale = cls(float(value["mean"]), float(value["deviation"]))
            if not (math.isfinite(scale.mean) and 0 < scale.deviation < math.inf):
                raise ValueError("the scale needs a finite mean and a deviation above 0")
            return scale

        return open_codec_file(path, parse, limit=SMALL)

    def save(self, path: Path) -> None:
        """Write the file that ``open`` reads."""
        save_codec_file(path, self._asdict())


def read_number(labels: Sequence[str], where: str) -> float:
    """Return the label of an example as a number. DataError, with the place ``where``, if it is not a number."""
    try:
        if NUMBER.fullmatch(labels[0].strip()) is None:
            raise ValueError
        value = float(labels[0])
        if not abs(value) <= LARGEST:
            raise ValueError
    except (IndexError, ValueError) as error:
        what = f"the label {' '.join(labels)!r} is not a number"
        why = f"data.label_kind is number, which allows digits, point and exponent, up to ±{LARGEST:g}"
        raise DataError(what, where=where, why=why) from error
    return value

"""The weights of a network and its baseline in the outputs of a model that combines them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.core.baseline import FOLDER
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import RunFiles
from regard.core.untrusted_files import SMALL

FILE = "weights.json"  # in the folder of the baseline
MAX_WEIGHT = 1e6


class OutputWeights(NamedTuple):
    """Factors of the outputs of the network and of its wide part, which are then added."""

    network: float = 1.0
    wide: float = 1.0


EQUAL = OutputWeights()  # of runs whose network learns what its baseline leaves over


def save_weights(run: RunFiles, weights: OutputWeights, losses: Mapping[str, float]) -> None:
    """Save the weights, with the validation losses of the alternatives by name."""
    save_codec_file(run.path / FOLDER / FILE, {**weights._asdict(), "losses": dict(losses)})


def open_weights(run: RunFiles) -> OutputWeights:
    """Return the saved weights of a run.

    Those of a run without the file are equal: ½ if the network was trained alone, during its training or without
    validation data; else 1.

    Raises:
        ModelError: if the file is damaged.
    """
    path = run.path / FOLDER / FILE
    if not run.config.is_combined:
        return EQUAL
    return open_codec_file(path, _parsed, limit=SMALL) if path.exists() else OutputWeights(0.5, 0.5)


def _parsed(value: Any) -> OutputWeights:
    weights = OutputWeights(float(value["network"]), float(value["wide"]))
    if not all(math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT for weight in weights):
        raise ValueError("a weight is out of bounds")
    return weights

"""Baseline of recognition: the text of the training recording whose frames are nearest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.packed_texts import packed_texts, unpacked_texts
from regard.core.baseline import SavedBaseline

PLACES = 32  # frames of a recording that are compared
DURATION = 0.2  # weight of the logarithm of the duration, as a share of that of all frames
MAX_RECORDINGS = 5_000  # of more, as many at equal distances are read
SMALL = 1e-3  # added to deviations
Frames = npt.NDArray[np.float32]


class NearestRecording:
    """The text of the recording with the least squared distance.

    Compared are ``PLACES`` frames at equal distances, of frames standardized by their recording, and the logarithm of
    the number of frames; each number is divided by its deviation over the training data. Cost: recordings · places ·
    channels multiply-adds.
    """

    kind: ClassVar[str] = "nearest-recording"

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.known, self.scale = np.zeros((0, 1), np.float32), np.ones(1, np.float32)

    @property
    def description(self) -> str:
        return "text of the training recording with the nearest frames"

    def learn(self, frames: Callable[[int], Frames], texts: Sequence[str]) -> None:
        """Read the recordings, or ``MAX_RECORDINGS`` of them, one after the other.

        Args:
            frames: returns the frames of the recording with this index.
            texts: of all recordings.
        """
        number = min(len(texts), MAX_RECORDINGS)
        read: list[int] = (np.arange(number) * len(texts) // number).tolist()
        known = np.stack([_compared(frames(index)) for index in read])
        self.texts, self.scale = [texts[index] for index in read], known.std(0) + SMALL
        self.known = known / self.scale

    def outputs(self, frames: Sequence[Frames]) -> list[str]:
        """Return the text for each recording."""
        compared = [_compared(own) / self.scale for own in frames]
        return [self.texts[int(np.square(self.known - own).sum(1).argmin())] for own in compared]

    def save(self) -> SavedBaseline:
        arrays = {"known": self.known, "scale": self.scale}
        return SavedBaseline(arrays | packed_texts("texts", self.texts), {}, private=True)

    def open(self, saved: SavedBaseline) -> Self:
        self.texts = unpacked_texts(saved.arrays, "texts")
        self.known, self.scale = (np.asarray(saved.arrays[name], np.float32) for name in ("known", "scale"))
        if not self.texts or self.known.shape != (len(self.texts), len(self.scale)):
            raise ValueError("texts and recordings differ in number")
        if not np.isfinite(self.known).all() or not (np.isfinite(self.scale) & (self.scale > 0)).all():
            raise ValueError("frames must be finite numbers, and deviations above 0")
        return self


def _compared(frames: Frames) -> Frames:
    """Return the numbers of a recording that are compared."""
    standard = (frames - frames.mean(0)) / (frames.std(0) + SMALL)
    chosen = standard[np.linspace(0, len(frames) - 1, PLACES).round().astype(np.int64)].ravel()
    duration = np.full(max(round(DURATION * len(chosen)), 1), np.log(len(frames)))
    return np.concatenate([chosen, duration]).astype(np.float32)

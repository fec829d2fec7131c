"""Recordings as examples: batches of standardized frames and padded texts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from json import dumps
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.data.frame_augmentation import augment_frames
from regard.data.order import single_pass
from regard.data.pairs import PairBatch, padded_targets
from regard.tasks.recognition.config import RecognitionConfig
from regard.tasks.recognition.features import Features, FrameScale
from regard.tasks.recognition.recordings import StoredFrames

AUGMENT, LENGTHS, WORDLESS = 0, 1, 2  # streams of draws

Frames = npt.NDArray[np.float32]


class Transcribed(NamedTuple):
    """A recording with its text: where it is, its text and pieces, and its speaker."""

    where: str
    text: str
    pieces: npt.NDArray[np.int64]
    speaker: str


class RecordingExamples:
    """Recordings as ``core.task.Examples``, and in training additional ones without words, drawn by visit.

    Args:
        transcribed: the recordings.
        frames: their frames, at each speed of training.
        features: standardizes frames.
        config: of the run.
        trains: whether frames are changed at random and recordings without words are added.
    """

    def __init__(
        self, transcribed: Sequence[Transcribed], frames: StoredFrames, features: Features, config: RecognitionConfig,
        *, trains: bool,
    ) -> None:  # fmt: skip
        self.transcribed, self.frames, self.features = list(transcribed), frames, features
        self._config, self._trains = config, trains
        self._wordless = round(config.data.silence * len(transcribed)) if trains else 0
        self._speakers = self._scales() if config.data.sound.normalization == "speaker" else {}
        own = [max(len(frames.at(index, speed)) for speed in range(frames.speeds)) for index in range(len(transcribed))]
        drawn = [own[self._draws(LENGTHS, number).integers(len(own))] for number in range(self._wordless)]
        self._frames_of = np.array(own + drawn, np.int64)
        pieces = np.array([len(one.pieces) for one in transcribed] + [0] * self._wordless, np.int64)
        positions = [config.model.encoder.input.positions(count) for count in self._frames_of.tolist()]
        self._pieces, self.lengths = pieces, np.maximum(positions, pieces + 1).astype(np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """See ``core.task.Examples``; the length of an example is that of the encoder's states or of the text."""
        tokens, seed = self._config.train.batch_tokens, self._config.seed
        return single_pass(self.lengths, tokens, seed=seed, epoch=epoch, where=self.where)

    def token_counts(self) -> npt.NDArray[np.int64]:
        return self._pieces + 1

    def collate(self, examples: ExampleIndices) -> PairBatch:
        rows = [self._row(index, visit) for index, visit in zip(*map(np.ndarray.tolist, examples), strict=True)]
        source, valid = padded_frames(rows)
        targets = [self._target(index) for index in examples.index.tolist()]
        target = padded_targets(targets)
        weight = float(self.token_counts()[examples.index].sum())
        return PairBatch(source, valid, *target, torch.from_numpy(np.array(examples.index, np.int64)), weight)

    def where(self, index: int) -> str:
        if index < len(self.transcribed):
            return self.transcribed[index].where
        return f"additional recording {index - len(self.transcribed) + 1} without words"

    def standardized(self, index: int, speed: int = 0) -> Frames:
        """Return the standardized frames of a recording, without random changes."""
        scale = self._speakers.get(self.transcribed[index].speaker)
        return self.features.standardized(self.frames.at(index, speed), scale)

    def lines(self) -> Iterator[str]:
        """Yield the frames of recordings as lines for ``Recognizer.read``; nothing for a run that reads sounds."""
        if self._config.data.input == "frames":
            for index in range(len(self.transcribed)):
                frames = [[float(str(number)) for number in frame] for frame in self.frames.at(index)]
                yield dumps({"frames": frames})

    def digest(self) -> str:
        """Return a sha256 of the recordings and their texts."""
        digest = hashlib.sha256()
        for index, one in enumerate(self.transcribed):
            digest.update(np.ascontiguousarray(self.frames.at(index)).data)
            digest.update(f"{one.text}\0{one.speaker}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _row(self, index: int, visit: int) -> Frames:
        if index >= len(self.transcribed):
            random = self._draws(WORDLESS, index, visit)
            return self.features.wordless(int(self._frames_of[index]), random)
        if not self._trains or not visit:
            return self.standardized(index)
        random = self._draws(AUGMENT, index, visit)
        frames = self.standardized(index, int(random.integers(self.frames.speeds)))
        mean = np.zeros(self.features.channels, np.float32)
        return augment_frames(frames, mean, self._config.data.sound, random)

    def _target(self, index: int) -> npt.NDArray[np.int64]:
        return self.transcribed[index].pieces if index < len(self.transcribed) else np.zeros(0, np.int64)

    def _draws(self, stream: int, index: int, visit: int = 0) -> np.random.Generator:
        return example_generator(self._config.seed, stream, index, visit)

    def _scales(self) -> dict[str, FrameScale]:
        """Return the scale of each known speaker, over its recordings here."""
        of_speaker = defaultdict[str, list[int]](list)
        for index, one in enumerate(self.transcribed):
            if one.speaker:
                of_speaker[one.speaker].append(index)
        scale = self.features.scale_of
        return {name: scale(self.frames.at(index) for index in indices) for name, indices in of_speaker.items()}


def padded_frames(rows: Sequence[Frames]) -> tuple[Tensor, Tensor]:
    """Return frames (rows, longest, channels), 0 after the end of a row, and which are valid (rows, longest)."""
    valid = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], True)
    return pad_sequence([torch.from_numpy(np.array(row, np.float32)) for row in rows], True), valid

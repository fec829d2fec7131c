"""Speech with a joint CTC loss: what the encoder and what the decoder give both reach the objective.

Each line of digits is "spoken" as frames, several a digit. The encoder sees pairs of frames; CTC (Graves et al. 2006)
aligns its states with the digits, and a decoder with attention writes them (Watanabe et al. 2017). Some frames of a
training example are masked, drawn by (seed, stream, index, visit).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, ctc_loss, pad
from torch.nn.utils.rnn import pad_sequence

from regard.core.randomness import example_generator
from regard.core.task import Card, Carry, CodecsAndSpec, Data, ExampleIndices, LossTerms, Task
from regard.models.dropout import Dropout
from regard.runs.run_config import DataSection, RunConfig

from .plain_predictor import LINES, word_counter

BLANK, END, TYPES, CHANNELS = 0, 11, 12, 6  # digit d is number d + 1
VOICE, MASKS = 0, 1  # streams of draws
CTC_WEIGHT = 0.3


class SpeechConfig(RunConfig):
    """A file of lines of digits and a width."""

    data: DataSection
    hidden: int = 8

    @property
    def width(self) -> int:
        return self.hidden

    @property
    def layers(self) -> int:
        return 1

    @property
    def summary(self) -> str:
        return f"speech with CTC, {self.hidden} units"


CONFIG = SpeechConfig


class SpeechBatch(NamedTuple):
    frames: Tensor  # (rows, frames, CHANNELS), zeros beyond the end
    lengths: Tensor  # (rows,), of frames
    target: Tensor  # (rows, digits + 1) with END, BLANK beyond it
    index: Tensor  # type: ignore[assignment]  # (rows,)
    weight: float


class Spoken:
    """Lines of digits as frames, two to a batch."""

    def __init__(self, path: Path, seed: int, *, masked: bool) -> None:
        self.path, self.seed, self.masked = path, seed, masked
        lines = path.read_text("utf-8").splitlines()
        self.targets = [torch.tensor([*(int(digit) + 1 for digit in line), END]) for line in lines]

    def __len__(self) -> int:
        return len(self.targets)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        index = np.arange(len(self))
        if epoch is not None:
            index = np.random.default_rng((self.seed, epoch)).permutation(index)
        visit = np.full(len(index), epoch or 0)
        return [ExampleIndices(index[at : at + 2], visit[at : at + 2]) for at in range(0, len(index), 2)]

    def token_counts(self) -> np.ndarray:
        return np.array([len(each) for each in self.targets])

    def collate(self, examples: ExampleIndices) -> SpeechBatch:
        frames = [self._frames(int(index), int(visit)) for index, visit in zip(*examples, strict=True)]
        target = pad_sequence([self.targets[index] for index in examples.index], batch_first=True)
        lengths, index = torch.tensor([len(each) for each in frames]), torch.from_numpy(examples.index.copy())
        return SpeechBatch(pad_sequence(frames, batch_first=True), lengths, target, index, float((target > 0).sum()))

    def _frames(self, index: int, visit: int) -> Tensor:
        voice = example_generator(0, VOICE, index, 0)  # data: the same at every visit, whatever the seed
        digits = np.repeat(self.targets[index][:-1].numpy(), voice.integers(4, 7, len(self.targets[index]) - 1))
        frames = np.cos(np.outer(digits, np.arange(1, CHANNELS + 1))) + 0.1 * voice.standard_normal(
            (len(digits), CHANNELS)
        )
        if self.masked:
            first = int(example_generator(self.seed, MASKS, index, visit).integers(len(frames)))
            frames[first : first + 2] = 0.0
        return torch.from_numpy(frames.astype(np.float32))

    def where(self, index: int) -> str:
        return f"{self.path}:{index + 1}"


class Heard(NamedTuple):
    """The output of both sides: log-probabilities of CTC by pair of frames, and logits by digit."""

    aligned: Tensor  # (rows, pairs, TYPES)
    lengths: Tensor  # (rows,), of pairs
    written: Tensor  # (rows, digits + 1, TYPES)


class Listener(nn.Module):
    """An encoder of pairs of frames and a decoder whose attention reads it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pairs, self.neighbors = nn.Linear(2 * CHANNELS, width), nn.Conv1d(width, width, 3, padding=1)
        self.to_ctc, self.dropout = nn.Linear(width, TYPES), Dropout(0.1)
        self.before, self.place = nn.Embedding(TYPES, width), nn.Embedding(16, width)
        self.query, self.output = nn.Linear(width, width), nn.Linear(2 * width, TYPES)

    def forward(self, frames: Tensor, lengths: Tensor, before: Tensor) -> Heard:
        x = pad(frames.to(self.pairs.weight.dtype), (0, 0, 0, frames.shape[1] % 2)).unflatten(1, (-1, 2)).flatten(2)
        lengths = (lengths + 1) // 2
        valid = torch.arange(x.shape[1]) < lengths[:, None]
        x = torch.tanh(self.pairs(x)) * valid[..., None]
        x = self.dropout(torch.tanh(self.neighbors(x.mT).mT))
        written = self.before(before) + self.place(torch.arange(before.shape[1]))
        energy = (self.query(written) @ x.mT).masked_fill(~valid[:, None], -torch.inf)
        read = torch.cat([written, energy.softmax(-1) @ x], -1)
        return Heard(self.to_ctc(x).log_softmax(-1), lengths, self.output(read))


def objective(config: SpeechConfig) -> Any:
    def loss(net: nn.Module, batch: SpeechBatch, carry: Carry = ()) -> LossTerms:
        heard: Heard = net(batch.frames, batch.lengths, pad(batch.target, (1, -1)))
        digits = (batch.target > 0).sum(-1) - 1
        nll = cross_entropy(heard.written.mT, batch.target, ignore_index=BLANK, reduction="sum")
        ctc = ctc_loss(heard.aligned.transpose(0, 1), batch.target, heard.lengths, digits, reduction="sum")
        heard_frames = torch.arange(heard.aligned.shape[1]) < heard.lengths[:, None]
        sums = {
            "nll": nll.detach(), "tokens": (batch.target > 0).sum(),
            "ctc": ctc.detach(), "pairs": heard.lengths.sum(),
            "aligned": ((heard.aligned.argmax(-1) != BLANK) & heard_frames).sum(),
        }  # fmt: skip
        return LossTerms(nll + CTC_WEIGHT * ctc, sums)

    return loss


def compute_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    nll, tokens, ctc, pairs, aligned = (float(sums[name]) for name in ("nll", "tokens", "ctc", "pairs", "aligned"))
    return {"loss": nll / tokens, "ctc": ctc / tokens, "aligned": aligned / pairs}


def prepare(run: Any, say: Any, progress: Any = None) -> Data:
    path, seed = Path(run.config.data.train[0]["source"]), run.config.seed
    return Data(Spoken(path, seed, masked=True), Spoken(path, seed, masked=False), None, {"channels": CHANNELS}, {})


def sample(folder: Path) -> Mapping[str, Any]:
    (folder / "digits.txt").write_text("12\n345\n7\n9081\n26\n", encoding="utf-8")
    return {"data": {"train": [{"source": str(folder / "digits.txt")}]}}


TASK = Task(
    name="speech",
    open=lambda run: CodecsAndSpec(None, {"channels": CHANNELS}),
    prepare=prepare,
    build=lambda config, spec: Listener(config.hidden),
    small_spec={"channels": CHANNELS},
    objective=objective,
    predictor=word_counter,
    compute_metrics=compute_metrics,
    metrics={},
    sample_lines=LINES,
    card=Card("automatic-speech-recognition", "print(model)", "info {run}"),
    sample=sample,
)

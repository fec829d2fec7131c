"""Choice of the attention head of a recognizer that aligns pieces with sound best, by agreement with CTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.attention.observe import observe, shared_copy
from regard.attention.span import Span
from regard.core.atomic_files import write_json
from regard.core.untrusted_files import SMALL, read_bytes
from regard.data.frame_store import FrameStore
from regard.data.tokenizers.tokenizer import BEGIN
from regard.errors import ConfigError, DataError, StorageError
from regard.runs.run_folder import RunFolder
from regard.tasks.recognition.examples import padded_frames
from regard.tasks.recognition.measure import GREEDY
from regard.tasks.recognition.recognizer import Recognizer

FILE = "alignment.json"
MEASURED = 64  # recordings on which attentions are measured
NEAR = 0.1  # seconds between the frame with the largest weight and those of CTC at which both agree

Frames = npt.NDArray[np.float32]


class SpeechHead(NamedTuple):
    """One head, by which pieces are aligned with encoder states.

    Attributes:
        attention: its name, such as decoder.0.source.
        head: its number.
        shift: piece t is aligned by query t + shift; 0 predicts it, 1 reads it.
        agreement: share of the pieces whose largest weight is within 0.1 s of the alignment by CTC.
        pieces: the number of pieces that were measured.
    """

    attention: str
    head: int
    shift: int
    agreement: float
    pieces: int

    def weights(self, attention: dict[str, Tensor]) -> Tensor:
        """Return the weights (pieces, states); with ``shift`` 1 the last row is 0."""
        chosen = attention[self.attention][self.head]
        return torch.cat([chosen[self.shift :], chosen.new_zeros(self.shift, chosen.shape[1])])


class _SavedHead(BaseModel):
    """The content of ``alignment.json``: a head, and the checkpoint that was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    checkpoint: str
    attention: str
    head: Annotated[int, Field(ge=0)]
    shift: Literal[0, 1]
    agreement: Annotated[float, Field(ge=0, le=1)]
    pieces: Annotated[int, Field(ge=0)]


def find_head(run: RunFolder, recognizer: Recognizer, checkpoint: str | None = None) -> SpeechHead:
    """Return the head of a run's checkpoint, measured once on recordings of its training and saved in the run.

    Raises:
        ConfigError: the frames of training recordings are missing.
    """
    path, weights = run.path / FILE, str(run.weights_path(checkpoint))
    heads = {name: len(table) for name, table in source_attention(recognizer, _silence(recognizer), []).items()}
    try:
        saved = _SavedHead.model_validate_json(read_bytes(path, SMALL))
        if saved.checkpoint == weights and saved.head < heads.get(saved.attention, 0):
            return SpeechHead(**saved.model_dump(exclude={"checkpoint"}))
    except (OSError, ValueError):
        pass  # not measured yet, or a damaged file
    head = choose_head(recognizer, _recordings(run, recognizer))
    try:
        write_json(path, head._asdict() | {"checkpoint": weights})
    except StorageError:
        pass  # a read-only run is measured each time
    return head


def choose_head(recognizer: Recognizer, recordings: Sequence[Frames]) -> SpeechHead:
    """Return the head whose largest weights agree most with the most probable path of CTC, on recognized texts.

    Args:
        recognizer: with a decoder and CTC.
        recordings: standardized frames of each.

    Raises:
        ConfigError: the model recognizes no text in any recording.
    """
    hits, total = dict[tuple[str, int, int], int](), 0
    settings = recognizer.search.model_copy(update=GREEDY)
    for frames, recognized in zip(recordings, recognizer.recognize_frames(recordings, settings), strict=True):
        if not recognized.states:
            continue
        total += len(recognized.tokens)
        spans, rate = torch.tensor(recognized.states), len(recognizer.net.encoder.embedding.ranges(len(frames)))
        near = NEAR * recognizer.features.frame_rate * rate / len(frames)  # in states
        for name, heads in source_attention(recognizer, frames, recognized.tokens).items():
            for shift in (0, 1):
                states = heads[:, shift : shift + len(spans)].argmax(-1)
                agree = (states >= spans[:, 0] - near) & (states <= spans[:, 1] + near)
                for head, count in enumerate(agree.sum(1).tolist()):
                    hits[name, head, shift] = hits.get((name, head, shift), 0) + count
    if not total:
        raise ConfigError(
            "alignatt cannot choose an attention head", where="policy",
            why="the model recognizes no text in its training recordings", help="use local-agreement",
        )  # fmt: skip
    (name, head, shift), best = max(hits.items(), key=lambda item: item[1])
    return SpeechHead(name, head, shift, best / total, total)


def attended_frames(
    recognizer: Recognizer, frames: Frames, tokens: Sequence[int], weigh: Callable[[dict[str, Tensor]], Tensor]
) -> list[int]:
    """Return for each word of a text the number of frames up to the last one that its visible pieces attend to.

    Args:
        recognizer: the model.
        frames: standardized frames of a sound.
        tokens: of the text.
        weigh: returns the weights (pieces, states) from those of all attentions.
    """
    states = weigh(source_attention(recognizer, frames, tokens))[: len(tokens)].argmax(-1).tolist()
    ranges, tokenizer = recognizer.net.encoder.embedding.ranges(len(frames)), recognizer.tokenizer
    attended = list[int]()
    for number, (token, state) in enumerate(zip(tokens, states, strict=True), start=1):
        words = len(tokenizer.decode(tokens[:number]).split())
        attended += [0] * (words - len(attended))
        if words and tokenizer.decode([token]).strip():
            attended[-1] = max(attended[-1], ranges[state][1])
    return attended


@torch.no_grad()
def source_attention(recognizer: Recognizer, frames: Frames, tokens: Sequence[int]) -> dict[str, Tensor]:
    """Return the weights (heads, pieces + 1, states) of each attention of the decoder to the encoder, teacher-forced.

    Query t reads the pieces before piece t.
    """
    net: Any = shared_copy(recognizer.net)  # hooks on the network itself would affect other threads
    device = next(net.parameters()).device
    source, valid = (part.to(device) for part in padded_frames([frames]))
    with observe(net) as seen:
        state = net.start(net.encoder(source, Span.of(valid)), source)
        net.step(torch.tensor([[BEGIN, *tokens]], device=device), state)
        return {name: weights[0].cpu() for name, weights in seen.items() if name.endswith("source")}


def _silence(recognizer: Recognizer) -> Frames:
    return np.zeros((8, recognizer.features.channels), np.float32)


def _recordings(run: RunFolder, recognizer: Recognizer) -> list[Frames]:
    """Return standardized frames of recordings that are spread over the training data."""
    try:
        store = FrameStore.open(run.data / "train-frames")
    except (DataError, StorageError) as error:
        raise ConfigError(
            "alignatt cannot choose an attention head", where="policy",
            why=f"the frames of the training recordings are missing: {error.what}", help="use local-agreement",
        ) from error  # fmt: skip
    chosen = np.linspace(0, len(store) - 1, min(len(store), MEASURED)).astype(np.int64).tolist()
    return [recognizer.features.standardized(np.array(store[index], np.float32)) for index in chosen]

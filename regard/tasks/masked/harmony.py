"""Harmonization by a masked model of music: each frame has known pitches, and gaps for new voices.

The most probable pitch of all gaps is set first, and later predictions read it, which keeps voices consistent (as in
easy-first tagging; Shen et al. 2007). On request, each pitch is then predicted again, given all others (iterated
conditional modes, Besag 1986: Gibbs sampling that takes the most probable value). Pieces longer than the context are
harmonized in windows from left to right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.task import not_interrupted
from regard.core.wording import pluralize
from regard.data.notes import PITCHES, Frame
from regard.data.tokenizers.notes import FRAME_END, NotesTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.errors import ConfigError, DataError
from regard.tasks.masked.filler import Filler

FIRST = FRAME_END + 1  # the token of pitch 0
KEPT = 2 / 3  # share of a window that is final; the next window harmonizes the rest again, with more of the piece


class Harmony(NamedTuple):
    """Frames with new voices, the probability of each new pitch, and the number of gaps without a valid pitch."""

    frames: list[Frame]
    probabilities: list[float]
    left_out: int


class _Voice:
    """Pitch of a voice in a frame; ``gap``: it was not known and is predicted."""

    def __init__(self, pitch: int | None) -> None:
        self.pitch, self.gap, self.probability = pitch, pitch is None, 1.0


_Row = list[_Voice]


def harmonize(
    filler: Filler, frames: Sequence[Frame], voices: Sequence[int], *, passes: int = 0,
    done: Callable[[int], None] = lambda count: None, interrupted: Callable[[], bool] = not_interrupted,
) -> Harmony:  # fmt: skip
    """Predict new voices for all frames that have pitches.

    Args:
        filler: masked model of music.
        frames: known pitches of each frame, in ascending order.
        voices: positions of the new voices among all voices, from 1, the lowest: 2 is the tenor of four voices; 1, 2
            and 3 are the voices below a melody.
        passes: maximum number of times that each new pitch is predicted again, given all others.
        done: called with the number of frames that are finished.
        interrupted: called before each pass of the model.

    Raises:
        KeyboardInterrupt: ``interrupted`` returned True.
    """
    if not isinstance(filler.tokenizer, NotesTokenizer):
        raise ConfigError("this is not a model of music", why="its tokens are not pitches", help="regard info RUN")
    rows = [_with_gaps(frame, sorted({*voices}), number) for number, frame in enumerate(frames, start=1)]
    begin = 0
    while begin < len(rows):
        first, end = _window(rows, begin, filler.context - 2)
        _fill(filler, rows[first:end], begin - first, passes, interrupted)
        ready = end if end == len(rows) else begin + max(int(KEPT * (end - begin)), 1)
        for voice in (voice for row in rows[ready:end] for voice in row if voice.gap):
            voice.pitch = None
        done(ready - begin)
        begin = ready
    gaps = [voice for row in rows for voice in row if voice.gap]
    return Harmony(
        [tuple(sorted({voice.pitch for voice in row if voice.pitch is not None})) for row in rows],
        [gap.probability for gap in gaps if gap.pitch is not None],
        sum(gap.pitch is None for gap in gaps),
    )


def _with_gaps(frame: Frame, new_voices: Sequence[int], number: int) -> _Row:
    if not frame:
        return []
    count = len(frame) + len(new_voices)
    if new_voices and new_voices[-1] > count:
        what = f"there is no voice {new_voices[-1]}"
        raise DataError(
            what,
            where=f"frame {number}",
            why=f"the frame has {pluralize(len(frame), 'known voice')} and {pluralize(len(new_voices), 'new voice')}",
            help="--voice",
        )
    known = iter(frame)
    return [_Voice(None if place in new_voices else next(known)) for place in range(1, count + 1)]


def _window(rows: Sequence[_Row], begin: int, limit: int) -> tuple[int, int]:
    """Return the frames from first to end of a window; finished frames have up to half of its tokens."""
    sizes = [len(row) + 1 for row in rows]
    first, size = begin, 0
    while first > 0 and size + sizes[first - 1] <= limit // 2:
        first -= 1
        size += sizes[first]
    end = begin
    while end < len(rows) and size + sizes[end] <= limit:
        size += sizes[end]
        end += 1
    if end == begin:
        what = f"a frame of {pluralize(sizes[begin] - 1, 'voice')} is too long"
        raise ConfigError(what, where="data.context", why=f"the context is {pluralize(limit + 2, 'token')}")
    return first, end


def _fill(filler: Filler, rows: Sequence[_Row], begin: int, passes: int, interrupted: Callable[[], bool]) -> None:
    """Set the pitches of gaps in rows from ``begin``: the most probable of all first, then each given all others."""
    gaps = [
        (row, place) for row in rows[begin:] for place, voice in enumerate(row) if voice.gap and voice.pitch is None
    ]
    left = list(gaps)
    while left:
        p = _probabilities(filler, rows, left, interrupted)
        if not (p > 0).any():  # no pitch is left between adjacent known voices
            break
        number, pitch = divmod(int(p.argmax()), PITCHES)
        row, place = left.pop(number)
        row[place].pitch, row[place].probability = pitch, float(p[number, pitch])
    for _ in range(passes):
        changed = False
        for row, place in gaps:
            before, row[place].pitch = row[place].pitch, None
            if before is None:
                continue
            (p,) = _probabilities(filler, rows, [(row, place)], interrupted)
            row[place].pitch, row[place].probability = int(p.argmax()), float(p.max())
            changed = changed or row[place].pitch != before
        if not changed:
            break


def _probabilities(
    filler: Filler, rows: Sequence[_Row], gaps: Sequence[tuple[_Row, int]], interrupted: Callable[[], bool]
) -> Tensor:
    """Return (gaps, pitches) the probabilities of the pitches that fit between the known ones; 0 for others."""
    if interrupted():
        raise KeyboardInterrupt
    tokens, masks = [BEGIN], dict[tuple[int, int], int]()
    for row in rows:
        for place, voice in enumerate(row):
            if voice.pitch is None:
                masks[id(row), place] = len(masks)
            tokens.append(filler.mask if voice.pitch is None else FIRST + voice.pitch)
        tokens.append(FRAME_END)
    tokens.append(END)
    log_p = filler.log_probabilities(torch.tensor([tokens]))[[masks[id(row), place] for row, place in gaps]]
    p = log_p.double().exp()[:, FIRST : FIRST + PITCHES]
    for number, (row, place) in enumerate(gaps):
        low, high = _between(row, place)
        p[number, : max(low, 0)] = 0
        p[number, max(high, 0) :] = 0
    return p


def _between(row: _Row, place: int) -> tuple[int, int]:
    """Return the lowest and the first excluded pitch of a voice: between known pitches, with room for other gaps."""
    below = [(index, voice.pitch) for index, voice in enumerate(row[:place]) if voice.pitch is not None]
    above = [(index, voice.pitch) for index, voice in enumerate(row) if index > place and voice.pitch is not None]
    low = below[-1][1] + (place - below[-1][0]) if below else place
    high = above[0][1] - (above[0][0] - place) + 1 if above else PITCHES - (len(row) - 1 - place)
    return low, high

"""Voices for given voices, by a masked model of music: in each frame some pitches are known and the others gaps.

The likeliest pitch of all gaps is set first and read from then on, so that voices go together (as easy-first tagging
does; Shen et al. 2007). A piece longer than the model's context is harmonized from left to right, with what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core.task import not_interrupted
from regard.core.wording import pluralize_with_verb
from regard.data.notes import PITCHES, Frame
from regard.data.tokenizers.notes import FRAME_END, NotesTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.errors import ConfigError, DataError
from regard.tasks.masked.filler import Filler

FIRST = FRAME_END + 1  # the piece of pitch 0
KEPT = 2 / 3  # of a window that goes on: the rest is harmonized again when more of the piece is seen


class Harmony(NamedTuple):
    """The frames with their new voices, the probability of each pitch that was set, and gaps where none could be."""

    frames: list[Frame]
    probabilities: list[float]
    left_out: int


class _Gap:
    """A pitch of a frame: given, or found as ``pitch``; ``gap`` where it was not given."""

    def __init__(self, pitch: int | None) -> None:
        self.pitch, self.gap, self.probability = pitch, pitch is None, 1.0


def harmonize(
    filler: Filler, frames: Sequence[Frame], places: Sequence[int], *, done: Callable[[int], None] = lambda count: None,
    interrupted: Callable[[], bool] = not_interrupted,
) -> Harmony:  # fmt: skip
    """New voices for the frames that sound.

    Args:
        filler: a masked model whose pieces are pitches.
        frames: pitches that are given, rising.
        places: of the new voices among all, 1 the lowest: 2 is the tenor of four, 1, 2 and 3 are all below a melody.
        done: called with the number of frames that have become ready.
        interrupted: asked before each pass; KeyboardInterrupt where it says yes.
    """
    if not isinstance(filler.tokenizer, NotesTokenizer):
        raise ConfigError("this model knows no music", why="its pieces are no pitches", help="regard info RUN")
    rows = [_with_gaps(frame, sorted({*places}), number) for number, frame in enumerate(frames, start=1)]
    begin = 0
    while begin < len(rows):
        first, end = _window(rows, begin, filler.context - 2)
        _fill(filler, rows[first:end], begin - first, interrupted)
        ready = end if end == len(rows) else begin + max(int(KEPT * (end - begin)), 1)
        for gap in (each for row in rows[ready:end] for each in row if each.gap):
            gap.pitch = None
        done(ready - begin)
        begin = ready
    found = [each for row in rows for each in row if each.gap]
    return Harmony(
        [tuple(sorted({each.pitch for each in row if each.pitch is not None})) for row in rows],
        [each.probability for each in found if each.pitch is not None],
        sum(each.pitch is None for each in found),
    )


def _with_gaps(frame: Frame, places: Sequence[int], number: int) -> list[_Gap]:
    if not frame:
        return []
    voices = len(frame) + len(places)
    if places and places[-1] > voices:
        what = f"there is no voice {places[-1]} among {voices}"
        raise DataError(
            what,
            where=f"frame {number}",
            why=f"{pluralize_with_verb(len(frame), 'voice', 'is', 'are')} given there",
            help="--voice",
        )
    given = iter(frame)
    return [_Gap(None if place in places else next(given)) for place in range(1, voices + 1)]


def _window(rows: Sequence[Sequence[_Gap]], begin: int, most: int) -> tuple[int, int]:
    """First and last frame that are read: half of the tokens, at most, are of frames that are done."""
    sizes = [len(row) + 1 for row in rows]
    first, size = begin, 0
    while first > 0 and size + sizes[first - 1] <= most // 2:
        first -= 1
        size += sizes[first]
    end = begin
    while end < len(rows) and size + sizes[end] <= most:
        size += sizes[end]
        end += 1
    if end == begin:
        what = f"a frame of {sizes[begin] - 1} voices is too long"
        raise ConfigError(what, where="data.context", why=f"the model reads {most + 2} tokens at once")
    return first, end


@torch.no_grad()
def _fill(filler: Filler, rows: Sequence[Sequence[_Gap]], begin: int, interrupted: Callable[[], bool]) -> None:
    """Set the gaps of rows from ``begin`` on, the likeliest of all first."""
    left = [(row, place) for row in rows[begin:] for place, each in enumerate(row) if each.gap and each.pitch is None]
    while left:
        if interrupted():
            raise KeyboardInterrupt
        tokens, columns = [BEGIN], {}
        for row in rows:
            for place, each in enumerate(row):
                columns[id(row), place] = len(tokens)
                tokens.append(filler.mask if each.pitch is None else FIRST + each.pitch)
            tokens.append(FRAME_END)
        tokens.append(END)
        p = _pitches(filler, tokens, [columns[id(row), place] for row, place in left])
        for number, (row, place) in enumerate(left):
            low, high = _between(row, place)
            p[number, : max(low, 0)] = 0
            p[number, max(high, 0) :] = 0
        if not (p > 0).any():  # voices that meet: there is no pitch between them
            return
        number, pitch = divmod(int(p.argmax()), PITCHES)
        row, place = left.pop(number)
        row[place].pitch, row[place].probability = pitch, float(p[number, pitch])


def _pitches(filler: Filler, tokens: list[int], columns: list[int]) -> Tensor:
    """(gaps, pitches): probabilities."""
    row = torch.tensor([tokens], device=filler.device)
    features = filler.model(row, Span.without_padding(row))[0, columns]
    return filler.model.log_probabilities(features).double().exp().cpu()[:, FIRST : FIRST + PITCHES]


def _between(row: Sequence[_Gap], place: int) -> tuple[int, int]:
    """The pitches that may stand there, from low to below high: between those known, with room for gaps beside it."""
    below = [(at, each.pitch) for at, each in enumerate(row[:place]) if each.pitch is not None]
    above = [(at, each.pitch) for at, each in enumerate(row) if at > place and each.pitch is not None]
    low = below[-1][1] + (place - below[-1][0]) if below else place
    high = above[0][1] - (above[0][0] - place) + 1 if above else PITCHES - (len(row) - 1 - place)
    return low, high

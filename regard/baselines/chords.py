"""Baseline of masked models of music: tables of chords in their key, and with the frames before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from regard.baselines.context_product import GapContexts
from regard.baselines.context_tables import Numbers, Table, code
from regard.baselines.gaps import Flags, GapBaseline, HiddenTokens
from regard.core.baseline import Floats
from regard.data.notes import MIDDLE_C, PITCHES
from regard.data.tokenizers.notes import FIRST, FRAME_END
from regard.data.tokenizers.tokenizer import BEGIN, END

VOICES = 8  # of a frame that are read, the lowest ones
FAR = 15  # largest number of tokens to a visible end of a frame that is distinguished
UNISON, END_OF_FRAME = PITCHES, 2 * PITCHES  # outcomes: an interval of 0; the end of the frame
NONE = -2  # no such voice
RELATIVE = 1000  # added to intervals in contexts, to differ from HIDDEN and NONE
MAX_GAPS = 600_000  # that are counted
DRAWS = 20  # of the hidden tokens of a piece, as many by voice
SHARE, VOICE_SHARE = 0.3, 0.4  # of tokens, and of voices, that are hidden
PITCH_SHARES = (0.5, 1.0)  # of the pitches of a hidden voice that are hidden
OCTAVE = 12
# Weights of the pitches of a major scale, from its tonic: all count, the tonic and the fifth decide between equal fits.
SCALE = np.array([102, 0, 100, 0, 100, 100, 0, 101, 0, 100, 0, 100])


class _Frames(NamedTuple):
    """The frames of gaps, and those before and after: (gaps, ``VOICES``) tokens, ``HIDDEN`` or ``NONE``.

    The tokens between two visible ends of frames are a frame; a hidden end joins two frames.

    Attributes:
        before: (gaps,) number of tokens of the frame before the gap.
        after: (gaps,) number of tokens to the end of the frame.
        own: the frame of the gap.
        last: the frame before.
        next: the frame after.
    """

    before: Numbers
    after: Numbers
    own: Table
    last: Table
    next: Table


class ChordBaseline(GapBaseline):
    """Tables of intervals to a visible pitch, so chords are counted at every height.

    The contexts are, in this order: the place of the gap in its frame; its nearest visible neighbors there; the frame;
    the frame and its degree in the key of the piece. Then those with the same voice, the lowest voice and the whole of
    the frame before, of that after, and of both. The key is the major scale with the most visible pitches of the piece.
    Pieces that differ in height only are counted once. Counted gaps are hidden at random and by voice, in several
    draws.
    """

    kind: ClassVar[str] = "chords"
    alone: ClassVar[bool] = False

    @property
    def description(self) -> str:
        return "product of Kneser–Ney tables of chords with the frames before and after"

    def begin(self, types: int) -> Flags:
        if types != FIRST + PITCHES:
            raise ValueError("the vocabulary is not that of notes")
        self.types, self.levels = types, (4, 3, 3, 3)
        return np.arange(END_OF_FRAME + 1) > 0

    def key(self, text: Numbers) -> bytes:
        """Return the same for pieces that differ in height, or in their first frame, which may be a prompt, only."""
        rest = text[int((text == FRAME_END).argmax()) :]
        pitches = rest[rest >= FIRST]
        lowest = int(pitches.min()) if len(pitches) else 0
        return np.where(rest >= FIRST, rest - lowest + RELATIVE, rest).tobytes()

    def distinct(self, texts: Sequence[Numbers]) -> list[int]:
        """Return one of the texts of each key."""
        first = dict[bytes, int]()
        for index, text in enumerate(texts):
            first.setdefault(self.key(text), index)
        return list(first.values())

    def counted(self, texts: Sequence[Numbers]) -> HiddenTokens:
        random, number = np.random.default_rng(0), 0
        draws, hidden = list[Numbers](), list[Flags]()
        for _ in range(DRAWS):
            for text in texts if number < MAX_GAPS else ():
                for flags in (_hidden_tokens(text, random), _hidden_voices(text, random)):
                    draws.append(text)
                    hidden.append(flags)
                    number += int(flags.sum())
        return HiddenTokens.of(draws, hidden)

    def gaps(self, tokens: HiddenTokens) -> tuple[GapContexts, Numbers, Numbers]:
        frames = _frames(tokens)
        reference = _reference(frames)
        contexts = _contexts(frames, reference, _degree(tokens, reference))
        targets = tokens.tokens[tokens.chosen]
        outcomes = np.where(targets == FRAME_END, END_OF_FRAME, targets - reference + UNISON)
        return contexts, outcomes, targets - outcomes

    def token_distribution(self, tokens: HiddenTokens) -> tuple[Floats, Numbers]:
        frames = _frames(tokens)
        reference = _reference(frames)
        contexts = _contexts(frames, reference, _degree(tokens, reference))
        outcomes, buckets = self.product.evidence(contexts, len(reference))
        p = np.zeros((len(reference), self.types))
        p[:, FRAME_END] = outcomes[:, END_OF_FRAME]
        pitches = np.arange(FIRST, FIRST + PITCHES)
        p[:, FIRST:] = np.take_along_axis(outcomes, pitches - reference[:, None] + UNISON, 1)
        return p, buckets


def _hidden_tokens(text: Numbers, random: np.random.Generator) -> Flags:
    return np.asarray((text > END) & (random.random(len(text)) < SHARE))


def _hidden_voices(text: Numbers, random: np.random.Generator) -> Flags:
    """Hide pitches of some voices, counted from the lowest of a frame."""
    index = np.arange(len(text))
    voice = index - np.maximum.accumulate(np.where(text <= FRAME_END, index, 0)) - 1
    hidden = random.random(VOICES) < VOICE_SHARE
    hidden[random.integers(4)] = True
    share = random.choice(PITCH_SHARES)
    return np.asarray((text > FRAME_END) & hidden[np.clip(voice, 0, VOICES - 1)] & (random.random(len(text)) < share))


def _frames(tokens: HiddenTokens) -> _Frames:
    """Return the frames around the chosen positions."""
    read, index = tokens.read, np.arange(len(tokens.read))
    ends = (read == BEGIN) | (read == END) | (read == FRAME_END)
    last = np.maximum.accumulate(np.where(ends, index, -1))
    following = np.minimum.accumulate(np.where(ends, index, len(index))[::-1])[::-1]
    gap = np.flatnonzero(tokens.chosen)
    begin, end = last[gap], following[gap]
    # Between two texts is an empty frame, so frames of another text are not read.
    earlier = last[np.maximum(begin - 1, 0)]
    later = following[np.minimum(end + 1, len(index) - 1)]

    def voices(begin: Numbers, end: Numbers) -> Table:
        place = begin[:, None] + 1 + np.arange(VOICES)
        return np.where(place < end[:, None], read[np.minimum(place, len(index) - 1)], NONE)

    return _Frames(gap - begin - 1, end - gap, voices(begin, end), voices(earlier, begin), voices(end, later))


def _same_voice(frames: _Frames, other: Table) -> Numbers:
    """Return the token of each gap's voice in another frame; NONE if the number of voices differs."""
    same = (other != NONE).sum(1) == (frames.own != NONE).sum(1)
    place = np.minimum(frames.before, VOICES - 1)
    return np.where(same, other[np.arange(len(other)), place], NONE)


def _reference(frames: _Frames) -> Numbers:
    """Return the token of the pitch from which intervals are counted.

    It is the lowest visible pitch of the frame; else the same voice before, or after; else the lowest pitch before, or
    after; else middle C.
    """
    reference = _lowest(frames.own)
    voices = _same_voice(frames, frames.last), _same_voice(frames, frames.next)
    for pitch in (*(np.where(voice >= FIRST, voice, 0) for voice in voices), *map(_lowest, frames[3:])):
        reference = np.where(reference == 0, pitch, reference)
    return np.where(reference == 0, FIRST + MIDDLE_C, reference)


def _lowest(frame: Table) -> Numbers:
    """Return the first visible pitch of each frame, 0 without one."""
    pitch = frame >= FIRST
    first = frame[np.arange(len(frame)), pitch.argmax(1)]
    return np.where(pitch.any(1), first, 0)


def _degree(tokens: HiddenTokens, reference: Numbers) -> Numbers:
    """Return the number of semitones, 0 to 11, from the tonic of each gap's text to its reference."""
    text = np.maximum(np.cumsum(tokens.read == BEGIN) - 1, 0)
    visible, counts = tokens.read >= FIRST, np.zeros((int(text.max(initial=0)) + 1, OCTAVE), np.int64)
    np.add.at(counts, (text[visible], (tokens.read[visible] - FIRST) % OCTAVE), 1)
    fits = counts @ np.stack([np.roll(SCALE, tonic) for tonic in range(OCTAVE)], 1)
    return np.asarray((reference - FIRST - fits.argmax(1)[text[tokens.chosen]]) % OCTAVE)


def _contexts(frames: _Frames, reference: Numbers, degree: Numbers) -> GapContexts:
    """Return the codes of the contexts."""
    row = np.arange(len(reference))

    def interval(pitch: Numbers) -> Numbers:
        return np.where(pitch >= FIRST, pitch - reference + RELATIVE, pitch)

    own, last, following = ([interval(voice) for voice in frame.T] for frame in frames[2:])
    earlier, later = (interval(_same_voice(frames, frame)) for frame in frames[3:])
    place = [np.minimum(frames.before, FAR), np.minimum(frames.after, FAR)]
    voice, visible = np.arange(VOICES), frames.own >= FIRST
    below = np.where(visible & (voice < frames.before[:, None]), voice, -1).max(1)
    above = np.where(visible & (voice > frames.before[:, None]), voice, VOICES).min(1)
    table = np.stack([*own, np.full_like(row, NONE)], 1)  # the last column is that of no neighbor
    neighbors = [below - frames.before, table[row, below], above - frames.before, table[row, above]]
    frame = code(0, [*place, *own])
    key, before, after = code(10, [frame, degree]), code(0, last), code(0, following)  # hashed once
    bass, next_bass = last[0], following[0]
    return GapContexts(
        [code(1, place), code(2, [*place, *neighbors]), code(3, [frame]), key],
        [code(4, [key, earlier]), code(5, [key, earlier, bass]), code(6, [key, earlier, before])],
        [code(7, [key, later]), code(8, [key, later, next_bass]), code(9, [key, later, after])],
        [
            code(11, [key, earlier, later]),
            code(12, [key, earlier, later, bass, next_bass]),
            code(13, [key, earlier, later, before, after]),
        ],
    )

"""Masking of tokens: choice of the predicted tokens and their replacements, as pure functions of a generator."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.data.tokenizers.notes import FRAME_END
from regard.data.tokenizers.tokenizer import END, SPECIALS, Tokenizer

Tokens = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
LONGEST_SPAN = 10  # tokens, as in SpanBERT
STRETCH = (4, 32)  # frames of a hidden voice
MARKS = ("▁", "Ġ")  # a piece that begins with one begins a word


class MaskingConfig(BaseModel):
    """Predicted positions of a text, and the tokens that replace them in the input (Devlin et al. 2019, §3.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    unit: Literal["token", "word", "span", "voice"] = Field(
        "token",
        description="unit of masking: tokens; words with all of their pieces; spans of tokens (Joshi et al. 2020); of "
        "music, some voices over 4 to 32 frames (Huang et al. 2017)",
    )
    share: float = Field(0.15, gt=0, le=1, description="share of a text's tokens that is predicted, at least one")
    mask: float = Field(0.8, ge=0, le=1, description="share of these that training replaces by the mask")
    random: float = Field(
        0.1, ge=0, le=1, description="share that training replaces by random tokens; the rest is unchanged"
    )
    span: float = Field(
        3.8, ge=1, le=LONGEST_SPAN, description="mean number of tokens of a span, before the limit of 10"
    )
    seed: int = Field(1, ge=0, description="seed of the evaluation mask, a function of this and the text")

    @model_validator(mode="after")
    def _parts_of_one(self) -> MaskingConfig:
        if self.mask + self.random > 1 + 1e-9:
            raise InvalidCombination(
                "masking.mask",
                "masking.random",
                why=f"the shares {self.mask:g} (masked) and {self.random:g} (random) add up to more than 1",
                help="--set masking.mask=0.8 --set masking.random=0.1",
            )
        return self


class Masked(NamedTuple):
    """Input tokens with replacements, and the positions at which the network predicts the original tokens."""

    read: Tokens
    chosen: Flags


def word_starts(tokenizer: Tokenizer) -> tuple[Flags, Flags]:
    """Return two masks (types,): pieces that begin a word, and pieces that are a space, after which a word begins."""
    pieces = range(len(SPECIALS), len(tokenizer))
    spellings = tokenizer.pieces(pieces)
    whole = tokenizer.config.kind in ("word", "pretokenized")
    if tokenizer.config.kind == "wordpiece":
        begins = [not piece.startswith("##") for piece in spellings]
    else:
        begins = [whole or piece.startswith(MARKS) for piece in spellings]
    single = tokenizer.config.kind in ("character", "byte")
    spaces = [single and tokenizer.decode([piece]).isspace() for piece in pieces]
    special = [True] * len(SPECIALS)
    return np.array(special + begins), np.array(special + spaces)


def word_numbers(tokens: Tokens, starts: tuple[Flags, Flags]) -> Tokens:
    """Return the number of the word of each token, ascending; ``starts``: masks from ``word_starts``."""
    begins, spaces = starts
    space = spaces[tokens]
    first = begins[tokens] | space
    first[1:] |= space[:-1]
    return np.cumsum(first)


def number_masked(maskable: Tokens, share: float) -> Tokens:
    """Return the number of tokens to choose from ``maskable`` tokens: the share, and at least one if there is any."""
    return np.minimum(np.maximum(np.rint(maskable * share), 1), maskable).astype(np.int64)


def masked(
    tokens: Tokens, config: MaskingConfig, random: np.random.Generator, *, types: int, starts: tuple[Flags, Flags]
) -> Masked:
    """Mask tokens for training.

    Special tokens are neither chosen nor used as random replacements. Words are always chosen whole, so the share may
    be exceeded by a few tokens.

    Args:
        tokens: (length,).
        config: unit and shares.
        random: source of randomness.
        types: vocabulary size of the tokenizer; the mask is the token after these.
        starts: masks from ``word_starts``.
    """
    chosen = _chosen(tokens, config, random, starts)
    positions = np.flatnonzero(chosen)
    fate, drawn = random.random(len(positions)), random.integers(len(SPECIALS), types, len(positions))
    read = tokens.copy()
    read[positions] = np.where(
        fate < config.mask, types, np.where(fate < config.mask + config.random, drawn, read[positions])
    )
    return Masked(read, chosen)


def mask_fully(
    tokens: Tokens, config: MaskingConfig, random: np.random.Generator, *, types: int, starts: tuple[Flags, Flags]
) -> Masked:
    """Mask tokens for evaluation: the mask replaces every chosen position."""
    chosen = _chosen(tokens, config, random, starts)
    return Masked(np.where(chosen, types, tokens), chosen)


def _chosen(tokens: Tokens, config: MaskingConfig, random: np.random.Generator, starts: tuple[Flags, Flags]) -> Flags:
    maskable = tokens > END
    count = int(number_masked(maskable.sum(), config.share))
    if config.unit == "word":
        return _words(tokens, maskable, count, random, starts)
    if config.unit == "span":
        return _spans(maskable, count, config.span, random)
    if config.unit == "voice" and (tokens > FRAME_END).any():
        return _voices(tokens, config.share, random)
    chosen = np.zeros(len(tokens), bool)
    chosen[random.permutation(np.flatnonzero(maskable))[:count]] = True
    return chosen


def _words(
    tokens: Tokens, maskable: Flags, count: int, random: np.random.Generator, starts: tuple[Flags, Flags]
) -> Flags:
    """Choose whole words in random order until enough tokens are chosen."""
    word = word_numbers(tokens, starts)
    chosen = np.zeros(len(tokens), bool)
    words = np.unique(word[maskable])
    for number in random.permutation(words):
        if chosen.sum() >= count:
            break
        chosen |= (word == number) & maskable
    return chosen


def _spans(maskable: Flags, count: int, mean: float, random: np.random.Generator) -> Flags:
    """Choose spans with random starts and geometric lengths, without special tokens; the last one is truncated."""
    chosen = np.zeros(len(maskable), bool)
    while (left := count - int(chosen.sum())) > 0:
        start = int(random.choice(np.flatnonzero(maskable & ~chosen)))
        length = min(int(random.geometric(1 / mean)), LONGEST_SPAN, left)
        for position in range(start, min(start + length, len(maskable))):
            if not maskable[position] or chosen[position]:
                break
            chosen[position] = True
    return chosen


def voice_numbers(tokens: Tokens) -> Tokens:
    """Return the number of each pitch in its frame, from 0, the lowest; negative for other tokens."""
    index = np.arange(len(tokens))
    return np.where(tokens > FRAME_END, index - np.maximum.accumulate(np.where(tokens <= FRAME_END, index, -1)) - 1, -1)


def _voices(tokens: Tokens, share: float, random: np.random.Generator) -> Flags:
    """Choose all but at least one of the voices over stretches of frames, until the share of pitches is chosen."""
    frame, voice = np.cumsum(tokens == FRAME_END), voice_numbers(tokens)
    count, voices = int(number_masked((voice >= 0).sum(), share)), int(voice.max()) + 1
    chosen = np.zeros(len(tokens), bool)
    while chosen.sum() < count:
        hidden = random.permutation(voices)[: random.integers(1, max(voices, 2))]
        length = random.integers(STRETCH[0], STRETCH[1], endpoint=True)
        begin = random.integers(1 - length, frame[-1], endpoint=True)  # as often at the ends as elsewhere
        chosen |= np.isin(voice, hidden) & (frame >= begin) & (frame < begin + length)
    return chosen

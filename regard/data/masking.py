"""Masking of tokens as data: which are to be predicted, and what stands in their place, as pure functions of a draw."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.data.tokenizers.tokenizer import END, SPECIALS, Tokenizer

Tokens = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
LONGEST_SPAN = 10  # tokens, as in SpanBERT
MARKS = ("▁", "Ġ")  # a piece that begins with one begins a word


class MaskingConfig(BaseModel):
    """Places of a text that are predicted, and what the network reads there instead (Devlin et al. 2019, §3.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    unit: Literal["token", "word", "span"] = Field(
        "token",
        description="what is chosen: tokens; words with all of their pieces; spans of tokens (Joshi et al. 2020)",
    )
    share: float = Field(0.15, gt=0, le=1, description="part of a text's tokens that is predicted, at least one")
    mask: float = Field(0.8, ge=0, le=1, description="part of these that is read as the mask in training")
    random: float = Field(
        0.1, ge=0, le=1, description="part that is read as a token drawn at random; the rest as it is"
    )
    span: float = Field(3.8, ge=1, le=LONGEST_SPAN, description="tokens of a span on average, before the limit of 10")
    seed: int = Field(
        1, ge=0, description="of the places of evaluation, which are a function of this and the text alone"
    )

    @model_validator(mode="after")
    def _parts_of_one(self) -> MaskingConfig:
        if self.mask + self.random > 1 + 1e-9:
            raise InvalidCombination(
                "masking.mask",
                "masking.random",
                why=f"{self.mask:g} masked and {self.random:g} drawn at random are more than all",
                help="--set masking.mask=0.8 --set masking.random=0.1",
            )
        return self


class Masked(NamedTuple):
    """Tokens as the network reads them, and the places at which it predicts what stood there."""

    read: Tokens
    chosen: Flags


def word_starts(tokenizer: Tokenizer) -> tuple[Flags, Flags]:
    """(types,): whether a piece begins a word, and whether it is a space, after which one begins."""
    pieces = range(len(SPECIALS), len(tokenizer))
    spelled = tokenizer.pieces(pieces)
    whole = tokenizer.config.kind in ("word", "pretokenized")
    begins = [whole or piece.startswith(MARKS) for piece in spelled]
    single = tokenizer.config.kind in ("character", "byte")
    spaces = [single and tokenizer.decode([piece]).isspace() for piece in pieces]
    special = [True] * len(SPECIALS)
    return np.array(special + begins), np.array(special + spaces)


def number_masked(maskable: Tokens, share: float) -> Tokens:
    """Number of tokens chosen of so many: that share, and at least one of any."""
    return np.minimum(np.maximum(np.rint(maskable * share), 1), maskable).astype(np.int64)


def masked(
    tokens: Tokens, config: MaskingConfig, random: np.random.Generator, *, types: int, starts: tuple[Flags, Flags]
) -> Masked:
    """The tokens as they are read in training. ``types``: of the tokenizer; the mask is the type after these.

    Special tokens are neither chosen nor drawn. Of words the last that is chosen comes whole, so that there may be a
    few tokens more than the share.
    """
    chosen = _chosen(tokens, config, random, starts)
    places = np.flatnonzero(chosen)
    fate, drawn = random.random(len(places)), random.integers(len(SPECIALS), types, len(places))
    read = tokens.copy()
    read[places] = np.where(
        fate < config.mask, types, np.where(fate < config.mask + config.random, drawn, read[places])
    )
    return Masked(read, chosen)


def hidden(
    tokens: Tokens, config: MaskingConfig, random: np.random.Generator, *, types: int, starts: tuple[Flags, Flags]
) -> Masked:
    """The tokens as they are read in evaluation: at every place that is chosen stands the mask."""
    chosen = _chosen(tokens, config, random, starts)
    return Masked(np.where(chosen, types, tokens), chosen)


def _chosen(tokens: Tokens, config: MaskingConfig, random: np.random.Generator, starts: tuple[Flags, Flags]) -> Flags:
    maskable = tokens > END
    wanted = int(number_masked(maskable.sum(), config.share))
    if config.unit == "word":
        return _words(tokens, maskable, wanted, random, starts)
    if config.unit == "span":
        return _spans(maskable, wanted, config.span, random)
    chosen = np.zeros(len(tokens), bool)
    chosen[random.permutation(np.flatnonzero(maskable))[:wanted]] = True
    return chosen


def _words(
    tokens: Tokens, maskable: Flags, wanted: int, random: np.random.Generator, starts: tuple[Flags, Flags]
) -> Flags:
    """Words in a drawn order until there are enough tokens."""
    begins, spaces = starts
    space = spaces[tokens]
    first = begins[tokens] | space
    first[1:] |= space[:-1]
    word = np.cumsum(first)
    chosen = np.zeros(len(tokens), bool)
    words = np.unique(word[maskable])
    for each in random.permutation(words):
        if chosen.sum() >= wanted:
            break
        chosen |= (word == each) & maskable
    return chosen


def _spans(maskable: Flags, wanted: int, mean: float, random: np.random.Generator) -> Flags:
    """Spans of geometric lengths from drawn tokens on, over no special token; the last is cut to the share."""
    chosen = np.zeros(len(maskable), bool)
    while (left := wanted - int(chosen.sum())) > 0:
        at = int(random.choice(np.flatnonzero(maskable & ~chosen)))
        length = min(int(random.geometric(1 / mean)), LONGEST_SPAN, left)
        for place in range(at, min(at + length, len(maskable))):
            if not maskable[place] or chosen[place]:
                break
            chosen[place] = True
    return chosen

"""Influence of each word of a text on the predictions for its gaps. A word is hidden by a gap in its place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.core.observation import Influence, Observation
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.tasks.influence import BATCH_ROWS, HiddenPieces, influences, require_few


def text_pieces(text: str, blank: str, *, by_character: bool) -> tuple[str, ...]:
    """Return the gaps and words of a text, or its gaps and characters, with the white space around them."""
    pattern = r"\s*\S(?:\s+\Z)?|\s+\Z" if by_character else r"\s*\S+(?:\s+\Z)?|\s+\Z"
    parts = re.split(f"({re.escape(blank)})", text)
    return tuple(piece for part in parts for piece in ([part] if part == blank else re.findall(pattern, part)))


def gap_influences(
    observation: Observation, blank: str, tokens: Callable[[str], list[int]],
    log_probabilities: Callable[[Tensor], Tensor], *, mask: int,
) -> tuple[Influence, ...]:  # fmt: skip
    """Return the influence of each piece on the best candidate of each gap.

    Args:
        observation: the observation of the text; its surface has ``text_pieces``.
        blank: the text of a gap.
        tokens: returns the tokens of a text with gaps.
        log_probabilities: of each gap (gaps, types) of rows of equal length (rows, length), row by row.
        mask: the token of a gap.
    """
    pieces = observation.surfaces[0].pieces
    require_few(len(pieces))
    whole, gaps = tokens("".join(pieces)), [piece == blank for piece in pieces]
    variants: list[list[int] | None] = [None] * len(pieces)
    for place, piece in enumerate(pieces):
        if not gaps[place] and not piece.isspace():
            row = tokens("".join([*pieces[:place], re.sub(r"\S+", lambda word: blank, piece), *pieces[place + 1 :]]))
            # A piece without tokens has no influence; a gap in its place would make the text longer.
            variants[place] = row if len(row) <= len(whole) else None

    def scores(hidden: list[list[int]]) -> list[list[float]]:
        first, *without = _by_length([whole, *hidden], log_probabilities, mask)
        allowed = first.clone()
        allowed[:, : len(SPECIALS)] = allowed[:, mask] = -torch.inf
        best = allowed.argmax(1)[:, None]
        new_gaps = [sum(gaps[:place]) for place, row in enumerate(variants) if row is not None]
        own = [torch.cat([rows[:gap], rows[gap + 1 :]]) for rows, gap in zip(without, new_gaps, strict=True)]
        return [rows.gather(1, best)[:, 0].double().tolist() for rows in (first, *own)]

    return influences(observation.predictions, [HiddenPieces(0, "replaced by a gap", variants)], scores)


def _by_length(rows: Sequence[list[int]], log_probabilities: Callable[[Tensor], Tensor], mask: int) -> list[Tensor]:
    """Return the outputs (gaps, types) of each row; rows of equal length are computed together."""
    numbers: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        numbers[len(row)].append(number)
    outputs: dict[int, Tensor] = {}
    for same in numbers.values():
        for part in (same[start : start + BATCH_ROWS] for start in range(0, len(same), BATCH_ROWS)):
            table = log_probabilities(torch.tensor([rows[number] for number in part]))
            outputs.update(zip(part, table.split([rows[number].count(mask) for number in part]), strict=True))
    return [outputs[number] for number in range(len(rows))]

"""Spans of tags: B-X begins one of kind X, I-X goes on with it, O stands outside (Ramshaw and Marcus 1995, IOB2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["TagSpan", "are_spans", "best_path", "spans"]


class TagSpan(NamedTuple):
    """A kind, its first token, and the one after its last."""

    kind: str
    begin: int
    end: int


def are_spans(tags: Sequence[str]) -> bool:
    """Return whether tags are O, B-X and I-X, with one B-X at least."""
    known = [tag for tag in tags if tag == "O" or (tag[:2] in ("B-", "I-") and tag[2:])]
    return len(known) == len(tags) and any(tag.startswith("B-") for tag in tags)


def spans(tags: Sequence[str]) -> list[TagSpan]:
    """The spans of a sentence; I-X after anything but B-X or I-X begins one, too, as conlleval has it."""
    found: list[TagSpan] = []
    begin, kind = 0, ""
    for at, tag in enumerate([*tags, "O"]):
        goes_on = tag.startswith("I-") and tag[2:] == kind
        if kind and not goes_on:
            found.append(TagSpan(kind, begin, at))
        if not goes_on:
            begin, kind = at, tag[2:]
    return found


def best_path(log_p: npt.NDArray[np.float64], tags: Sequence[str]) -> list[int]:
    """The likeliest tags of which every I-X goes on with an X, tokens told for themselves (Viterbi 1967).

    Cost: tokens · tags².
    """
    allowed = np.array([[_may_follow(one, other) for other in tags] for one in tags])
    barred = np.where(allowed, 0.0, -np.inf)
    score = log_p[0] + np.where([_may_follow("O", tag) for tag in tags], 0.0, -np.inf)
    back: list[npt.NDArray[np.intp]] = []
    for row in log_p[1:]:
        reached = score[:, None] + barred
        back.append(reached.argmax(0))
        score = reached.max(0) + row
    path = [int(score.argmax())]
    for choice in reversed(back):
        path.append(int(choice[path[-1]]))
    return path[::-1]


def _may_follow(one: str, other: str) -> bool:
    return not other.startswith("I-") or one[2:] == other[2:] != ""

"""Spans in tag sequences of the schemes IOB1, IOB2, IOBES and BILOU: detection, decoding and encoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

TagScheme = Literal["iob1", "iob2", "iobes", "bilou"]
SCHEMES: tuple[TagScheme, ...] = ("iob1", "iob2", "iobes", "bilou")
OUTSIDE = "O"
# Roles of prefixes: B begins a span, I continues one, E is its last token, S is a span of one token.
ROLES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class TagSpan(NamedTuple):
    """A span of tokens, such as the name of a place.

    Attributes:
        kind: the type of the span, such as ``LOC``.
        begin: index of its first token, from 0.
        end: index of the token after its last.
    """

    kind: str
    begin: int
    end: int

    def described(self, tokens: Sequence[str]) -> dict[str, str | int]:
        """Return the fields and the text of the span, for JSON."""
        return {**self._asdict(), "text": " ".join(tokens[self.begin : self.end])}


def are_spans(tags: Sequence[str]) -> bool:
    """Return whether the tags are O, B-X and I-X, with at least one B-X."""
    return _prefixes(tags) <= {"B", "I"} and any(tag.startswith("B-") for tag in tags)


def transitions(sentences: Iterable[Sequence[str]]) -> Counter[tuple[str, str]]:
    """Count pairs of each tag and its predecessor, which is O for the first tag."""
    return Counter(pair for tags in sentences for pair in zip((OUTSIDE, *tags), tags, strict=False))


def find_scheme(counts: Mapping[tuple[str, str], int]) -> TagScheme | None:
    """Return the scheme of tags with these ``transitions``; None if they are not spans.

    I-X after a tag other than X begins a span in IOB1 (Ramshaw and Marcus 1995); in IOB2, B-X does. The more frequent
    of both decides, so single wrong tags in the data do not matter.
    """
    prefixes = _prefixes([tag for _, tag in counts])
    if not prefixes or not prefixes <= ROLES.keys():
        return None
    if prefixes & {"E", "S"}:
        return None if prefixes & {"L", "U"} else "iobes"
    if prefixes & {"L", "U"}:
        return "bilou"
    starts: Counter[str] = Counter()
    for (before, tag), count in counts.items():
        if tag != OUTSIDE and before[2:] != tag[2:]:
            starts[tag[0]] += count
    return "iob1" if starts["I"] > starts["B"] else "iob2"


def scheme_of_names(tags: Sequence[str]) -> TagScheme | None:
    """Return the scheme of tags without data: IOB1 if a kind has only I-X, which then must begin spans."""
    if not are_spans(tags):
        return None
    return "iob2" if all(f"B-{tag[2:]}" in tags for tag in tags if tag.startswith("I-")) else "iob1"


def _prefixes(tags: Iterable[str]) -> set[str]:
    """Return the letters before the kinds; "" for a tag other than O without a kind."""
    return {tag[0] if tag[1:2] == "-" and tag[2:] else "" for tag in tags if tag != OUTSIDE}


def spans(tags: Sequence[str]) -> list[TagSpan]:
    """Return the spans of a sentence in any of the schemes, as read by conlleval.

    A tag that does not continue a span begins one.
    """
    entities: list[TagSpan] = []
    begin, kind, role = 0, "", ""  # of the previous tag; no kind: outside
    for position, tag in enumerate([*tags, OUTSIDE]):
        following, following_role = tag[2:], ROLES.get(tag[:1], "")
        continues = kind == following != "" and role in ("B", "I") and following_role in ("I", "E")
        if kind and not continues:
            entities.append(TagSpan(kind, begin, position))
        if not continues:
            begin = position
        kind, role = following, following_role
    return entities


def write_iob(entities: Sequence[TagSpan], length: int, scheme: Literal["iob1", "iob2"]) -> tuple[str, ...]:
    """Return the tags of ``length`` tokens with these spans, which are sorted by position."""
    tags = [OUTSIDE] * length
    for kind, begin, end in entities:
        follows_its_kind = begin > 0 and tags[begin - 1][2:] == kind
        first = "B" if scheme == "iob2" or follows_its_kind else "I"
        tags[begin:end] = [f"{first}-{kind}", *[f"I-{kind}"] * (end - begin - 1)]
    return tuple(tags)


def best_path(log_p: npt.NDArray[np.float64], tags: Sequence[str], scheme: TagScheme | None = None) -> list[int]:
    """Return the most likely tag sequence that is valid in ``scheme``, with independent tokens (Viterbi 1967).

    IOB1 allows every sequence, since both I-X and B-X may begin a span. Cost: tokens · tags².

    Args:
        log_p: (tokens, tags), at least one token.
        tags: the names of the classes.
        scheme: the scheme; by default, the one that the names suggest.
    """
    first, between, last = _allowed(tuple(tags), scheme or scheme_of_names(tags) or "iob2")
    score = log_p[0] + first
    back: list[npt.NDArray[np.intp]] = []
    for row in log_p[1:]:
        reached = score[:, None] + between
        back.append(reached.argmax(0))
        score = reached.max(0) + row
    score = score + last
    if np.isneginf(score.max()):  # no valid sequence, such as an odd length without O and one-token tags
        return [int(number) for number in log_p.argmax(1)]
    path = [int(score.argmax())]
    for choice in reversed(back):
        path.append(int(choice[path[-1]]))
    return path[::-1]


@lru_cache(maxsize=16)  # one entry per model; called for each sentence
def _allowed(tags: tuple[str, ...], scheme: TagScheme) -> tuple[npt.NDArray[np.float64], ...]:
    """Return scores of first tags, of transitions (previous, next), and of last tags: 0 if allowed, else −∞."""
    between = [[_may_follow(one, other, tags, scheme) for other in tags] for one in tags]
    first = [_may_follow(OUTSIDE, tag, tags, scheme) for tag in tags]
    last = [_may_follow(tag, OUTSIDE, tags, scheme) for tag in tags]
    return tuple(np.where(allowed, 0.0, -np.inf) for allowed in (first, between, last))


def _may_follow(one: str, other: str, tags: Sequence[str], scheme: TagScheme) -> bool:
    """Return whether ``other`` may follow ``one``.

    A kind without a beginning tag may begin with any of its tags; one without an ending tag may end anywhere.
    """
    if scheme == "iob1":
        return True
    kind, role = other[2:], ROLES.get(other[:1], "")
    continues = kind != "" and one[2:] == kind and ROLES.get(one[:1]) in ("B", "I") and role in ("I", "E")
    begins = role not in ("I", "E") or not _has(tags, kind, "B")
    if scheme == "iob2":
        return continues or begins
    ends = ROLES.get(one[:1]) not in ("B", "I") or not _has(tags, one[2:], "E")
    return continues or (begins and ends)


def _has(tags: Sequence[str], kind: str, role: str) -> bool:
    return any(tag[2:] == kind and ROLES.get(tag[:1]) == role for tag in tags)

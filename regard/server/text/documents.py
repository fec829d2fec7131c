"""A text as sentences to translate and all else that it consists of, whatever it is read as."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from regard.server.text.word_alignment import Links

__all__ = ["Document", "Parted"]


class Document(Protocol):
    """A text whose ``sentences`` are translated.

    ``linked`` are the numbers of those of which ``joined`` wants to know which word stands for which.
    """

    @property
    def sentences(self) -> list[str]: ...

    @property
    def linked(self) -> Collection[int]: ...

    def joined(self, sentences: Sequence[str], links: Mapping[int, Links]) -> str:
        """The text with these for its sentences."""


class Parted:
    """A document of documents, and of texts that stay as they are."""

    def __init__(self, parts: Sequence[str | Document]) -> None:
        self._parts = parts
        self._inner = [part for part in parts if not isinstance(part, str)]

    @property
    def sentences(self) -> list[str]:
        return [sentence for each in self._inner for sentence in each.sentences]

    @property
    def linked(self) -> Collection[int]:
        found, first = [], 0
        for each in self._inner:
            found += [first + number for number in each.linked]
            first += len(each.sentences)
        return found

    def joined(self, sentences: Sequence[str], links: Mapping[int, Links]) -> str:
        """The text with these for its sentences."""
        parts, at = [], 0
        for part in self._parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            end = at + len(part.sentences)
            parts.append(part.joined(sentences[at:end], {n - at: links[n] for n in range(at, end) if n in links}))
            at = end
        return "".join(parts)

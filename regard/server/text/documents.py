"""Documents: texts of any format, of which only the sentences are translated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from regard.server.text.word_alignment import WordAlignment


class Document(Protocol):
    """Text whose ``sentences`` are translated; ``join`` inserts the translations."""

    @property
    def sentences(self) -> list[str]:
        """Sentences to translate, in order."""

    @property
    def needs_alignment(self) -> Collection[int]:
        """Indices of the sentences whose word alignment ``join`` uses."""

    def join(self, sentences: Sequence[str], alignments: Mapping[int, WordAlignment]) -> str:
        """Return the text with ``sentences`` in place of its own; ``alignments`` by number of sentence."""


class CompositeDocument:
    """Sequence of documents and of strings that stay unchanged."""

    def __init__(self, parts: Sequence[str | Document]) -> None:
        self._parts = parts
        self._documents = [part for part in parts if not isinstance(part, str)]

    @property
    def sentences(self) -> list[str]:
        """Sentences of all documents, in order."""
        return [sentence for document in self._documents for sentence in document.sentences]

    @property
    def needs_alignment(self) -> Collection[int]:
        """Indices, in all sentences, of those whose word alignment ``join`` uses."""
        numbers, first = [], 0
        for document in self._documents:
            numbers += [first + number for number in document.needs_alignment]
            first += len(document.sentences)
        return numbers

    def join(self, sentences: Sequence[str], alignments: Mapping[int, WordAlignment]) -> str:
        """Return the text with ``sentences`` in place of its own; ``alignments`` by number of sentence."""
        texts, start = [], 0
        for part in self._parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            end = start + len(part.sentences)
            inner = {number - start: alignments[number] for number in range(start, end) if number in alignments}
            texts.append(part.join(sentences[start:end], inner))
            start = end
        return "".join(texts)

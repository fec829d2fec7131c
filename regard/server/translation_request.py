"""What a client asks for and what it is answered, whatever the dialect."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.data.sentence_split import segments
from regard.inference.results import Translation
from regard.server.api.requests import Sender
from regard.server.batching.models import ServedModel
from regard.server.text.documents import Document
from regard.server.text.glossary import Glossary
from regard.server.text.languages import Language
from regard.server.text.markdown import markdown
from regard.server.text.markup_document import Marked
from regard.server.text.markup_tokenizer import Markup
from regard.server.text.word_alignment import Links
from regard.server.text.word_spans import words

__all__ = ["ModelChoice", "TranslationRequest", "TranslationResult", "candidates_of", "document_of", "links_of"]


@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate. ``source`` None: find out. ``search``: fields of SearchConfig other than the run's own.

    ``keep``: placeholders, addresses and numbers come out as they went in. ``markup``: what a text is read as.
    """

    texts: Sequence[str]
    source: str | None
    target: str | None
    sender: Sender
    model: str | None = None
    search: Mapping[str, float | int | None] = field(default_factory=dict)
    glossary: Glossary | None = None
    keep: bool = True
    markup: Markup | None = None

    def documents(self, texts: Sequence[str], language: str | None) -> list[Document]:
        """What is to be translated of each, and what is not."""
        return [document_of(text, self.markup, language) for text in texts]


def document_of(text: str, markup: Markup | None, language: str | None) -> Document:
    """A text read as ``markup``."""
    if markup is None:
        return segments(text, language)
    return markdown(text, language) if markup.kind == "markdown" else Marked(text, markup, language)


class ModelChoice(NamedTuple):
    """Of one text: the model, the language that it reads, and what was found out of it."""

    model: ServedModel
    source: str | None
    detected: Language | None


class TranslationResult(NamedTuple):
    """Of one text: its ``candidates``, best first, by text and score; several only where it is one sentence."""

    candidates: list[tuple[str, float]]
    model: ServedModel
    source: str | None
    detected: Language | None
    sentences: list[Translation]

    @property
    def text(self) -> str:
        return self.candidates[0][0]


def links_of(model: ServedModel, document: Document, its: Sequence[Translation], until: float) -> dict[int, Links]:
    """Of the sentences that it wants them of. What there is no time for goes by place, which asks no model."""
    found: dict[int, Links] = {}
    for number in document.linked:
        if time.monotonic() < until:
            before = len(words(its[number].source)) - len(words(document.sentences[number]))  # a mark put before it
            found[number] = [max(at - before, 0) for at in model.links(its[number])]
    return found


def candidates_of(
    document: Document, sentences: Sequence[Translation], links: Mapping[int, Links]
) -> list[tuple[str, float]]:
    """The outputs of a text that is one sentence, or the best of one that is several, or has tags."""
    count = len(sentences[0].candidates) if len(sentences) == 1 and not document.linked else 1
    ranks = [[one.candidates[rank] for one in sentences] for rank in range(count)]
    return [(document.joined([one.text for one in each], links), sum(one.score for one in each)) for each in ranks]

"""Translation requests and results, common to all HTTP interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.sentence_split import split_sentences, whole_text
from regard.inference.results import Translation
from regard.server.api.requests import Credentials
from regard.server.batching.translating import Translating
from regard.server.text.documents import Document
from regard.server.text.glossary import Glossary
from regard.server.text.languages import Language
from regard.server.text.markdown import parse_markdown
from regard.server.text.markup_document import MarkupDocument
from regard.server.text.markup_tokenizer import Markup
from regard.server.text.word_alignment import WordAlignment
from regard.server.text.word_spans import word_spans


@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate, with settings.

    Attributes:
        texts: one or more texts.
        source: the language code; None to identify the language.
        target: the language code; None for any language.
        credentials: the key and the address of the client.
        model: the name of the model; None to choose it by languages.
        search: fields of SearchConfig that override those of the run.
        glossary: the required terms.
        protect: whether placeholders, addresses and numbers stay unchanged.
        markup: the format; None for plain text.
    """

    texts: Sequence[str]
    source: str | None
    target: str | None
    credentials: Credentials
    model: str | None = None
    search: Mapping[str, float | int | None] = field(default_factory=dict)
    glossary: Glossary | None = None
    protect: bool = True
    markup: Markup | None = None

    def parse(
        self, text: str, language: str | None, deadline: Deadline = NO_DEADLINE, *, whole: bool = False
    ) -> Document:
        """Return the document of a text.

        Args:
            text: the text.
            language: the language code for sentence splitting.
            deadline: the deadline of the request.
            whole: whether a plain text is one input, without sentence splitting.
        """
        return (
            whole_text(text) if whole and self.markup is None else parse_document(text, self.markup, language, deadline)
        )


def parse_document(
    text: str, markup: Markup | None, language: str | None, deadline: Deadline = NO_DEADLINE
) -> Document:
    """Return the document of a text in the format ``markup``."""
    if markup is None:
        return split_sentences(text, language, deadline)
    if markup.kind == "markdown":
        return parse_markdown(text, language, deadline)
    return MarkupDocument(text, markup, language, deadline)


class ModelChoice(NamedTuple):
    """Model for a text, the code of its source language, and the identified language, if any."""

    model: Translating
    source: str | None
    detected: Language | None


class TranslationResult(NamedTuple):
    """Translation of one text.

    Attributes:
        candidates: (text, score), best first; several only for a text of one sentence.
        model: see ModelChoice.
        source: see ModelChoice.
        detected: see ModelChoice.
        sentences: the translation of each sentence.
    """

    candidates: list[tuple[str, float]]
    model: Translating
    source: str | None
    detected: Language | None
    sentences: list[Translation]

    @property
    def text(self) -> str:
        """Text of the best candidate."""
        return self.candidates[0][0]


def align_sentences(
    model: Translating, document: Document, translations: Sequence[Translation], deadline: Deadline
) -> dict[int, WordAlignment]:
    """Return the word alignments that ``document`` needs, by sentence index.

    Sentences that are not aligned before ``deadline`` are left out; ``join`` then aligns them by position.
    """
    alignments: dict[int, WordAlignment] = {}
    for number in document.needs_alignment:
        if deadline.left:
            translation = translations[number]
            # The source of the model may begin with a language mark, which the sentence of the document lacks.
            mark = len(word_spans(translation.source)) - len(word_spans(document.sentences[number]))
            alignments[number] = [max(word - mark, 0) for word in model.align_words(translation)]
    return alignments


def join_candidates(
    document: Document,
    translations: Sequence[Translation],
    alignments: Mapping[int, WordAlignment],
    deadline: Deadline = NO_DEADLINE,
) -> list[tuple[str, float]]:
    """Return the candidates (text, score) of a document, best first.

    A text of one sentence without tags has all candidates of the sentence; other texts have one, with summed scores.
    """
    count = len(translations[0].candidates) if len(translations) == 1 and not document.needs_alignment else 1
    deadline.check()
    ranks = [[translation.candidates[rank] for translation in translations] for rank in range(count)]
    return [
        (
            document.join([candidate.text for candidate in candidates], alignments),
            sum(candidate.score for candidate in candidates),
        )
        for candidates in ranks
    ]

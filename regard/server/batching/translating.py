"""Translation with a served model: sentences of all clients in one running batch.

Required terms become constraints of the search: pieces that an output must contain, for each part of a split input.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, islice
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from regard.config.settings import SearchConfig, override_search
from regard.core.deadline import NO_DEADLINE, Deadline
from regard.core.wording import describe_validation_error
from regard.data.protected_spans import RequiredTerm
from regard.data.tokenizers.subword import split_language_mark
from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inference.search_model import SearchInput
from regard.inspection.aligner import Aligner
from regard.inspection.inspector import Inspector
from regard.server.api_error import ApiError
from regard.server.batching.jobs import SearchJob
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.settings import ServerSettings
from regard.server.text.documents import Document
from regard.server.text.word_alignment import align_words
from regard.tasks.translation.translator import Translator

Result = TypeVar("Result")
Auxiliary = Callable[..., Awaitable[Any]]
MAX_PIECES = 64  # maximum number of required pieces of an output
BETWEEN = "\n"  # separator of parts, which no term contains
MIN_BEAM = 10  # minimum beam of a constrained search, which is divided by the number of satisfied constraints


class Translating:
    """A served translation model. ``translate`` is called in the event loop; the model computes in its thread.

    Other passes (``score``, ``align_words``) run in one more thread: see ``run_serial``.
    """

    needs_sources = True  # a target is scored given its source

    def __init__(self, served: ServedModel) -> None:
        self.served, self.name = served, served.name
        self.source, self.target, self.reads_whole = served.source, served.target, served.reads_whole
        self._aligned: tuple[Inspector, Aligner | None] | None = None

    @property
    def search(self) -> SearchConfig:
        """Search settings of the run."""
        return cast(SearchConfig, self.served.settings)

    async def wait_until_loaded(self, seconds: float) -> None:
        """Load the model; raise ApiError if that fails or takes more than ``seconds``."""
        await self.served.wait_until_loaded(seconds)

    async def run_serial(self, work: Callable[[], Result]) -> Result:
        """Return the result of a pass of the model outside of batches: see ``ServedModel.run_serial``."""
        return await self.served.run_serial(work)

    async def aligner(self) -> Aligner | None:
        """Return the attention that aligns words; None without attention to the source. Slow at the first call."""
        inspector = self.served.inspector
        if inspector is None:
            return None
        if self._aligned is None or self._aligned[0] is not inspector:
            self._aligned = inspector, await self.run_serial(lambda: inspector.aligner)
        return self._aligned[1]

    def can_encode(self, text: str) -> bool:
        """Return whether the target vocabulary of the model, which must be loaded, can represent ``text``."""
        return self.served.start()[0].try_encode(text) is not None

    def mark_sentences(self, text: str, document: Document) -> list[str]:
        """Return the sentences of a document, each with the language mark at the beginning of ``text``.

        A mark is ``>>de<<``; for models without marks, the sentences are unchanged.
        """
        marks, _ = split_language_mark(text.lstrip())
        if not marks or not self.served.start()[0].source.reads_language_marks:
            return document.sentences
        return [text if text.startswith(">>") else f"{marks[0]} {text}" for text in document.sentences]

    def piece_scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """Return the log probabilities (nats) of the pieces of each target: see ``Translator.score``."""
        scores: list[list[float]] = self.served.start()[0].score(sources, targets)
        return scores

    async def score(
        self,
        sources: Sequence[str] | None,
        targets: Sequence[str],
        *,
        client: str,
        seconds: float,
        auxiliary: Auxiliary,
    ) -> list[list[float]]:
        """Return the log probabilities (nats) of the pieces of each target.

        ``auxiliary`` runs a pass for a client, outside of batches.
        """
        scores: list[list[float]] = await auxiliary(partial(self.piece_scores, sources or (), targets), client=client)
        return scores

    def with_text(self, translation: Translation, text: str, search: SearchConfig, *, scored: bool) -> Translation:
        """Return the translation with ``text`` as its best output: see ``Translator.with_text``."""
        return self.served.start()[0].with_text(translation, text, search, scored=scored)

    def align_words(self, translation: Translation) -> list[int]:
        """Return the source word of each word of the best output (``regard.server.text.word_alignment``)."""
        inspector: Any = self.served.inspector
        return align_words(translation, inspector.aligner if inspector else None)

    async def translate(
        self,
        sentences: Sequence[str],
        settings: SearchConfig,
        *,
        client: str,
        seconds: float,
        required_terms: Sequence[Sequence[RequiredTerm]] | None = None,
    ) -> list[Translation]:
        """Return the translation of each sentence, with the required terms if possible, within ``seconds``.

        ``required_terms`` has the terms of each sentence; terms that the vocabulary cannot represent are ignored.
        ``client`` is the name of the client in the queue. Raises ApiError if the queue is full, the time is over, or
        the model fails.
        """
        deadline = Deadline(seconds)
        translator, _ = await self.served.wait_until_loaded(seconds)
        terms = required_terms or [()] * len(sentences)

        def prepare() -> tuple[list[list[list[int]]], list[SearchJob], bool]:
            """Return the parts of each sentence, a job per part, and whether outputs need a pass of the model."""
            parts: list[list[list[int]]] = []
            jobs: list[SearchJob] = []
            for sentence, required in zip(sentences, terms, strict=True):
                deadline.check()
                parts.append(translator.parts(sentence))
                jobs += _jobs(translator, parts[-1], required, settings, client, deadline)
            return parts, jobs, settings.covers

        parts, jobs, covers = await off_loop(prepare)
        results = await self.served.results(jobs, seconds)

        def assemble() -> list[Translation]:
            """Return the translations, joined from the parts of each sentence."""
            outputs = iter(results)
            translations = []
            for sentence, of_sentence, required in zip(sentences, parts, terms, strict=True):
                hypotheses = list(islice(outputs, len(of_sentence)))
                own = translator.without_memory if required else translator
                translations.append(own.assemble(sentence, of_sentence, hypotheses, search=settings))
            return translations

        try:
            return await (self.run_serial if covers else off_loop)(assemble)
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {error.what}, since {error.why}") from error


def _jobs(
    translator: Translator,
    parts: Sequence[list[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    client: str,
    deadline: Deadline,
) -> list[SearchJob]:
    """Return a job for each part of a sentence, with a wider beam for parts with required terms.

    Args:
        translator: the model.
        parts: the source ids of each part.
        terms: the required terms of the sentence.
        settings: the search settings.
        client: the name of the client in the queue.
        deadline: the deadline of the request.
    """
    constraints = term_constraints(translator, parts, terms, settings, deadline)
    wide = widen_beam(settings) if any(constraints) else settings
    plain: list[SearchInput] = translator.inputs(parts, settings)
    return [
        SearchJob(
            SearchInput(input.tokens, constraints=required) if required else input,
            wide if required else settings, client=client, deadline=deadline.end,
        )
        for input, required in zip(plain, constraints, strict=True)
    ]  # fmt: skip


def search_settings(base: SearchConfig, requested: Mapping[str, Any], limits: ServerSettings) -> SearchConfig:
    """Return ``base`` overridden by the settings of a request (None: default); raise ApiError beyond a limit."""
    overrides = {key: value for key, value in requested.items() if value is not None}
    if overrides.get("nbest", 1) > limits.nbest:
        raise ApiError(400, f"Invalid request: nbest exceeds the limit of {limits.nbest}")
    try:
        search = override_search(base, **overrides)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {describe_validation_error(error)}") from error
    if search.beam > limits.beam and "beam" in overrides:
        raise ApiError(400, f"Invalid request: beam {search.beam} exceeds the limit of {limits.beam}")
    return search


def term_constraints(
    translator: Translator,
    parts: Sequence[Sequence[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    deadline: Deadline = NO_DEADLINE,
) -> list[list[list[int]]]:
    """Return the required terms of each part as target ids.

    A term belongs to the part with the next occurrence of its source phrase after the previous term; a single part has
    all terms. Terms that the vocabulary cannot represent, or that exceed the limit of their part, are left out.

    Args:
        translator: the model.
        parts: the source ids of each part of a sentence.
        terms: the required terms of the sentence, in order.
        settings: the search settings.
        deadline: the deadline of the request.
    """
    constraints: list[list[list[int]]] = [[] for _ in parts]
    room = [min(MAX_PIECES, len(part) + settings.max_extra // 2) for part in parts]
    if not parts or not terms:
        return constraints
    try_encode = lru_cache(maxsize=None)(translator.try_encode)
    locator = _PhraseLocator(translator, parts)
    for term in terms:
        deadline.check()
        number = locator.next_part(term.source)
        pieces = try_encode(term.text) if number is not None and room[number] else None
        if number is not None and pieces is not None and len(pieces) <= room[number]:
            constraints[number].append(pieces)
            room[number] -= len(pieces)
    return constraints


class _PhraseLocator:
    """Search for consecutive phrases in the parts of a sentence, each of which is decoded once."""

    def __init__(self, translator: Translator, parts: Sequence[Sequence[int]]) -> None:
        texts = [translator.source.decode(part) for part in parts] if len(parts) > 1 else [""]
        self._one, self._text, self._at = len(parts) == 1, BETWEEN.join(texts), 0
        self._starts = [0, *accumulate(len(text) + len(BETWEEN) for text in texts[:-1])]

    def next_part(self, phrase: str) -> int | None:
        """Return the index of the part with the next occurrence of a phrase; None if it does not occur."""
        if self._one:
            return 0
        start = self._text.find(phrase, self._at)
        if start < 0:
            return None
        self._at = start + len(phrase)
        return bisect_right(self._starts, start) - 1


def widen_beam(settings: SearchConfig) -> SearchConfig:
    """Return the settings of a constrained search: a beam of at least MIN_BEAM, no sampling."""
    beam = max(settings.beam, settings.nbest, MIN_BEAM)
    return settings.model_copy(update={"beam": beam, "temperature": None, "top_k": None, "top_p": None})

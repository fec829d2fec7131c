"""A translator with a translation memory: for near sources, the targets of training pairs are the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.config.settings import SearchConfig
from regard.core.task import RunFiles, not_interrupted
from regard.inference.results import Translation
from regard.search.contract import Hypothesis
from regard.tasks.translation.baseline import TranslationBaseline, open_translation_baseline
from regard.tasks.translation.codecs import Codecs
from regard.tasks.translation.translator import Translator


class MemoryTranslator(Translator):
    """A translator whose output is the target of the nearest training source, if its cosine reaches ``threshold``.

    Such an output is first, also with a low score; its scores and its attention are those of the network. All other
    outputs are those of the search. Prefixes, required terms, stop strings and sampling ignore the memory.

    ``without_memory`` is the translator whose outputs are all searched.

    Args:
        searching: that translator.
        pairs: the training pairs.
        threshold: the least cosine, from 0 to 1.
    """

    def __init__(self, searching: Translator, pairs: TranslationBaseline, threshold: float) -> None:
        super().__init__(
            searching.model, searching.source, searching.target, searching.search, max_length=searching.max_length,
            crops=searching.crops, language=searching.language, engine=searching.engine,
            reads_unfinished=searching.reads_unfinished,
        )  # fmt: skip
        self.without_memory, self.pairs, self.threshold = searching, pairs, threshold

    def __repr__(self) -> str:
        return f"MemoryTranslator({self.without_memory!r}, {self.pairs.description} from {self.threshold:g})"

    def translate(
        self,
        lines: Sequence[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        done: Callable[[int], None] = lambda count: None,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> list[Translation]:
        """See ``Translator.translate``."""
        if prefixes is None:
            return super().translate(lines, search=search, done=done, interrupted=interrupted)
        return self.without_memory.translate(
            lines, search=search, prefixes=prefixes, done=done, interrupted=interrupted
        )

    def assemble(
        self,
        line: str,
        parts: list[list[int]],
        hypotheses: list[list[Hypothesis]],
        *,
        search: SearchConfig | None = None,
    ) -> Translation:
        """See ``Translator.assemble``; the candidates of the search follow the output of the memory."""
        searched, settings = super().assemble(line, parts, hypotheses, search=search), search or self.search
        if not parts or settings.temperature is not None or settings.stop:
            return searched
        (nearest,) = self.pairs.nearest([line])
        if nearest.cosine < self.threshold:
            return searched
        if nearest.text != searched.text:
            different = [one for one in searched.candidates if one.text != nearest.text]
            candidates = [searched.candidates[0], *different][: max(settings.nbest, 1)]
            searched = self.with_text(searched.with_candidates(candidates), nearest.text, settings)
        searched.recalled = nearest.cosine
        return searched


def with_memory(run: RunFiles, codecs: Codecs, translator: Translator, threshold: float) -> Translator:
    """Return the translator with the saved pairs of a run; without them, the translator itself."""
    pairs = open_translation_baseline(run, codecs)
    return translator if pairs is None else MemoryTranslator(translator, pairs, threshold)

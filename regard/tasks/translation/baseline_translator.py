"""The baseline of a translation model alone, with the interface of the translator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Never

import torch
from torch import Tensor

from regard.config.settings import SearchConfig
from regard.core.baseline import FOLDER
from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface
from regard.core.task import OutputBaseline, RunFiles, not_interrupted
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, ModelError
from regard.inference.results import Candidate, Translation
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.contract import Hypothesis
from regard.tasks.translation.baseline import open_translation_baseline
from regard.tasks.translation.codecs import Codecs
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.translator import Translator


class BaselineTranslator(Translator):
    """A translator whose outputs are those of the baseline of a run.

    It has no network, so its scores are 0 and it has no log probabilities of pieces. Each input has one output. The
    search settings have no effect. No input has parts to search: callers of ``parts`` pass no hypotheses to
    ``assemble``, as for a blank line.

    Args:
        baseline: the fitted baseline.
        source: the tokenizer of sources, which has no effect on the outputs.
        target: the tokenizer of targets, for the pieces of outputs.
        search: the search settings of the run.
        max_length: the maximum number of pieces of a side in training.
        language: the target language, by which metrics split text.
    """

    def __init__(
        self,
        baseline: OutputBaseline,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchConfig,
        *,
        max_length: int,
        language: str | None = None,
    ) -> None:
        self.baseline, self.source, self.target, self.search = baseline, source, target, search
        self.max_length, self.crops, self.language, self.without_memory = max_length, False, language, self
        self.engine, self.device = "reference", torch.device("cpu")

    def __repr__(self) -> str:
        return f"BaselineTranslator({self.baseline.description})"

    @property
    def model(self) -> EncoderDecoder:  # type: ignore[override]
        """Raise ConfigError: a baseline has no network."""
        _refuse()

    @property
    def decoding(self) -> None:  # type: ignore[override]
        """None: outputs are not searched."""

    @property
    def interface(self) -> PredictorInterface:
        """See ``Translator.interface``; requests have no settings."""

        def predict(line: str, settings: None, interrupted: Callable[[], bool]) -> Translation:
            try:
                return self.translate([line], interrupted=interrupted)[0]
            except KeyboardInterrupt as error:
                raise PredictionInterrupted from error

        return PredictorInterface("a text", "its translation", None, predict)

    def translate(
        self,
        lines: Sequence[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        done: Callable[[int], None] = lambda count: None,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> list[Translation]:
        """See ``Translator.translate``; raises ConfigError for prefixes."""
        if any(prefixes or ()):
            what = "a prefix requires a network; this model is a simple baseline"
            raise ConfigError(what, where="--prefix", help="use the network: --checkpoint best")
        outputs = []
        for line in lines:
            if interrupted():
                raise KeyboardInterrupt
            outputs.append(self.assemble(line, [], []))
            done(1)
        return outputs

    def parts(self, line: str) -> list[list[int]]:
        """Return []: nothing is searched."""
        return []

    def assemble(
        self,
        line: str,
        parts: list[list[int]],
        hypotheses: list[list[Hypothesis]],
        *,
        search: SearchConfig | None = None,
    ) -> Translation:
        """Return the output of the baseline for a line; a blank line has an empty output."""
        text = self.baseline.outputs([line])[0] if line.strip() else ""
        pieces = self.target.pieces(self.target.encode(text))
        return Translation(line, [Candidate(text, 0.0, 0.0, pieces, [], True)], _refuse)

    def with_text(
        self, translation: Translation, text: str, search: SearchConfig, *, scored: bool = True
    ) -> Translation:
        """Return the translation with another text for its output."""
        pieces = self.target.pieces(self.target.encode(text))
        return translation.with_candidates([Candidate(text, 0.0, 0.0, pieces, [], True)])

    def score(self, sources: Sequence[str], targets: Sequence[str], **options: Any) -> list[list[float]]:
        """Raise ConfigError: a baseline has no probabilities."""
        _refuse()

    def attentions(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, ended: bool = True
    ) -> dict[str, Tensor]:
        """Raise ConfigError: a baseline has no attention."""
        _refuse()

    @contextmanager
    def observed(self) -> Iterator[EncoderDecoder]:
        """Raise ConfigError: a baseline has no network."""
        _refuse()
        yield


def open_baseline_translator(run: RunFiles, codecs: Codecs) -> BaselineTranslator:
    """Return the translator of the saved baseline of a run; ModelError if it is missing or damaged."""
    baseline, config = open_translation_baseline(run, codecs), translation_config(run)
    if baseline is None:
        where, help = str(run.path / FOLDER), "use the network: --checkpoint best"
        raise ModelError("the run has no saved baseline", where=where, help=help)
    return BaselineTranslator(
        baseline, codecs.source, codecs.target, config.search,
        max_length=config.data.max_length, language=config.data.target_language,
    )  # fmt: skip


def _refuse() -> Never:
    what = "this model is a simple baseline, without a network"
    why = "it has no probabilities and no attention"
    raise ConfigError(what, why=why, help="use the network: --checkpoint best")

"""A trained model as a function from text to text."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from json import dumps
from pathlib import Path
from typing import Any, overload

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.attention.observe import observe, shared_copy
from regard.config.explain import explain
from regard.config.search_requests import SearchRequest
from regard.config.search_settings import SearchSettings
from regard.config.setting import document_settings
from regard.config.settings import SearchConfig, override_search
from regard.core.out_of_memory import explain_out_of_memory
from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface
from regard.core.task import Indices, MetricSums, Report, not_interrupted
from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.data.pairs import PairExamples
from regard.data.tokenizers.tokenizer import UNKNOWN, Tokenizer
from regard.errors import ConfigError
from regard.inference.decoding import Decoding, Engine, RequestedEngine, native_obstacle, possible, torch_obstacle
from regard.inference.results import Candidate, Translation, joined
from regard.inference.run_search import inputs_of, require_seed, run_search
from regard.inference.search_model import SearchInput
from regard.inference.spelling import StopListener, text_before
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.run_folder import RunFolder
from regard.search.beam import length_normalizer
from regard.search.contract import Hypothesis
from regard.search.coverage_penalty import reranked
from regard.tasks.load import ignore, require_task
from regard.tasks.load import load as load_predictor
from regard.tasks.translation.long_lines import cut
from regard.tasks.translation.measure import GREEDY, measure
from regard.tasks.translation.pair_scorer import PairScorer


class Translator(PairScorer):
    """Text in, text out; safe to call from several threads.

    ``engine`` says what decodes. None is the fast form of the model in float32 where there is one, which gives what
    the model itself gives, ``reference``; that scores and shows its attention in any case. ``bfloat16`` and ``int8``
    compute in fewer bits and may choose other words; 8 bits are for the kernels in C, and ``torch`` is float32 without
    them. ConfigError where the model has no such form.
    ``crops``: of a long input its first ``max_length`` pieces are read, else it is translated in parts.
    ``language`` is the target's, by which metrics cut text.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchConfig,
        *,
        max_length: int,
        crops: bool = False,
        language: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(model, source, target, max_length)
        self.search, self.crops, self.language = search, crops, language
        self.engine = possible(engine, torch_obstacle(model), native_obstacle(model))
        self._observing = threading.Lock()

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return f"Translator({count:,} parameters, {len(self.target):,} target pieces, {self.engine} on {self.device})"

    @overload
    def __call__(self, text: str, *, seed: int | None = None, **options: Any) -> Translation: ...

    @overload
    def __call__(
        self, text: list[str] | tuple[str, ...], *, seed: int | None = None, **options: Any
    ) -> list[Translation]: ...

    @document_settings(SearchSettings)
    def __call__(
        self, text: str | list[str] | tuple[str, ...], *, seed: int | None = None, **options: Any
    ) -> Translation | list[Translation]:
        """``model("A dog runs.", beam=5, nbest=3)`` gives one translation, ``model(["A dog runs."])`` a list of them.

        Args:
            text: a text, or a list of texts.
            seed: of the draws, if ``temperature`` is set; other outputs each time unless given. A translation is a
                function of its text and the seed.
            options: settings of search, see below.

        Raises:
            ConfigError: an option cannot have this value, or ``text`` is not a text.
        """
        lines = list(text) if isinstance(text, list | tuple) else [text]
        if wrong := [line for line in lines if not isinstance(line, str)]:
            what = f"{type(wrong[0]).__name__} is no text to translate"
            raise ConfigError(what, help='model("A dog runs."), or a list of texts: model(["A dog runs."])')
        options |= {} if seed is None else {"seed": require_seed(seed)}
        found = self.translate(lines, search=self.adjusted(options))
        return found[0] if isinstance(text, str) else found

    def adjusted(self, options: Mapping[str, object]) -> SearchConfig:
        """Return the model's settings with these instead. ConfigError for what they cannot be."""
        try:
            return SearchConfig.model_validate({**self.search.model_dump(), **options}) if options else self.search
        except ValidationError as error:
            raise explain(error, SearchConfig, (), ()) from error

    def requested(self, request: SearchRequest) -> SearchConfig:
        """See ``inference.search_model.Searches``."""
        try:
            return override_search(self.search, **request.model_dump(exclude_unset=True))
        except ValidationError as error:
            raise explain(error, SearchConfig, (), ()) from error

    def search_inputs(self, line: str, settings: SearchConfig) -> list[SearchInput]:
        """See ``inference.search_model.Searches``."""
        return self.inputs(self.parts(line), settings)

    def output(
        self,
        line: str,
        parts: Sequence[SearchInput],
        hypotheses: Sequence[list[Hypothesis]],
        settings: SearchConfig,
    ) -> Translation:
        """See ``inference.search_model.Searches``."""
        return self.assemble(line, [list(part.tokens) for part in parts], list(hypotheses), search=settings)

    def inputs(
        self, parts: Sequence[list[int]], settings: SearchConfig, prefixes: Sequence[list[int]] | None = None
    ) -> list[SearchInput]:
        """Return the parts of a line as inputs of a search, which stop strings end."""
        listener = partial(StopListener, self.target, settings.stop) if settings.stop else None
        return inputs_of(parts, settings, prefixes=prefixes, listener=listener)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request, and translation that can be interrupted: for servers."""

        def predict(line: str, settings: SearchRequest, interrupted: Callable[[], bool]) -> Translation:
            try:
                return self.translate([line], search=self.requested(settings), interrupted=interrupted)[0]
            except KeyboardInterrupt as error:
                raise PredictionInterrupted from error

        return PredictorInterface("a text", "its translation", SearchRequest.of(self.search), predict)

    def translate(
        self,
        lines: Sequence[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        done: Callable[[int], None] = lambda count: None,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> list[Translation]:
        """One translation a line, in order. ``prefixes`` force the beginnings of the outputs.

        A blank line gives an empty translation; line ends inside a line are read as spaces. A line of more than
        ``max_length`` pieces is cut at spaces, its parts translated and joined; or cropped (``Translation.unread``).
        ``done`` receives the number of completed parts. Raises KeyboardInterrupt if ``interrupted`` returns true.
        """
        settings = search or self.search
        inputs = [self.parts(line) for line in lines]
        flat = [part for parts in inputs for part in parts]
        forced = None if prefixes is None else self._forced(inputs, prefixes)
        found: list[list[Hypothesis]] = [[] for _ in flat]
        rows = settings.batch_sentences
        help = f"lower search.batch_sentences, {rows} now, in the run's config.toml, or the beam"
        with explain_out_of_memory("translating", help=help):
            sources = self.inputs(flat, settings, forced)
            longest_first = sorted(enumerate(sources), key=lambda numbered: -len(numbered[1].tokens))
            for finished in run_search(self.decoding, longest_first, settings, rows=rows, interrupted=interrupted):
                for index, hypotheses in finished:
                    found[index] = hypotheses
                    done(1)
        results, at = [], 0
        for line, parts in zip(lines, inputs, strict=True):
            results.append(self.assemble(line, parts, found[at : at + len(parts)], search=settings))
            at += len(parts)
        return results

    def read(self, line: str) -> str:
        """The line itself."""
        return line

    def cost(self, line: str) -> int:
        """Return how many numbers one layer holds at once (``core.predictor_interface.input_cost``)."""
        return sum(len(part) ** 2 for part in self.parts(line))

    def write(self, output: Translation, *, json: bool) -> str:
        """The best output, its line breaks as spaces; or an object of all that is known of the translation."""
        return dumps(output.as_dict(), ensure_ascii=False) if json else " ".join(re.split("[\r\n]", output.text))

    def measure(
        self,
        examples: PairExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """See ``core.task.Predictor`` and ``tasks.translation.measure``; decodes greedily."""
        search = self.search.model_copy(update=GREEDY)

        def translate(sources: list[str]) -> list[str]:
            return [found.text for found in self.translate(sources, search=search, interrupted=interrupted)]

        return measure(examples, indices, names, translate, self.target.config, self.language)

    def attention(self, source: Sequence[int], target: Sequence[int]) -> dict[str, Tensor]:
        """Weights (heads, query, key) by name, for one pair of piece numbers, teacher-forced."""
        with self.observed() as model, observe(model) as seen:
            self.log_probabilities([source], [target], model=model)
        return {name: weights[0] for name, weights in seen.items()}

    @contextmanager
    def observed(self) -> Iterator[EncoderDecoder]:
        """The model for one at a time to put hooks on, which those who translate meanwhile do not notice."""
        with self._observing, torch.no_grad():
            yield self._twin

    @cached_property
    def decoding(self) -> Decoding:
        """The decoder in the layout of its engine, made when first asked for."""
        return Decoding(self.model, self.engine)

    @cached_property
    def _twin(self) -> EncoderDecoder:
        return shared_copy(self.model)

    def parts(self, line: str) -> list[list[int]]:
        """The line's pieces, in one part unless it is too long; none for a blank line.

        A mark in ``>>`` and ``<<`` that a line begins with, where these are one piece, is before every part.
        """
        line = self._readable(line)
        pieces = self.source.encode(line) if line.strip() else []
        if len(pieces) <= self.max_length or self.crops:
            return [pieces[: self.max_length]] if pieces else []
        return cut(line, self.source, self.max_length)

    def unread(self, line: str) -> int:
        """The number of pieces of a line beyond those that are read, where long ones are cropped."""
        return max(len(self.source.encode(self._readable(line))) - self.max_length, 0) if self.crops else 0

    def unknown(self, line: str) -> list[str]:
        """The parts of a line that the model has no piece for (``Tokenizer.unknown``)."""
        return self.source.unknown(self._readable(line))

    def spelling(self, found: Translation, text: str, search: SearchConfig, *, scored: bool = True) -> Translation:
        """The same with another text for the best output: its pieces, log probabilities, score and attention.

        Where the pair is too long for one pass, or not to be ``scored``, the score stays and log probabilities are left
        out.
        """
        parts, pieces = self.parts(found.source), self.target.encode(text)
        best = found.candidates[0]._replace(
            text=text, pieces=self.target.pieces(pieces), piece_log_probabilities=[], finished=True
        )
        one = len(parts) == 1 and len(pieces) <= self.max_length
        if one and scored:
            with torch.no_grad():
                (values,) = self._scored(parts, [pieces])
            total = sum(values)
            by_length = search.temperature is None and search.beam > 1  # as the searches rank
            penalty = length_normalizer(len(values), search.length_penalty, search.length_offset) if by_length else 1.0
            best = best._replace(log_probability=total, score=total / penalty, piece_log_probabilities=values)
        return Translation(
            found.source, [best, *found.candidates[1:]],
            (lambda: self.attention(parts[0], pieces)) if one else (lambda: _refuse_long(self.max_length)),
            pieces=found.pieces, unknown=found.unknown, unread=found.unread,
        )  # fmt: skip

    def spelled(self, phrase: str) -> list[int] | None:
        """The target pieces of a phrase, as it stands inside a sentence; None where they cannot spell it."""
        plain = " ".join(phrase.split())
        pieces = self.target.encode(plain)
        return pieces if pieces and UNKNOWN not in pieces and self.target.decode(pieces) == plain else None

    def _forced(self, inputs: list[list[list[int]]], prefixes: Sequence[str]) -> list[list[int]]:
        """Piece numbers to begin with, one list a part: a cut line's later parts are free."""
        if len(prefixes) != len(inputs):
            what = f"{pluralize(len(prefixes), 'prefix', 'prefixes')} for {pluralize(len(inputs), 'line')}"
            raise ConfigError(what, help="one prefix a line")
        begun = {prefix: self.target.encode(prefix) for prefix in prefixes}
        if lost := [prefix for prefix, pieces in begun.items() if UNKNOWN in pieces]:
            why = f"it has no piece for {', '.join(map(repr, dict.fromkeys(self.target.unknown(lost[0]))))}"
            raise ConfigError(f"no output of this model can begin with {shortened(lost[0])!r}", why=why)
        return [
            begun[prefix] if first else []
            for parts, prefix in zip(inputs, prefixes, strict=True)
            for first in [True, *([False] * (len(parts) - 1))][: len(parts)]
        ]

    def assemble(
        self,
        line: str,
        parts: list[list[int]],
        found: list[list[Hypothesis]],
        *,
        search: SearchConfig | None = None,
    ) -> Translation:
        """The translation of a line whose ``parts`` have these outputs, best first; of several parts the best alone."""
        if not parts:
            return Translation(line, [Candidate("", 0.0, 0.0, [], [], True)], dict)
        unknown = self.unknown(line) if any(UNKNOWN in part for part in parts) else []
        stops = (search or self.search).stop
        found = [self.ranked(part, each, search or self.search) for part, each in zip(parts, found, strict=True)]
        if len(parts) == 1:
            candidates = [self._candidate(hypothesis, stops) for hypothesis in found[0]]
            tokens = found[0][0].tokens
            pieces, attend = self.source.pieces(parts[0]), partial(self.attention, parts[0], tokens)
            return Translation(line, candidates, attend, pieces=pieces, unknown=unknown, unread=self.unread(line))
        best = joined([self._candidate(hypotheses[0], stops) for hypotheses in found])
        return Translation(line, [best], lambda: _refuse_long(self.max_length), unknown=unknown)

    @torch.no_grad()
    def ranked(self, source: list[int], found: list[Hypothesis], search: SearchConfig) -> list[Hypothesis]:
        """With the coverage penalty where ``search`` has one: by the mean weights of all heads that read the source."""
        if not search.covers or not source:
            return found
        with self.observed() as model, observe(model) as seen:
            self.log_probabilities([source] * len(found), [each.tokens for each in found], model=model)
        heads = [weights for name, weights in seen.items() if name.endswith("source")]
        if not heads:
            raise ConfigError(
                "this model has no coverage penalty",
                where="search.coverage_penalty",
                why="its decoder does not look at the source",
                help="search.coverage_penalty = 0",
            )
        mean = torch.cat(heads, 1).mean(1)
        pairs = zip(mean, found, strict=True)
        weights = [row[: len(each.tokens) + each.finished, : len(source)] for row, each in pairs]
        return reranked(found, weights, penalty=search.coverage_penalty)[: search.nbest]

    def _candidate(self, hypothesis: Hypothesis, stops: Sequence[str]) -> Candidate:
        tokens, total, score, log_probs, finished = hypothesis
        text = text_before(self.target.decode(tokens), stops)
        return Candidate(text, score, total, self.target.pieces(tokens), log_probs, finished)


def load(
    path: str | Path, *, checkpoint: str | None = None, device: str | None = None,
    engine: RequestedEngine | None = None, mapped: bool = False, say: Report = ignore,
) -> Translator:  # fmt: skip
    """The model of a run folder: ``regard.load("runs/m30k")("A dog runs.").text``.

    ``checkpoint``: ``average``, ``best``, ``last`` or a step; the first of these that exists unless given. Computes
    in float32, unless ``engine`` says otherwise (see Translator). ``mapped``, ``say``: as in ``regard.load``.
    Raises ModelError where the folder is not whole.
    """
    require_task(RunFolder.open(Path(path)), "translation")
    found: Translator = load_predictor(
        path, checkpoint=checkpoint, device=device, mapped=mapped, say=say, engine=engine
    )
    return found


def _refuse_long(limit: int) -> Mapping[str, Tensor]:
    raise ConfigError(f"the input was cut into parts of {limit} pieces", help="ask for the attention of each part")

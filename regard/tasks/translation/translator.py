"""The predictor of translation: from text to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import Tensor

from regard.attention.observe import observe
from regard.config.explain import explain
from regard.config.search_requests import SearchRequest
from regard.config.search_settings import SearchSettings
from regard.config.setting import document_settings
from regard.config.settings import SearchConfig, override_search
from regard.core.out_of_memory import explain_out_of_memory
from regard.core.predictor import Predictor, require_texts
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
from regard.inference.states import cut_after, grouped, pooled, sequence_states
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.run_folder import RunFolder
from regard.search.beam import length_normalizer
from regard.search.contract import Hypothesis
from regard.search.coverage_penalty import reranked
from regard.tasks.load import ignore, require_task
from regard.tasks.load import load as load_predictor
from regard.tasks.translation.long_lines import split_line
from regard.tasks.translation.measure import GREEDY, measure
from regard.tasks.translation.pair_scorer import PairScorer


class Translator(PairScorer, Predictor[Translation]):
    """A trained translation model, safe to call from several threads.

    Args:
        model: the network, which computes scores and attention with any engine.
        source: the tokenizer of sources.
        target: the tokenizer of targets.
        search: the default search settings.
        max_length: the maximum number of pieces of an input.
        crops: whether a longer input is truncated to ``max_length`` pieces; otherwise it is translated in parts.
        language: the target language, by which metrics split text.
        reads_unfinished: whether training has shown it sources that have not ended, without END.
        engine: the decoding engine. None is float32, which has the same outputs as ``reference``, the network itself.
            ``bfloat16`` and ``int8`` have fewer bits and may choose other words; ``int8`` needs the C kernels, and
            ``torch`` is float32 without them.

    Raises:
        ConfigError: if the model does not support the engine.
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
        reads_unfinished: bool = False,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(model, source, target, max_length)
        self.reads_unfinished = reads_unfinished
        self.search, self.crops, self.language, self.without_memory = search, crops, language, self  # see memory.py
        self.engine = possible(engine, torch_obstacle(model), native_obstacle(model))

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return f"Translator({count:,} parameters, {len(self.target):,} target pieces, {self.engine} on {self.device})"

    @document_settings(SearchSettings)
    def predict(self, inputs: Sequence[str], *, seed: int | None = None, **options: Any) -> list[Translation]:
        """Translate texts, in order: ``model("A dog runs.", beam=5, nbest=3)``.

        Args:
            inputs: the texts.
            seed: the seed of sampling, if ``temperature`` is set. A translation depends only on its text and the seed.
                Default: a new seed for each call.
            options: keys of the config section ``search``, such as ``beam``.

        Raises:
            ConfigError: for an invalid option.
            DataError: for an input that is not a text, with its number.
        """
        options |= {} if seed is None else {"seed": require_seed(seed)}
        return self.translate(require_texts(inputs), search=self.adjusted(options))

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; the states are those of the encoder, for the parts of a source."""
        net = self.model if layer is None else cut_after(self.model, layer)
        sources = [self.parts(text) for text in require_texts(inputs)]
        states = sequence_states(net, [np.array(part) for parts in sources for part in parts], self.device)
        return pooled(grouped(states, map(len, sources)), pooling)

    def adjusted(self, options: Mapping[str, object]) -> SearchConfig:
        """Return the default search settings with these changes; raise ConfigError for invalid values."""
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
        """Return the parts of a line as inputs of a search that ends at stop strings."""
        listener = partial(StopListener, self.target, settings.stop) if settings.stop else None
        return inputs_of(parts, settings, prefixes=prefixes, listener=listener)

    @property
    def interface(self) -> PredictorInterface:
        """Description for servers: the settings of a request, and a function that can be interrupted."""

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
        """Translate lines, in order.

        A blank line gives an empty translation; line breaks inside a line are read as spaces. A line of more than
        ``max_length`` pieces is split at spaces and its parts are translated and joined, or it is truncated (see
        ``Translation.unread``).

        Args:
            lines: the source texts.
            search: the search settings; None for those of the run.
            prefixes: required beginnings of the outputs.
            done: called with the number of newly completed parts.
            interrupted: returns whether to stop.

        Raises:
            KeyboardInterrupt: if ``interrupted`` returns true.
        """
        settings = search or self.search
        inputs = [self.parts(line) for line in lines]
        flat = [part for parts in inputs for part in parts]
        forced = None if prefixes is None else self._encode_prefixes(inputs, prefixes)
        outputs: list[list[Hypothesis]] = [[] for _ in flat]
        rows = settings.batch_sentences
        help = f"lower the beam, or search.batch_sentences (now {rows}) in the config.toml of the run"
        with explain_out_of_memory("translating", help=help):
            sources = self.inputs(flat, settings, forced)
            longest_first = sorted(enumerate(sources), key=lambda numbered: -len(numbered[1].tokens))
            for finished in run_search(self.decoding, longest_first, settings, rows=rows, interrupted=interrupted):
                for index, hypotheses in finished:
                    outputs[index] = hypotheses
                    done(1)
        results, start = [], 0
        for line, parts in zip(lines, inputs, strict=True):
            results.append(self.assemble(line, parts, outputs[start : start + len(parts)], search=settings))
            start += len(parts)
        return results

    def read(self, line: str) -> str:
        """Return the line unchanged."""
        return line

    def cost(self, line: str) -> int:
        """Return the number of values that one layer holds (``core.predictor_interface.input_cost``)."""
        return sum(len(part) ** 2 for part in self.parts(line))

    def write(self, output: Translation, *, json: bool) -> str:
        """Return the best output with line breaks as spaces; with ``json``, an object with all facts."""
        return dumps(output.as_dict(), ensure_ascii=False) if json else " ".join(re.split("[\r\n]", output.text))

    def measure(
        self,
        examples: PairExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """See ``core.predictor.Predictor`` and ``tasks.translation.measure``; uses greedy decoding."""
        search = self.search.model_copy(update=GREEDY)

        def translate(sources: list[str]) -> list[str]:
            return [output.text for output in self.translate(sources, search=search, interrupted=interrupted)]

        return measure(examples, indices, names, translate, self.target.config, self.language)

    @cached_property
    def decoding(self) -> Decoding:
        """Decoder in the layout of its engine, created at first use."""
        return Decoding(self.model, self.engine)

    def parts(self, line: str) -> list[list[int]]:
        """Return the pieces of a line, in one part unless it is too long; an empty list for a blank line.

        A language mark such as ``>>de<<`` at the beginning of a line, if it is one piece, is repeated in every part.
        """
        line = self._readable(line)
        pieces = self.source.encode(line) if line.strip() else []
        if len(pieces) <= self.max_length or self.crops:
            return [pieces[: self.max_length]] if pieces else []
        return split_line(line, self.source, self.max_length)

    def unread(self, line: str) -> int:
        """Return the number of pieces of a line that truncation drops."""
        return max(len(self.source.encode(self._readable(line))) - self.max_length, 0) if self.crops else 0

    def unknown(self, line: str) -> list[str]:
        """Return the parts of a line that are not in the vocabulary (see ``Tokenizer.unknown``)."""
        return self.source.unknown(self._readable(line))

    def with_text(
        self, translation: Translation, text: str, search: SearchConfig, *, scored: bool = True
    ) -> Translation:
        """Return a translation whose best output has another text, with its pieces, scores and attention.

        Without ``scored``, or if the pair is too long for one pass, the score is unchanged and log probabilities are
        left out.
        """
        parts, pieces = self.parts(translation.source), self.target.encode(text)
        best = translation.candidates[0]._replace(
            text=text, pieces=self.target.pieces(pieces), piece_log_probabilities=[], finished=True
        )
        single_pass = len(parts) == 1 and len(pieces) <= self.max_length
        if single_pass and scored:
            with torch.no_grad():
                (values,) = self.scored_ids(parts, [pieces])
            total = sum(values)
            by_length = search.temperature is None and search.beam > 1  # the score of the searches
            penalty = length_normalizer(len(values), search.length_penalty, search.length_offset) if by_length else 1.0
            best = best._replace(log_probability=total, score=total / penalty, piece_log_probabilities=values)
        return Translation(
            translation.source, [best, *translation.candidates[1:]],
            (lambda: self.attention(parts[0], pieces)) if single_pass else (lambda: _refuse_long(self.max_length)),
            pieces=translation.pieces, unknown=translation.unknown, unread=translation.unread,
        )  # fmt: skip

    def try_encode(self, phrase: str) -> list[int] | None:
        """Return the target pieces of a phrase inside a sentence; None if the vocabulary cannot represent it."""
        plain = " ".join(phrase.split())
        pieces = self.target.encode(plain)
        return pieces if pieces and UNKNOWN not in pieces and self.target.decode(pieces) == plain else None

    def _encode_prefixes(self, inputs: list[list[list[int]]], prefixes: Sequence[str]) -> list[list[int]]:
        """Return the ids that each part must begin with; the later parts of a split line have no prefix."""
        if len(prefixes) != len(inputs):
            what = f"{pluralize(len(prefixes), 'prefix', 'prefixes')} for {pluralize(len(inputs), 'line')}"
            raise ConfigError(what, help="use one prefix per line")
        encoded = {prefix: self.target.encode(prefix) for prefix in prefixes}
        if lost := [prefix for prefix, pieces in encoded.items() if UNKNOWN in pieces]:
            unknown = ", ".join(map(repr, dict.fromkeys(self.target.unknown(lost[0]))))
            why = f"its target vocabulary does not contain {unknown}"
            raise ConfigError(f"this model cannot begin an output with {shortened(lost[0])!r}", why=why)
        return [
            encoded[prefix] if first else []
            for parts, prefix in zip(inputs, prefixes, strict=True)
            for first in [True, *([False] * (len(parts) - 1))][: len(parts)]
        ]

    def assemble(
        self,
        line: str,
        parts: list[list[int]],
        hypotheses: list[list[Hypothesis]],
        *,
        search: SearchConfig | None = None,
    ) -> Translation:
        """Return the translation of a line from the hypotheses of its parts, best first.

        If there are several parts, only the best hypothesis of each is used.
        """
        if not parts:
            return Translation(line, [Candidate("", 0.0, 0.0, [], [], True)], dict)
        unknown = self.unknown(line) if any(UNKNOWN in part for part in parts) else []
        stops = (search or self.search).stop
        hypotheses = [
            self.ranked(part, nbest, search or self.search) for part, nbest in zip(parts, hypotheses, strict=True)
        ]
        if len(parts) == 1:
            candidates = [self._candidate(hypothesis, stops) for hypothesis in hypotheses[0]]
            tokens = hypotheses[0][0].tokens
            pieces, attend = self.source.pieces(parts[0]), partial(self.attention, parts[0], tokens)
            return Translation(line, candidates, attend, pieces=pieces, unknown=unknown, unread=self.unread(line))
        best = joined([self._candidate(nbest[0], stops) for nbest in hypotheses])
        return Translation(line, [best], lambda: _refuse_long(self.max_length), unknown=unknown)

    @torch.no_grad()
    def ranked(self, source: list[int], hypotheses: list[Hypothesis], search: SearchConfig) -> list[Hypothesis]:
        """Rank hypotheses with the coverage penalty of ``search``, by the mean weights of all cross-attention heads."""
        if not search.covers or not source:
            return hypotheses
        with self.observed() as model, observe(model) as tables:
            self.log_probabilities(
                [source] * len(hypotheses), [hypothesis.tokens for hypothesis in hypotheses], model=model
            )
        heads = [weights for name, weights in tables.items() if name.endswith("source")]
        if not heads:
            raise ConfigError(
                "the coverage penalty does not apply to this model",
                where="search.coverage_penalty",
                why="its decoder has no attention to the source",
                help="set search.coverage_penalty = 0",
            )
        mean = torch.cat(heads, 1).mean(1)
        pairs = zip(mean, hypotheses, strict=True)
        weights = [row[: len(one.tokens) + one.finished, : len(source)] for row, one in pairs]
        return reranked(hypotheses, weights, penalty=search.coverage_penalty)[: search.nbest]

    def _candidate(self, hypothesis: Hypothesis, stops: Sequence[str]) -> Candidate:
        tokens, total, score, log_probs, finished = hypothesis
        text = text_before(self.target.decode(tokens), stops)
        return Candidate(text, score, total, self.target.pieces(tokens), log_probs, finished)


def load(
    path: str | Path, *, checkpoint: str | None = None, device: str | None = None,
    engine: RequestedEngine | None = None, mapped: bool = False, ensemble: Sequence[str | Path] = (),
    log: Report = ignore,
) -> Translator:  # fmt: skip
    """Return the translation model of a run folder: ``load("runs/m30k")("A dog runs.").text``.

    Like ``regard.load``, for one task, with the type of its predictor.

    Args:
        path: the run folder.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        engine: as in ``Translator``, or ``auto``.
        mapped: see ``regard.load``.
        ensemble: see ``regard.load``.
        log: see ``regard.load``.

    Raises:
        ConfigError: if the run has another task.
        ModelError: if the run folder is incomplete or damaged.
    """
    require_task(RunFolder.open(Path(path)), "translation")
    return load_predictor(
        path, Translator, checkpoint=checkpoint, device=device, mapped=mapped, ensemble=ensemble, log=log, engine=engine
    )


def _refuse_long(limit: int) -> Mapping[str, Tensor]:
    what = f"the attention of an input in parts of {limit} pieces is not available"
    raise ConfigError(what, help="translate each part separately")

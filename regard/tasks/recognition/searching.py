"""The search for the pieces of standardized frames: decoder, CTC and a language model, or the best path of CTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.attention.contract import Encoded
from regard.attention.positions.absolute import max_positions
from regard.config.settings import SearchConfig
from regard.core.state import State
from regard.data.order import batches_in_order
from regard.data.tokenizers.tokenizer import BEGIN, END, Tokenizer
from regard.inference.decoding import Engine, fast_form
from regard.inference.joint_decoding import JointDecoding, JointScorer
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput
from regard.models.ctc import best_path, forced_path
from regard.search.ctc_prefix import CtcPrefix, CtcState
from regard.tasks.recognition.config import RecognitionConfig, RecognitionSearchConfig
from regard.tasks.recognition.examples import padded_frames
from regard.tasks.recognition.features import Features
from regard.tasks.recognition.speech_lm import SpeechLanguageModel

STATES = 8192  # states of a batch whose pieces are aligned

Frames = npt.NDArray[np.float32]


class Recognized(NamedTuple):
    """The pieces of a recording without END, their score, and the first and last encoder state of each piece.

    ``states`` is empty if the model has no CTC, or if the alignment was not requested.
    """

    tokens: list[int]
    score: float
    states: list[tuple[int, int]]


class FrameSources:
    """Sources of frames: see ``inference.decoding.Sources``."""

    def __init__(self, features: Features) -> None:
        self.features = features

    def pad(self, sources: Sequence[Frames], ended: Sequence[bool]) -> tuple[Tensor, Tensor]:
        return padded_frames(sources)

    def limits(self, sources: Sequence[Frames], settings: SearchConfig) -> list[int]:
        return [self.features.limit(len(frames)) for frames in sources]


class SpeechSearch:
    """Searches of a network.

    Args:
        net: the network.
        features: limit the length of outputs.
        tokenizer: of the outputs.
        config: of the run.
        engine: of the decoder.
    """

    def __init__(
        self, net: Any, features: Features, tokenizer: Tokenizer, config: RecognitionConfig, engine: Engine
    ) -> None:  # fmt: skip
        self.net, self.tokenizer, self.alone, self._engine = net, tokenizer, config.model.alone, engine
        self.sources = FrameSources(features)
        self._lm_path = config.search.lm

    def recognize(
        self, frames: Sequence[Frames], settings: RecognitionSearchConfig, *, aligned: bool,
        interrupted: Callable[[], bool], prefixes: Sequence[Sequence[int]] = (),
    ) -> list[Recognized]:  # fmt: skip
        """Return the pieces of each recording, which begin with its prefix.

        The best path of CTC cannot be forced, so outputs with a prefix use the prefix search of CTC.

        Raises KeyboardInterrupt if ``interrupted`` returns True.
        """
        prefixes = prefixes or [()] * len(frames)
        if self.alone and settings.beam == 1 and self._lm_path is None and not any(prefixes):
            return self._best_paths(frames, interrupted)
        decoding, results = self.decoding(settings), [Recognized([], 0.0, [])] * len(frames)
        longest_first = sorted(range(len(frames)), key=lambda number: -len(frames[number]))
        inputs = [(number, SearchInput(frames[number], prefixes[number])) for number in longest_first]
        rows = settings.batch_sentences
        for finished in run_search(decoding, inputs, settings, rows=rows, interrupted=interrupted):
            for number, (best, *_) in finished:
                results[number] = Recognized(best.tokens, best.score, [])
        if not aligned or self.net.ctc is None:
            return results
        aligned_states = dict[int, list[tuple[int, int]]]()
        for number, log_p in self._ctc_log_probabilities(frames, interrupted):
            aligned_states[number] = forced_path(log_p, results[number].tokens)
        return [one._replace(states=aligned_states[number]) for number, one in enumerate(results)]

    def decoding(self, settings: RecognitionSearchConfig) -> JointDecoding:
        """Return the joint search of the models that the settings weight."""
        ctc_weight = 1.0 if self.alone else settings.ctc_weight if self.net.ctc is not None else 0.0
        scorers = [self._ctc_scorer(ctc_weight)] if ctc_weight else []
        positions = None
        if not self.alone and ctc_weight < 1:
            decoder = self._decoder
            scorers.insert(0, JointScorer(decoder.start, decoder.step, 1 - ctc_weight))
            positions = max_positions(self.net.decoder)
        model = self._language_model
        if model is not None:
            weight = settings.lm_weight
            scorers.append(JointScorer(lambda encoded, source: model.start(len(source)), model.step, weight))
        device = next(self.net.parameters()).device
        return JointDecoding(self.net.encoder, self.sources, scorers, device=device, positions=positions)

    def _ctc_scorer(self, weight: float) -> JointScorer:
        def start(encoded: Encoded, source: Tensor) -> State:
            return CtcState.start(self.net.ctc.log_probabilities(encoded))

        return JointScorer(start, CtcPrefix(BEGIN, END).step, weight)

    @cached_property
    def _decoder(self) -> Any:
        return self.net if self._engine == "reference" else fast_form(self.net, self._engine)

    @cached_property
    def _language_model(self) -> SpeechLanguageModel | None:
        return None if self._lm_path is None else SpeechLanguageModel.open(self._lm_path, self.tokenizer)

    def _best_paths(self, frames: Sequence[Frames], interrupted: Callable[[], bool]) -> list[Recognized]:
        results = [Recognized([], 0.0, [])] * len(frames)
        for number, log_p in self._ctc_log_probabilities(frames, interrupted):
            path = best_path(log_p)
            results[number] = Recognized(path.tokens, float(log_p.amax(-1).sum()), path.states)
        return results

    def _ctc_log_probabilities(self, frames: Sequence[Frames], interrupted: Callable[[], bool]) -> Any:
        """Yield the number of each recording and log p of its states (states, symbols)."""
        decoding = JointDecoding(
            self.net.encoder, self.sources, [self._ctc_scorer(1.0)], device=next(self.net.parameters()).device
        )
        lengths = np.array([len(one) for one in frames], np.int64)
        for batch in batches_in_order(lengths, STATES) if len(frames) else ():
            if interrupted():
                raise KeyboardInterrupt
            encoded, _ = decoding.encode([frames[number] for number in batch])
            log_p = self.net.ctc.log_probabilities(encoded)
            for number, row, length in zip(batch.tolist(), log_p, encoded.span.length.tolist(), strict=True):
                yield number, row[:length]

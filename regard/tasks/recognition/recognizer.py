"""The predictor of speech recognition: from sounds or frames to texts with the seconds of their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import nn

from regard.config.explain import explain
from regard.config.search_settings import RECOGNIZED, RecognitionSettings
from regard.config.setting import document_settings
from regard.config.setting_models import SettingsRequest, request_model
from regard.core.field import is_number_array
from regard.core.observation import Influence, Observation, with_attributes
from regard.core.out_of_memory import explain_out_of_memory
from regard.core.predictor import Predictor, input_number
from regard.core.predictor_interface import InputForm, PredictionInterrupted, PredictorInterface
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.wording import pluralize
from regard.data.audio_files import SUFFIXES, Sound
from regard.data.utterance import Utterance
from regard.inference.decoding import Engine, possible, torch_obstacle
from regard.inference.decoding import native_obstacle as kernel_obstacle
from regard.inference.states import cut_after, grouped, pooled, sequence_states
from regard.tasks.recognition.codecs import SpeechCodecs
from regard.tasks.recognition.config import RecognitionConfig, RecognitionSearchConfig
from regard.tasks.recognition.examples import RecordingExamples
from regard.tasks.recognition.heard import Heard, heard, heard_file, heard_frames, heard_line, heard_sound
from regard.tasks.recognition.influence import frame_influences, piece_log_probabilities
from regard.tasks.recognition.long_sounds import cuts
from regard.tasks.recognition.measure import GREEDY, measure
from regard.tasks.recognition.observe import observe_speech
from regard.tasks.recognition.searching import Recognized, SpeechSearch
from regard.tasks.recognition.transcript import Transcript, joined_transcripts, words_at

if TYPE_CHECKING:

    class RecognitionRequest(SettingsRequest):
        """Settings of a recognition, all optional."""
else:
    RecognitionRequest = request_model(RecognitionSettings, only=RECOGNIZED)

Frames = npt.NDArray[np.float32]


class Recognizer(Predictor[Transcript]):
    """A trained recognizer, safe to call from several threads.

    Args:
        net: the network.
        codecs: the features and the tokenizer of the run.
        config: the config of the run.
        engine: the decoding engine: ``reference``, or by default the fast form of the decoder if it has one.
        lm: the run folder of a language model whose scores are added; None: that of ``search.lm``.
    """

    reads_json = True

    def __init__(
        self, net: Any, codecs: SpeechCodecs, config: RecognitionConfig, *, engine: Engine | None = None,
        lm: str | Path | None = None,
    ) -> None:  # fmt: skip
        if lm is not None:
            search = config.search.model_copy(update={"lm": str(lm)})
            config = config.model_copy(update={"search": search})
        self.net, self.config = net.eval(), config
        self.features, self.tokenizer = codecs
        self.search = config.search
        obstacles = ("its only output is CTC", None) if config.model.alone else (
            torch_obstacle(net), kernel_obstacle(net)
        )  # fmt: skip
        self.engine = possible(engine, *obstacles)
        self._decoded: dict[int, Recognized] | None = None  # of a traced copy: the pieces of its inputs
        self._parts = max(int(config.data.max_seconds * self.features.frame_rate), 1)

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.net.parameters())
        pieces = pluralize(len(self.tokenizer), "piece")
        return f"Recognizer({count:,} parameters, {pieces}, {self.engine})"

    def is_one(self, inputs: Any) -> bool:
        """Return whether an argument is one recording; lists hold several."""
        return isinstance(inputs, str | bytes | bytearray | PurePath | Sound | Heard) or is_number_array(inputs, 2)

    @document_settings(RecognitionSettings)
    def predict(self, inputs: Sequence[Any], **options: Any) -> list[Transcript]:
        """Recognize recordings: ``model([Path("a.wav").read_bytes()])[0].text``.

        Args:
            inputs: a list; each input is the contents of a sound file, an array of samples (samples,) at the rate of
                the run, or frames (frames, channels). No path is opened.
            options: keys of the config section ``search``, such as ``beam``.

        Raises:
            ConfigError: for an invalid option.
            DataError: if an input cannot be read.
        """
        return self.recognize(self._heard(inputs), self.adjusted(options))

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; the states are those of the encoder, for the parts of a recording."""
        net = self.net if layer is None else cut_after(self.net, layer)
        frames = [one.frames for one in self._heard(inputs)]
        ranges = [cuts(one, self._parts, self.features.frame_rate) for one in frames]
        parts = [self.features.standardized(one[a:b]) for one, own in zip(frames, ranges, strict=True) for a, b in own]
        states = sequence_states(net, [np.asarray(part) for part in parts], next(self.net.parameters()).device)
        return pooled(grouped(states, map(len, ranges)), pooling)

    def _heard(self, inputs: Sequence[Any]) -> list[Heard]:
        """Return the frames of each input. Raises DataError with the number of an input that cannot be read."""
        sounds = []
        for place, value in enumerate(inputs, start=1):
            with input_number(place):
                sounds.append(heard(self.features, value))
        return sounds

    def adjusted(self, options: Mapping[str, object]) -> RecognitionSearchConfig:
        """Return the search settings of the run with these changes; raise ConfigError for invalid values."""
        if not options:
            return self.search
        try:
            return RecognitionSearchConfig.model_validate({**self.search.model_dump(), **options})
        except ValidationError as error:
            raise explain(error, RecognitionSearchConfig, (), ()) from error

    def recognize(
        self, inputs: Sequence[Heard], settings: RecognitionSearchConfig,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> list[Transcript]:  # fmt: skip
        """Return the transcripts of inputs; one that is longer than the run allows is cut at its quietest places.

        Args:
            inputs: the sounds, as ``read``, ``read_file`` and ``hear`` return them.
            settings: the search settings, as ``adjusted`` returns them.
            interrupted: returns whether to stop.

        Raises:
            KeyboardInterrupt: if ``interrupted`` returns True.
        """
        rate = self.features.frame_rate
        ranges = [cuts(one.frames, self._parts, rate) for one in inputs]
        parts = [
            self.features.standardized(one.frames[start:end])
            for one, ranges_of_one in zip(inputs, ranges, strict=True) for start, end in ranges_of_one
        ]  # fmt: skip
        recognized = iter(self.recognize_frames(parts, settings, interrupted=interrupted))
        results = []
        for one, ranges_of_one in zip(inputs, ranges, strict=True):
            transcripts = [self.transcript(next(recognized), end - start) for start, end in ranges_of_one]
            starts = [one.start + start / rate for start, _ in ranges_of_one]
            results.append(joined_transcripts(transcripts, starts, one.seconds))
        return results

    def recognize_frames(
        self, frames: Sequence[Frames], settings: RecognitionSearchConfig, *, aligned: bool = True,
        interrupted: Callable[[], bool] = not_interrupted, prefixes: Sequence[Sequence[int]] = (),
    ) -> list[Recognized]:  # fmt: skip
        """Return the pieces of standardized frames.

        Args:
            frames: (frames, channels) of each input, standardized.
            settings: the search settings.
            aligned: whether to return the encoder states of each piece.
            interrupted: returns whether to stop.
            prefixes: pieces with which each output begins; () for none.
        """
        help = f"lower search.beam, or search.batch_sentences (now {settings.batch_sentences}), in the run's config"
        with explain_out_of_memory("recognizing speech", help=help), torch.no_grad():
            return self.searching.recognize(
                frames, settings, aligned=aligned, interrupted=interrupted, prefixes=prefixes
            )

    @cached_property
    def searching(self) -> SpeechSearch:
        """The search of this network, created at first use."""
        return SpeechSearch(self.net, self.features, self.tokenizer, self.config, self.engine)

    def text(self, recognized: Recognized) -> str:
        """Return the text of an output, with single spaces."""
        return " ".join(self.tokenizer.decode(recognized.tokens).split())

    def transcript(self, recognized: Recognized, frames: int) -> Transcript:
        """Return the text of an output, with the seconds of its words.

        Args:
            recognized: the output of ``recognize_frames``.
            frames: the number of frames of the input.
        """
        ranges, rate = self.net.encoder.embedding.ranges(frames), self.features.frame_rate
        seconds = [(ranges[first][0] / rate, ranges[last][1] / rate) for first, last in recognized.states]
        words = words_at(recognized.tokens, seconds, self.tokenizer) if seconds else ()
        return Transcript(self.text(recognized), words, frames / rate, recognized.score)

    @property
    def network(self) -> nn.Module:
        """See ``core.observation.Traced``."""
        network: nn.Module = self.net
        return network

    def with_network(self, network: nn.Module) -> Recognizer:
        """See ``core.observation.Traced``. The copy decodes an input once, so a changed network keeps its text."""
        return with_attributes(self, "searching", net=network, engine="reference", _decoded={})

    def scores(self, input: Heard, observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        frames = self.features.standardized(input.frames)
        return piece_log_probabilities(self.net, [frames], observation)[0]

    def influences(self, input: Heard, observation: Observation) -> tuple[Influence, ...]:
        """See ``core.observation.Influenced``: ranges of frames are hidden, as masks of training hide them."""
        return frame_influences(self.net, self.features.standardized(input.frames), observation)

    def inspect(self, input: Heard) -> Observation:
        """Return the frames, the recognized pieces, and the attention over seconds. ConfigError if it is too long."""
        frames = self.features.standardized(input.frames)
        recognized = None if self._decoded is None else self._decoded.get(id(input))
        if recognized is None:
            (recognized,) = self.recognize_frames([frames], self.search)
        if self._decoded is not None:
            self._decoded[id(input)] = recognized
        transcript = joined_transcripts([self.transcript(recognized, len(frames))], [input.start], input.seconds)
        return observe_speech(self.net, self.features, self.tokenizer, input, recognized, transcript)

    @property
    def interface(self) -> PredictorInterface:
        """Description for servers: the settings of a request, and a function that can be interrupted."""

        def predict(input: Heard, settings: RecognitionRequest, interrupted: Callable[[], bool]) -> Transcript:
            changes = settings.model_dump(exclude_unset=True, exclude_none=True)
            try:
                return self.recognize([input], self.adjusted(changes), interrupted)[0]
            except KeyboardInterrupt as error:
                raise PredictionInterrupted from error

        form = InputForm("audio" if self.suffixes else "json")
        own = RecognitionRequest.of(self.search)
        return PredictorInterface("a recording", "its text and the seconds of its words", own, predict, form=form)

    @property
    def listens(self) -> bool:
        """Return whether the model recognizes sounds that are still arriving; frames have no silences."""
        return bool(self.suffixes)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """See ``core.predictor_interface.ReadsFiles``."""
        return SUFFIXES if self.config.data.input == "audio" else ()

    def read_file(self, contents: bytes, name: str) -> Heard:
        """See ``core.predictor_interface.ReadsFiles``."""
        return heard_file(self.features, contents, name)

    def hear(self, recording: Utterance) -> Heard:
        """Return the input of a recording that a command of its user names. DataError if it cannot be read."""
        if recording.frames is not None:
            return heard_frames(self.features, recording.frames, recording.where)
        return heard_sound(self.features, recording.sound(self.features.options.rate), recording.where)

    def read(self, line: str) -> Heard:
        """Parse JSON: {"audio": BASE64} with the contents of a sound file, {"frames": LIST}, or a list of frames."""
        return heard_line(self.features, line)

    def cost(self, input: Heard) -> int:
        """Return the number of values that one layer holds (``core.predictor_interface.input_cost``)."""
        positions = self.config.model.encoder.input.positions
        parts = cuts(input.frames, self._parts, self.features.frame_rate)
        return sum(positions(end - start) ** 2 for start, end in parts)

    def write(self, output: Transcript, *, json: bool) -> str:
        """Return the text as one line; with ``json``, an object with the words and their seconds."""
        return output.json() if json else output.text

    def measure(
        self, examples: RecordingExamples, indices: Indices, names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:  # fmt: skip
        """See ``core.predictor.Predictor`` and ``tasks.recognition.measure``; uses greedy search."""
        settings = self.search.model_copy(update=GREEDY)

        def recognize(frames: Sequence[Frames]) -> list[str]:
            outputs = self.recognize_frames(frames, settings, aligned=False, interrupted=interrupted)
            return [self.text(output) for output in outputs]

        return measure(examples, indices, names, recognize)

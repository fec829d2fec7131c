"""Recognition of a sound that is still arriving: a policy decides which words of each hypothesis are committed.

The sound is divided into segments, which end at silences. A hypothesis over the sound of the present segment is formed
after each step, and it begins with the committed words. They are never taken back. The sound of a segment is dropped
when the segment is closed, so memory is constant. The state of a stream is passed in and returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.core.task import not_interrupted
from regard.data.audio_files import Sound
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.wav_files import Samples
from regard.errors import ConfigError, DataError
from regard.inference.policies import Draft, Policy
from regard.tasks.recognition.attention_head import attended_frames
from regard.tasks.recognition.config import RecognitionSearchConfig
from regard.tasks.recognition.heard import heard_sound
from regard.tasks.recognition.long_sounds import EARLIEST, quietest, silence_at_end, smooth_loudness
from regard.tasks.recognition.recognizer import Recognizer
from regard.tasks.recognition.transcript import Word

NAME = "the stream"  # of the sound, for messages
QUIET = 20.0  # decibels below the loudness of a segment at which it is silent
KEPT = 1.0  # seconds of sound without words that stay: a word may have begun

Closing = Literal["", "silence", "length", "end"]


class SpeechAlignment(Protocol):
    """The head that AlignAtt follows: see ``attention_head.SpeechHead``."""

    def weights(self, attention: dict[str, Tensor]) -> Tensor:
        """Return the weights (pieces, states) that align the pieces of a text."""


@dataclass(frozen=True)
class SegmentOptions:
    """Options of segments, in seconds.

    Attributes:
        step: of sound between two hypotheses.
        silence: closes a segment.
        longest: maximum of a segment; that of the run (``data.max_seconds``) applies, too.
    """

    step: float = 0.5
    silence: float = 0.6
    longest: float = 20.0

    def __post_init__(self) -> None:
        for name, least in (("step", 0.05), ("silence", 0.1), ("longest", 2.0)):
            value = getattr(self, name)
            if not least <= value <= 600:
                raise ConfigError(f"{name} is {value:g} s, and must be from {least:g} to 600 s", where=name)
        if self.longest < 4 * self.step:
            raise ConfigError("a segment must have at least 4 steps", where="longest", help="shorten step")


class SoundSegment(NamedTuple):
    """The present segment of a stream.

    Attributes:
        start: number of its first sample in the stream.
        sound: its samples so far.
        steps: the number of steps since it began.
        words: the committed words.
        pieces: the pieces of these words, with which hypotheses begin.
        until: seconds in the segment at which the last committed word ends; inf if unknown.
        unstable: the other words of the last hypothesis.
        agreed: the counts that the policy carries.
    """

    start: int = 0
    sound: Samples = np.zeros(0, np.float32)
    steps: int = 0
    words: tuple[str, ...] = ()
    pieces: tuple[int, ...] = ()
    until: float = 0.0
    unstable: tuple[str, ...] = ()
    agreed: tuple[int, ...] = ()


class SoundStream(NamedTuple):
    """The state of one stream.

    Attributes:
        segment: the present segment.
        waiting: (samples,) samples that are not yet a step.
    """

    segment: SoundSegment = SoundSegment()
    waiting: Samples = np.zeros(0, np.float32)


class SpeechOutput(NamedTuple):
    """The output after a step.

    Attributes:
        seconds: of the sound that was read, since the beginning of the stream.
        start: the second at which the present segment begins.
        end: the second at which its sound ends.
        committed: its text that is never taken back.
        new: the last part of ``committed``, which this step has added; it begins with a space after earlier words.
        unstable: the rest of the present hypothesis, likewise.
        words: the words of ``new`` with their seconds in the stream; () without CTC.
        final: whether the segment is closed.
        closing: the reason: a silence, the maximum length, or the end of the stream.
    """

    seconds: float
    start: float
    end: float
    committed: str
    new: str = ""
    unstable: str = ""
    words: tuple[Word, ...] = ()
    final: bool = False
    closing: Closing = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the output as JSON, with times in seconds."""
        seconds = {name: round(getattr(self, name), 3) for name in ("seconds", "start", "end")}
        texts = {"committed": self.committed, "new": self.new, "unstable": self.unstable, "final": self.final}
        words = [{"word": word, "start": round(start, 3), "end": round(end, 3)} for word, start, end in self.words]
        return seconds | texts | {"closing": self.closing, "words": words}


class _Hypothesis(NamedTuple):
    """The words of a segment, their seconds in it (() if unknown), their pieces, and frames they attend to."""

    words: list[str]
    times: Sequence[Word]
    tokens: Sequence[int]
    attended: Sequence[int] = ()


class StreamingRecognizer:
    """A recognizer of sounds that are still arriving. It has no state of a stream, so all clients can share it.

    The last word of a hypothesis waits, because its sound may be incomplete. A committed word is never made longer:
    letters that a later hypothesis adds to it are dropped.

    Args:
        recognizer: the model.
        policy: decides which words are committed; its units are steps, and for AlignAtt frames.
        options: of the segments.
        search: of the hypotheses; None for the settings of the run.
        alignment: the head that AlignAtt follows.

    Raises:
        ConfigError: if the model does not support the policy, or does not read sounds.
    """

    def __init__(
        self, recognizer: Recognizer, policy: Policy, options: SegmentOptions | None = None, *,
        search: RecognitionSearchConfig | None = None, alignment: SpeechAlignment | None = None,
    ) -> None:  # fmt: skip
        self.recognizer, self.policy, self.options = recognizer, policy, options or SegmentOptions()
        self.search = (search or recognizer.search).model_copy(update={"nbest": 1})
        self._features, self.rate = recognizer.features, recognizer.features.options.rate
        self.longest = min(self.options.longest, recognizer.config.data.max_seconds)
        self.step, self._longest = (round(x * self.rate) for x in (self.options.step, self.longest))  # samples
        self._alignment = alignment
        if not recognizer.suffixes:
            raise ConfigError("a stream requires a model of sounds", why='this one has data.input = "frames"')
        if policy.paces:
            raise ConfigError(
                f"{policy.name} counts source words, and sound has no words", where="policy", help="use local-agreement"
            )
        if policy.needs_attention and alignment is None:
            require_alignment(recognizer)
            raise ConfigError(f"{policy.name} requires an attention head", where="alignment")

    def open(self) -> SoundStream:
        """Return the state of a stream before its first sample."""
        return SoundStream()

    def advance(
        self, stream: SoundStream, samples: npt.NDArray[np.floating], *, final: bool = False,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> tuple[list[SpeechOutput], SoundStream]:  # fmt: skip
        """Return the output of each step that the samples complete, and the state after them.

        Outputs depend on the sound alone, not on the pieces in which it arrives.

        Args:
            stream: the state.
            samples: (samples,) between −1 and 1 at ``rate``, any number.
            final: whether the sound has ended; the present segment is then closed.
            interrupted: returns whether to stop.

        Raises:
            DataError: the samples are not finite numbers.
            KeyboardInterrupt: if ``interrupted`` returns true.
        """
        segment, waiting = stream.segment, np.concatenate([stream.waiting, _checked(samples)])
        outputs, whole = list[SpeechOutput](), len(waiting) // self.step * self.step
        for first in range(0, whole, self.step):
            sound = waiting[first : first + self.step]
            output, segment = self._advance(segment, sound, final=False, interrupted=interrupted)
            outputs.append(output)
        rest = waiting[whole:].copy()
        if not final:
            return outputs, SoundStream(segment, rest)
        if len(segment.sound) + len(rest):
            output, segment = self._advance(segment, rest, final=True, interrupted=interrupted)
            outputs.append(output)
        return outputs, SoundStream(segment)

    def _advance(
        self, before: SoundSegment, sound: Samples, *, final: bool, interrupted: Callable[[], bool]
    ) -> tuple[SpeechOutput, SoundSegment]:
        segment = before._replace(sound=np.concatenate([before.sound, sound]), steps=before.steps + 1)
        end = len(segment.sound)
        if final:
            return self._closed(segment, end, "end", interrupted)
        if silence_at_end(segment.sound, self._features.recipe, QUIET) >= self.options.silence:
            return self._closed(segment, end, "silence", interrupted)
        if end + self.step > self._longest:
            return self._closed(segment, self._cut(segment), "length", interrupted)
        if self.policy.reads(segment.steps) != segment.steps:
            return self._output(segment), segment
        hypothesis = self._hypothesis(segment, end, interrupted, attends=self.policy.needs_attention)
        first = end - round(KEPT * self.rate)
        if not (hypothesis.words or segment.words or segment.unstable) and first > 0:
            return self._output(segment), SoundSegment(segment.start + first, segment.sound[first:].copy())
        words, committed = _continued(segment, hypothesis), len(segment.words)
        read = self._features.recipe.count(end) if self.policy.needs_attention else segment.steps
        previous = (*segment.words, *segment.unstable)
        known = (*hypothesis.attended, *[read + 1] * (len(words) - len(hypothesis.attended)))
        draft = Draft(words, committed, False, previous, known, segment.agreed)
        count = self.policy.commit(draft, read)
        after = segment._replace(unstable=tuple(words[count:]), agreed=self.policy.agreed(draft))
        if count > committed:
            pieces = _pieces_of_words(hypothesis.tokens, count, self.recognizer.tokenizer)
            until = hypothesis.times[count - 1].end if hypothesis.times else math.inf
            after = after._replace(words=tuple(words[:count]), pieces=pieces, until=until)
        return self._output(after, hypothesis.times[committed:count], known=committed), after

    def _closed(
        self, segment: SoundSegment, end: int, closing: Closing, interrupted: Callable[[], bool]
    ) -> tuple[SpeechOutput, SoundSegment]:
        """Return the last output of a segment that ends at a sample, and the next segment."""
        hypothesis = self._hypothesis(segment, end, interrupted, attends=False)
        words, committed = _continued(segment, hypothesis), len(segment.words)
        after = segment._replace(words=tuple(words), unstable=())
        output = self._output(after, hypothesis.times[committed:], known=committed)
        closed = output._replace(end=(segment.start + end) / self.rate, final=True, closing=closing)
        return closed, SoundSegment(segment.start + end, segment.sound[end:].copy())

    def _output(self, segment: SoundSegment, times: Sequence[Word] = (), *, known: int | None = None) -> SpeechOutput:
        """Return the output of a segment, whose first ``known`` words were committed earlier; None: all."""
        start = segment.start / self.rate
        words = tuple(Word(word, first + start, last + start) for word, first, last in times)
        end = (segment.start + len(segment.sound)) / self.rate
        committed, before = " ".join(segment.words), " ".join(segment.words[:known])
        unstable = " ".join([*segment.words, *segment.unstable])[len(committed) :]
        return SpeechOutput(end, start, end, committed, committed[len(before) :], unstable, words)

    def _hypothesis(
        self, segment: SoundSegment, end: int, interrupted: Callable[[], bool], *, attends: bool
    ) -> _Hypothesis:
        """Return the hypothesis over the first samples of a segment, which begins with the committed pieces."""
        heard = heard_sound(self._features, Sound(segment.sound[:end], self.rate), NAME)
        frames = self._features.standardized(heard.frames)
        (recognized,) = self.recognizer.recognize_frames(
            [frames], self.search, interrupted=interrupted, prefixes=[segment.pieces]
        )
        transcript = self.recognizer.transcript(recognized, len(frames))
        words = transcript.text.split()
        times = [Word(word, first + heard.start, last + heard.start) for word, first, last in transcript.words]
        hypothesis = _Hypothesis(words, times if len(times) == len(words) else (), recognized.tokens)
        if not attends or not words:
            return hypothesis
        assert self._alignment is not None
        removed = round(heard.start * self._features.frame_rate)
        attended = attended_frames(self.recognizer, frames, recognized.tokens, self._alignment.weights)
        return hypothesis._replace(attended=[frame + removed for frame in attended])

    def _cut(self, segment: SoundSegment) -> int:
        """Return the sample at which a segment of the maximum length is cut: a quiet one after the committed words."""
        if segment.until == math.inf:
            return len(segment.sound)
        rate, recipe = self._features.frame_rate, self._features.recipe
        loudness = smooth_loudness(recipe.frames(segment.sound), rate)
        first = max(int(EARLIEST * len(loudness)), math.ceil(segment.until * rate))
        frame = quietest(loudness, first, len(loudness))
        return len(segment.sound) if frame >= len(loudness) else frame * recipe.step


def require_alignment(recognizer: Recognizer) -> None:
    """Raise ConfigError unless a model has an attention to the encoder, and CTC, by which its head is chosen."""
    config = recognizer.config.model
    if config.alone:
        why, missing = "its only output is CTC", "attention from the decoder to the encoder"
    elif not config.ctc:
        why, missing = "a head is chosen by its agreement with the alignment of CTC", "CTC"
    else:
        return
    raise ConfigError(
        f"alignatt requires {missing}, which this model lacks", where="policy", why=why, help="use local-agreement"
    )


def _continued(segment: SoundSegment, hypothesis: _Hypothesis) -> list[str]:
    """Return the committed words, and after them those of a hypothesis."""
    return [*segment.words, *hypothesis.words[len(segment.words) :]]


def _pieces_of_words(tokens: Sequence[int], count: int, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the pieces of the first words, with the space after them if it is a piece of its own."""
    end = len(tokens)
    while end and len(tokenizer.decode(tokens[:end]).split()) > count:
        end -= 1
    return tuple(tokens[:end])


def _checked(samples: npt.NDArray[np.floating]) -> Samples:
    """Return samples in float32; DataError if they are not finite floats in one channel."""
    array = np.asarray(samples)
    if array.ndim != 1 or array.dtype.kind != "f":
        what = f"cannot read samples of type {array.dtype} and shape {list(array.shape)}"
        raise DataError(what, where=NAME, help="pass floats between −1 and 1 in one channel")
    with np.errstate(over="ignore"):  # reported as not finite
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise DataError("a sample is not finite", where=NAME)
    return numbers

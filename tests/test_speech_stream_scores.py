"""Scores of streams of sound, and of their translations: delays that can be checked with a pencil, and the texts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.utterance import Utterance
from regard.data.wav_files import write_wav
from regard.errors import DataError
from regard.inference.policies import make_policy
from regard.inference.text_stream import StreamOutput
from regard.inspection.spoken_scores import score_spoken_translation
from regard.tasks.recognition import stream_scores
from regard.tasks.recognition.stream_scores import score_speech_streams, stream_recording
from regard.tasks.recognition.streaming import SegmentOptions, SpeechOutput
from regard.tasks.recognition.transcript import Word

RATE = 1000


class Scripted:
    """A recognizer whose steps of half a second have known outputs; each takes a second of a false clock."""

    policy, options, rate, step = make_policy("local-agreement", 1), SegmentOptions(step=0.5), RATE, 500

    def __init__(self, outputs: list[list[SpeechOutput]], clock: list[float], seconds: float) -> None:
        self.outputs, self.clock, self.seconds, self.calls = outputs, clock, seconds, list[tuple[int, bool]]()

    def open(self) -> int:
        return 0

    def advance(self, stream: int, samples: Any, *, final: bool, interrupted: Any) -> tuple[list[SpeechOutput], int]:
        self.calls.append((len(samples), final))
        self.clock[0] += self.seconds
        return self.outputs[stream], stream + 1


def recording(folder: Path, seconds: float, text: str) -> Utterance:
    path = folder / "a.wav"
    path.write_bytes(write_wav(np.zeros(round(RATE * seconds), np.int16), RATE))
    return Utterance(text=text, path=path, where="a.wav")


def output(text: str, *words: Word, final: bool = False) -> SpeechOutput:
    return SpeechOutput(0.0, 0.0, 0.0, text, words=words, final=final)


STEPS = [
    [output("")],
    [output("one", Word("one", 0.1, 0.4))],
    [output("one two", Word("two", 0.9, 1.2), final=True)],
    [output("tree", Word("tree", 1.5, 1.6), final=True)],
]


@pytest.mark.parametrize("seconds", [0.0, 0.25, 0.75])
def test_delays_and_errors_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock = [0.0]
    monkeypatch.setattr(stream_scores.time, "perf_counter", lambda: clock[0])
    model: Any = Scripted(STEPS, clock, seconds)
    score = score_speech_streams(model, [recording(tmp_path, 1.8, "one two three")])
    assert model.calls == [(500, False), (500, False), (500, False), (300, True)]
    # "one" ends at .4 and is committed after 1 s, "two" at 1.2 after 1.5 s, "tree" at 1.6 at the end, 1.8 s.
    assert score.delay[0] == pytest.approx((0.6 + 0.3 + 0.2) / 3) and score.words == 3
    # Each step begins when its sound is there and the one before is computed.
    ready = {0.0: (1, 1.5, 1.8), 0.25: (1.25, 1.75, 2.05), 0.75: (2, 2.75, 3.5)}[seconds]
    expected = sum(time - end for time, end in zip(ready, (0.4, 1.2, 1.6), strict=True)) / 3
    assert score.computed[0] == pytest.approx(expected)
    assert score.elapsed == pytest.approx((1000 * seconds, 1000 * seconds))
    assert score.wer == pytest.approx(100 / 3) and score.cer == pytest.approx(100 / 13)


def test_words_without_seconds_have_no_delay(tmp_path: Path) -> None:
    steps = [[output("")], [output("one", final=True)]]
    model: Any = Scripted(steps, [0.0], 0.0)
    score = score_speech_streams(model, [recording(tmp_path, 0.7, "one")])
    assert score.words == 0 and math.isnan(score.delay[0]) and score.wer == 0
    assert score.as_dict()["elapsed"].keys() == {"p50", "p99"}


def test_an_empty_segment_adds_no_space_and_frames_are_refused(tmp_path: Path) -> None:
    model: Any = Scripted([[output("a", final=True), output("", final=True)], [output("b", final=True)]], [0.0], 0.0)
    assert stream_recording(model, recording(tmp_path, 1.0, "a b")).text == "a b"
    frames = Utterance(text="a", frames=np.zeros((4, 2), np.float32), where="a.npz")
    with pytest.raises(DataError, match="frames cannot be streamed"):
        stream_recording(model, frames)


class Upper:
    """A translator that writes a word in capitals when the next one has arrived; each call takes half a second."""

    policy = make_policy("wait-k", 2)

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def advance(self, requests: Any, *, interrupted: Any) -> list[StreamOutput]:
        (request,) = requests
        self.clock[0] += 0.5
        words = request.text.upper().split()
        return [StreamOutput(" ".join(words if request.final else words[:-1]), final=request.final)]


def test_translated_words_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(stream_scores.time, "perf_counter", lambda: clock[0])
    steps = [
        [output("")],
        [SpeechOutput(1.0, 0.0, 1.0, "one two", new="one two")],
        [SpeechOutput(1.5, 0.0, 1.5, "one two", new="", final=True)],
        [SpeechOutput(1.8, 1.5, 1.8, "tree", new="tree", final=True)],
    ]
    model: Any = Scripted(steps, clock, 0.25)
    translator: Any = Upper(clock)
    one = recording(tmp_path, 1.8, "one two three")
    score = score_spoken_translation(model, translator, [one], ["ONE TWO THREE"], ["per"])
    (instance,) = score.instances
    # ONE is written when "two" is heard (1 s), TWO at the end of its segment (1.5 s), TREE at the end of the sound.
    assert instance.prediction == "ONE TWO TREE" and instance.delays == pytest.approx([1000, 1500, 1800])
    # A step takes .25 s, and .5 s more if there is something to translate. The first one is ready at .75 s.
    assert instance.elapsed == pytest.approx([1750, 2500, 3250]) and instance.source_length == 1800
    assert score.elapsed[0] == 750 and score.translate_policy == "wait-k" and score.wer == pytest.approx(100 / 3)
    # LAAL: the k-th word of three is due at .6 (k - 1) s.
    assert score.sound["LAAL"] == pytest.approx((1.0 + 0.9 + 0.6) / 3)
    assert score.computed["LAAL"] == pytest.approx((1.75 + 1.9) / 2)  # up to the first word after the end of the sound
    assert score.figures == {"per": pytest.approx(100 / 3)}

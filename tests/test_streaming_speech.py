"""Recognition of sounds that are still arriving: laws over policies, models and the pieces in which sounds arrive."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.audio_files import Sound, resample
from regard.data.raw_sound import RawSound
from regard.errors import ConfigError, DataError
from regard.inference.continued_text import ContinuedText
from regard.inference.policies import make_policy
from regard.inference.text_stream import StreamInput, StreamOutput
from regard.tasks.recognition import attention_head
from regard.tasks.recognition import streaming as streaming_module
from regard.tasks.recognition.attention_head import SpeechHead, attended_frames, choose_head, find_head
from regard.tasks.recognition.heard import heard_sound
from regard.tasks.recognition.long_sounds import quietest, silence_at_end
from regard.tasks.recognition.searching import Recognized
from regard.tasks.recognition.streaming import KEPT, QUIET, SegmentOptions, SoundSegment, StreamingRecognizer

from .speech import RATE
from .speech_streams import CASES, MODELS, listen, recognizer, sound, streaming

SPOKEN: list[str | float] = [0.3, "ab cab b a", 0.9, "bc c", 0.2]
NEVER = 1000  # a lag of local agreement after which no segment of a test has a hypothesis


@pytest.mark.parametrize(("name", "policy", "lag"), CASES)
def test_no_word_is_taken_back_in_any_pieces(name: str, policy: str, lag: int) -> None:
    model, samples = streaming(recognizer(name), policy, lag, longest=2.0), sound(SPOKEN)
    draws = random.Random(f"{name} {policy} {lag}")
    outputs = listen(model, samples, sorted(draws.sample(range(len(samples)), draws.randint(1, 30))))
    assert outputs == listen(model, samples)
    before, last = "", 0.0
    for output in outputs:
        assert output.committed == before + output.new
        assert not before or not output.new or output.new[0] == " "  # a committed word does not become longer
        assert not output.committed or not output.unstable or output.unstable[0] == " "
        assert output.start >= last and output.end >= output.start  # no sound belongs to two segments
        assert all(output.start <= word.start <= word.end <= output.end + 1e-6 for word in output.words)
        before, last = ("", output.end) if output.final else (output.committed, last)
    assert outputs[-1].final and outputs[-1].closing == "end" and not outputs[-1].unstable
    assert sum(len(output.committed) for output in outputs if output.final) > 3


@pytest.mark.parametrize("name", MODELS)
def test_a_segment_without_commits_has_the_text_of_its_sound(name: str) -> None:
    model, samples = recognizer(name), sound(SPOKEN)
    outputs = [o for o in listen(streaming(model, lag=NEVER, longest=2.0), samples) if o.final]
    assert len(outputs) == 3 and any(output.committed for output in outputs)
    for output in outputs:
        part = samples[round(output.start * RATE) : round(output.end * RATE)]
        (whole,) = model.recognize([heard_sound(model.features, Sound(part, RATE), "")], model.search)
        assert output.committed == whole.text
        seconds = [(start + output.start, end + output.start) for _, start, end in whole.words]
        assert [pair for word in output.words for pair in word[1:]] == pytest.approx(np.ravel(seconds).tolist())
        assert len(output.words) == (len(output.committed.split()) if name != "attention" else 0)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_begin_with_their_prefix(name: str) -> None:
    model = recognizer(name)
    frames = [model.features.standardized(model.features.recipe.frames(sound([text]))) for text in ("abc a", "cab ca")]
    prefix = model.tokenizer.encode("ca")
    first, second = model.recognize_frames(frames, model.search, prefixes=[prefix, ()])
    assert first.tokens[: len(prefix)] == prefix
    assert second.tokens == model.recognize_frames(frames, model.search)[1].tokens or name.startswith("ctc")


class Scripted:
    """A recognizer whose hypotheses are given texts, one after the other; it keeps the prefixes."""

    def __init__(self, texts: Sequence[str], times: Sequence[tuple[int, int]] = ()) -> None:
        self.model, self.texts, self.prefixes = recognizer("ctc"), [*texts], list[str]()
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def recognize_frames(self, frames: Any, settings: Any, *, prefixes: Any, **options: Any) -> list[Recognized]:
        self.prefixes.append(self.tokenizer.decode(prefixes[0]))
        tokens = self.tokenizer.encode(self.texts.pop(0))
        return [Recognized(tokens, 0.0, [(n, n) for n in range(len(tokens))] if self.times == () else [])]


NOISE = np.random.default_rng(1).normal(0, 0.1, 4 * RATE).astype(np.float32)


def scripted(texts: Sequence[str], **options: Any) -> tuple[Any, list[tuple[str, str]]]:
    model = Scripted(texts)
    outputs = listen(StreamingRecognizer(model, make_policy("local-agreement", 1), **options), NOISE)  # type: ignore[arg-type]
    return model, [(output.committed, output.unstable) for output in outputs]


def test_local_agreement_on_paper() -> None:
    texts = [
        "ab",
        "ab ca",
        "ab cab b",
        "ab cab bc",
        "ab cab bc a",
        "",
        "ab cab bc a c",
        "ab cab bc a b",
        "ab cab bc ac",
    ]
    model, outputs = scripted(texts)
    assert outputs == [
        ("", "ab"), ("ab", " ca"), ("ab", " cab b"), ("ab cab", " bc"), ("ab cab bc", " a"), ("ab cab bc", ""),
        ("ab cab bc", " a c"), ("ab cab bc a", " b"), ("ab cab bc a", ""),
    ]  # fmt: skip
    assert model.prefixes == ["", "", "ab ", "ab ", "ab cab ", *["ab cab bc "] * 3, "ab cab bc a "]


def test_a_committed_word_is_never_made_longer() -> None:
    _, outputs = scripted(["ab c", "ab c", "abc c a", "abc c a", *["abc c ab b"] * 5])
    assert outputs[1:4] == [("ab", " c"), ("ab c", " a"), ("ab c", " a")] and outputs[-1] == ("ab c ab b", "")


def test_sound_without_words_is_dropped() -> None:
    _, outputs = scripted([""] * 9)
    assert outputs == [("", "")] * 9
    model = StreamingRecognizer(Scripted(["", "a", "", "", "b", "b"]), make_policy("local-agreement", 1))  # type: ignore[arg-type]
    starts = [output.start for output in listen(model, NOISE[: 5 * RATE // 2])]
    assert starts == [0.0, 0.0, 0.0, 0.0, 2.0 - KEPT, 2.0 - KEPT]  # not right after a hypothesis with words


def test_segments_are_closed_at_silences() -> None:
    outputs = listen(streaming(recognizer("ctc"), lag=NEVER), sound([0.4, "ab", 1.0, "abc c", 0.4, "c", 0.2]))
    finals = [output for output in outputs if output.final]
    assert [output.closing for output in finals] == ["silence", "end"]
    assert finals[0].end == 1.5 and finals[1].start == 1.5  # the text ends at 0.72 s; 0.6 s later is within a step


@pytest.mark.parametrize(
    ("parts", "seconds"),
    [
        ([(0.1, 0.5), (0.001, 0.7)], 0.7),
        ([(0.1, 0.5), (0.05, 0.7)], 0.0),  # 6 dB lower
        ([(0.1, 0.5), (0.012, 0.7)], 0.0),  # 18.4 dB lower
        ([(0.1, 0.5), (0.009, 0.7)], 0.7),  # 20.9 dB lower
        ([(0.9, 0.05), (0.01, 0.7)], 0.0),  # a click
        ([(0.0, 1.0)], 0.0),
        ([(0.0, 1.0), (0.1, 0.5), (0.0, 0.3)], 0.3),
    ],
)
def test_silence_at_the_end_on_paper(parts: list[tuple[float, float]], seconds: float) -> None:
    signs = np.resize(np.array([1, -1], np.float32), RATE)
    samples = np.concatenate([level * signs[: round(length * RATE)] for level, length in parts])
    found = silence_at_end(samples.astype(np.float32), recognizer().features.recipe, QUIET)
    assert found == pytest.approx(seconds, abs=0.04)


def test_a_long_segment_is_cut_at_a_quiet_place_after_its_committed_words() -> None:
    samples = np.concatenate([NOISE, NOISE[: 2 * RATE]])
    samples[round(3.3 * RATE) : round(3.5 * RATE)] *= 0.2
    samples[round(4.8 * RATE) : round(5.1 * RATE)] *= 0.4
    model = streaming(recognizer("ctc"), longest=6.0)
    assert 3.3 * RATE <= model._cut(SoundSegment(sound=samples)) <= 3.5 * RATE
    assert 4.8 * RATE <= model._cut(SoundSegment(sound=samples, until=3.7)) <= 5.1 * RATE
    assert (
        model._cut(SoundSegment(sound=samples, until=6.0))
        == model._cut(SoundSegment(sound=samples, until=np.inf))
        == 6 * RATE
    )
    (first, second) = [o for o in listen(streaming(recognizer("ctc"), lag=NEVER, longest=4.0), samples) if o.final]
    assert first.closing == "length" and 3.3 <= first.end <= 3.5 and second.start == first.end and second.end == 6.0
    assert quietest(np.array([3.0, 1.0, 2.0]), 0, 3) == 1 and quietest(np.zeros(3), 3, 3) == 3


def test_a_segment_is_at_most_as_long_as_recordings_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = recognizer("ctc")
    data = model.config.data.model_copy(update={"max_seconds": 1.6})
    monkeypatch.setattr(model, "config", model.config.model_copy(update={"data": data}))
    outputs = listen(streaming(model, lag=NEVER), NOISE)
    assert max(output.end - output.start for output in outputs) <= 1.6 and outputs[-1].end == 4.0
    assert {output.closing for output in outputs if output.final} == {"length", "end"}


def test_the_kept_sound_is_bounded() -> None:
    model = streaming(recognizer("ctc"), step=0.25, longest=2.0)
    stream, most = model.open(), 0
    for number in range(40):
        _, stream = model.advance(stream, sound(["ab cab b"], seed=number)[: random.Random(number).randint(1, 9000)])
        arrays = [part if part.base is None else part.base for part in (stream.segment.sound, stream.waiting)]
        most = max(most, sum(array.size for array in arrays if array is not None))
        assert len(stream.segment.words) + len(stream.segment.unstable) < 20
    assert RATE < most <= (2.0 + 2 * 0.25) * RATE


def test_a_state_can_be_used_twice() -> None:
    model, samples = streaming(recognizer("ctc"), step=0.25), sound(SPOKEN)
    _, stream = model.advance(model.open(), samples[: 2 * RATE])
    other, _ = model.advance(stream, 0.3 * NOISE[:RATE], final=True)
    first, second = (model.advance(stream, samples[2 * RATE :], final=True)[0] for _ in range(2))
    assert first == second and [*first] != [*other]
    assert model.advance(model.open(), samples[:0], final=True) == ([], model.open())
    with pytest.raises(KeyboardInterrupt):
        model.advance(stream, samples[2 * RATE :], interrupted=lambda: True)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(4, np.int16), "of type int16"),
        (np.zeros((4, 2), np.float32), r"shape \[4, 2\]"),
        (np.array([0.0, np.nan], np.float32), "not finite"),
        (np.array([1e300]), "not finite"),
        ("a.wav", "of type <U5"),
    ],
)
def test_bad_samples_are_refused(samples: Any, message: str) -> None:
    model = streaming(recognizer("ctc"))
    with pytest.raises(DataError, match=message):
        model.advance(model.open(), samples)


def test_policies_that_a_model_does_not_support_are_refused() -> None:
    for name, policy, message in (
        ("ctc", "wait-k", "counts source words"),
        ("ctc", "alignatt", "requires attention"),
        ("attention", "alignatt", "requires CTC"),
        ("joint", "alignatt", "requires an attention head"),
    ):
        with pytest.raises(ConfigError, match=message):
            StreamingRecognizer(recognizer(name), make_policy(policy, 3))  # type: ignore[arg-type]
    for options in (
        {"step": 0.0},
        {"step": float("nan")},
        {"silence": 0.0},
        {"longest": 1e9},
        {"step": 2, "longest": 5},
    ):
        with pytest.raises(ConfigError):
            SegmentOptions(**options)
    with pytest.raises(ConfigError, match="at least 1") as caught:
        make_policy("local-agreement", 0, "steps")
    assert "number of steps between" in str(caught.value.help)


def test_alignatt_waits_for_words_that_attend_to_the_last_frames() -> None:
    model, frames = recognizer(), np.zeros((40, 40), np.float32)  # 10 states of 4 frames
    tokens, table = model.tokenizer.encode("ab c a"), torch.zeros(7, 10)
    for piece, state in enumerate([1, 3, 9, 5, 9, 9]):  # the spaces attend to the last state
        table[piece, state] = 1.0
    assert attended_frames(model, frames, tokens, lambda attention: table) == [16, 24, 40]
    samples = sound(["abc ab"])
    waiting = listen(streaming(model, "alignatt", 1000), samples)
    assert not any(output.new for output in waiting[:-1])
    hasty = listen(streaming(model, "alignatt", 0), samples)
    words = [(output.committed + output.unstable).split() for output in hasty[:-1]]
    assert [len(output.committed.split()) for output in hasty[:-1]] == [max(len(all) - 1, 0) for all in words]


def test_frames_are_counted_from_the_beginning_of_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_module, "attended_frames", lambda *arguments: [4, 8])
    model = streaming(recognizer("ctc trimmed"), "alignatt", 1)
    hypothesis = model._hypothesis(SoundSegment(sound=sound([0.3, "ab"])), RATE, lambda: False, attends=True)
    assert hypothesis.attended[1] - hypothesis.attended[0] == 4 and 30 <= hypothesis.attended[0] <= 34


def test_the_head_is_chosen_by_agreement_with_ctc(monkeypatch: pytest.MonkeyPatch) -> None:
    model, frames = recognizer(), recognizer().features.recipe.frames(sound(["abc ab c"]))
    frames = model.features.standardized(frames)
    (recognized,) = model.recognize_frames([frames], model.search)
    aligned = torch.zeros(len(recognized.tokens) + 1, len(model.net.encoder.embedding.ranges(len(frames))))
    for piece, (first, _) in enumerate(recognized.states):
        aligned[piece + 1, first] = 1.0
    others = aligned.flip(1)
    tables = {"decoder.0.source": torch.stack([others, others]), "decoder.1.source": torch.stack([others, aligned])}
    monkeypatch.setattr(attention_head, "source_attention", lambda *arguments: tables)
    head = choose_head(model, [frames])
    assert head == SpeechHead("decoder.1.source", 1, 1, 1.0, len(recognized.tokens))
    assert head.weights(tables)[:-1].equal(aligned[1:]) and not head.weights(tables)[-1].any()
    with pytest.raises(ConfigError, match="recognizes no text"):
        choose_head(model, [])


@pytest.mark.parametrize(("rate", "new_rate"), [(8000, 8000), (16000, 8000), (11025, 8000)])
def test_raw_sound_is_read_in_any_pieces(rate: int, new_rate: int) -> None:
    samples = (sound(["ab"]) * 32767).astype("<i2")
    contents, draws = samples.tobytes() + b"\x01", random.Random(rate)
    raw, parts, place = RawSound(rate, new_rate), [], 0
    while place < len(contents):
        size = draws.choice([1, 2, 3, 1001])
        parts.append(raw.add(contents[place : place + size]))
        place += size
    parts.append(raw.add(b"", final=True))
    expected = resample((samples / 32768).astype(np.float32), rate, new_rate, "")
    assert np.concatenate(parts) == pytest.approx(expected, abs=1e-6) and not raw.is_whole
    with pytest.raises(ConfigError, match="rate of raw sound"):
        RawSound(0, 8000)


def test_a_growing_text_is_translated_sentence_by_sentence() -> None:
    requests = list[StreamInput]()

    class Upper:
        def advance(self, given: Any, **options: Any) -> list[StreamOutput]:
            (request,) = given
            requests.append(request)
            first, stop, rest = request.text.partition(".")
            closes = request.final or bool(stop and rest.strip())
            text = (first + stop).upper().strip()
            rest = rest.strip() + " " if closes and rest.strip() else ""
            return [StreamOutput(text, text[len(request.committed) :], "?", closes, rest, cursor="1-00000000")]

    model: Any = Upper()
    (one,), state = ContinuedText().advance(model, "a b", final=False)
    outputs, state = state.advance(model, "c. d", final=False)
    assert one.committed == "A B" and [output.committed for output in outputs] == ["A B C.", "D"]
    assert requests[1] == StreamInput("a b c. d ", "A B", "?", cursor="1-00000000") and requests[2] == StreamInput("d ")
    outputs, state = state.advance(model, "", final=True)
    assert outputs[-1].committed == "D" and state == ContinuedText()


def test_a_saved_head_of_other_types_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A received run folder may hold any file."""
    model, measured = recognizer("joint"), SpeechHead("decoder.0.source", 1, 0, 0.5, 7)
    run: Any = SimpleNamespace(path=tmp_path, weights_path=lambda checkpoint: "best", data=tmp_path)
    monkeypatch.setattr(attention_head, "choose_head", lambda *arguments: measured)
    monkeypatch.setattr(attention_head, "_recordings", lambda *arguments: [])
    whole = measured._replace(head=0)._asdict() | {"checkpoint": "best"}
    path = tmp_path / "alignment.json"
    path.write_text(json.dumps(whole))
    assert find_head(run, model).head == 0
    for change in (
        {"head": 0.5}, {"head": True}, {"head": -1}, {"head": 99}, {"head": "0"}, {"shift": 2},
        {"attention": []}, {"attention": "decoder.9.source"}, {"agreement": "x"}, {"agreement": 2.0}, {"pieces": None},
        {"checkpoint": "last"}, {"more": 1},
    ):  # fmt: skip
        path.write_text(json.dumps(whole | change))
        assert find_head(run, model) == measured, change
    for text in ("", "[]", "null", "{", "\x00"):
        path.write_text(text)
        assert find_head(run, model) == measured

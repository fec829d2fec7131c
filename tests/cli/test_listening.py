"""``regard recognize --streaming``: words of raw sound as they are committed, JSON, translation and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.commands.spoken_translation import SpokenTranslation
from regard.errors import ConfigError, RegardError
from regard.inference.text_stream import StreamOutput
from regard.runs.run_folder import RunFolder
from regard.tasks.recognition import attention_head
from regard.tasks.recognition.attention_head import find_head

from ..speech import RATE, trained
from ..speech_streams import recognizer, sound
from .conftest import TinyRun

PARTS: list[str | float] = [0.3, "ab b a", 1.0, "c ab", 1.0, "b", 0.1]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("speech"), steps=200, decoder="none").path


def raw(parts: Any = PARTS, *, times: int = 1) -> bytes:
    samples = (sound(parts) * 32767).astype("<i2")
    return np.repeat(samples, times).tobytes()


def test_a_line_is_printed_for_each_segment(regard: Any, speech: Path, tmp_path: Path) -> None:
    options = ("--streaming", "--raw", RATE)
    result = regard("recognize", speech, "-", *options, input=raw())
    assert result.exit_code == 0 and result.stdout == "ab b a\nc ab\nb\n" and result.stderr == ""
    (tmp_path / "sound.raw").write_bytes(raw() + b"\x00")
    result = regard("recognize", speech, tmp_path / "sound.raw", *options, "--lag", 2, "--step", 0.3, "--silence", 0.4)
    assert result.stdout == "ab b a\nc ab\nb\n"
    assert result.stderr == f"{tmp_path / 'sound.raw'} ends within a sample; its last byte was dropped\n"
    twice = regard("recognize", speech, "-", "--streaming", "--raw", 2 * RATE, input=raw(times=2))
    assert twice.stdout == "ab b a\nc ab\nb\n"


def test_an_end_within_a_word_and_an_empty_pipe(regard: Any, speech: Path) -> None:
    options = ("recognize", speech, "-", "--streaming", "--raw", RATE)
    half = regard(*options, input=raw()[: round(2 * RATE * (0.3 + 0.2 * 4))])
    assert half.exit_code == 0 and half.stdout == "ab b\n"
    for contents in (b"", b"\x00"):
        assert regard(*options, input=contents).stdout == ""
        assert regard(*options, "--json", input=contents).stdout == ""
    silence = regard(*options, input=bytes(6 * RATE))
    assert silence.exit_code == 0 and silence.stdout == ""


def test_json_has_an_object_for_each_step(regard: Any, speech: Path) -> None:
    result = regard("recognize", speech, "-", "--streaming", "--raw", RATE, "--json", input=raw())
    steps = [json.loads(line) for line in result.stdout.splitlines()]
    assert [step["seconds"] for step in steps[:-1]] == [0.5 * number for number in range(1, len(steps))]
    assert [step["committed"] for step in steps if step["final"]] == ["ab b a", "c ab", "b"]
    assert [step["closing"] for step in steps if step["final"]] == ["silence", "silence", "end"]
    text, committed = "", ""
    for step in steps:
        text += step["new"]
        assert step["committed"] == committed + step["new"] and step["elapsed"] > 0
        committed = "" if step["final"] else step["committed"]
    assert text == "ab b ac abb" and any(step["unstable"] for step in steps)
    words = [word for step in steps for word in step["words"]]
    assert [word["word"] for word in words] == ["ab", "b", "a", "c", "ab", "b"]
    assert 0.2 < words[0]["start"] < words[0]["end"] < 0.8 and 2.3 < words[3]["start"] < 2.8


def test_a_long_segment_is_reported(regard: Any, speech: Path) -> None:
    result = regard("recognize", speech, "-", "--streaming", "--raw", RATE, "--lag", 9, input=raw(["abc" * 35]))
    assert result.stderr == "closed 1 segment at the maximum length of 20 s\n" and result.stdout.count("\n") == 2
    options = ("--streaming", "--raw", RATE, "--longest", 4)
    result = regard("recognize", speech, "-", *options, input=raw(["abc" * 8]))
    assert result.stderr == "closed 1 segment at the maximum length of 4 s\n"


def test_committed_words_are_translated(regard: Any, speech: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Upper:
        def advance(self, requests: Any, **options: Any) -> list[StreamOutput]:
            (request,) = requests
            words = request.text.upper().split()
            text = " ".join(words if request.final else words[:-1])
            return [StreamOutput(text, unstable="" if request.final else "?", final=request.final, cursor="1-00000000")]

    monkeypatch.setattr(SpokenTranslation, "open", lambda self: (None, Upper()))
    command = ("recognize", speech, "-", "--streaming", "--raw", RATE, "--translate", "runs/none")
    assert regard(*command, input=raw()).stdout == "AB B A\nC AB\nB\n"
    steps = [json.loads(line) for line in regard(*command, "--json", input=raw()).stdout.splitlines()]
    assert "".join(step["new"] for step in steps) == "AB B AC ABB"
    assert {step["unstable"] for step in steps if step["committed"] and not step["final"]} == {"?"}
    assert {step["unstable"] for step in steps if step["final"]} == {""}


def test_the_translator_is_a_run_of_translation(regard: Any, speech: Path, tiny_run: TinyRun) -> None:
    command = ("recognize", speech, "-", "--streaming", "--raw", RATE, "--translate")
    result = regard(*command, tiny_run.path, input=raw())
    assert result.exit_code == 0 and result.stdout.count("\n") == 3
    waiting = ("--translate-policy", "wait-k", "--translate-lag", 100)  # longer than each segment: written at its end
    lines = regard(*command, tiny_run.path, *waiting, "--json", input=raw()).stdout.splitlines()
    steps = [json.loads(line) for line in lines]
    assert all(step["final"] for step in steps if step["new"]) and any(step["new"] for step in steps)
    assert isinstance(regard(*command, speech, input=raw()).exception, ConfigError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-", "--streaming"], "--streaming requires --raw"),
        (["-", "--raw", "8000"], "requires --streaming"),
        (["a.wav", "--policy", "alignatt"], "requires --streaming"),
        (["-", "--streaming", "--raw", "0"], "rate of raw sound"),
        (["-", "--streaming", "--raw", "8000", "--policy", "wait-k"], "counts source words"),
        (["-", "--streaming", "--raw", "8000", "--policy", "alignatt"], "requires attention"),
        (["-", "--streaming", "--raw", "8000", "--lag", "0"], "lag of at least 1"),
        (["-", "--streaming", "--raw", "8000", "--step", "0"], "step is 0 s"),
        (["-", "--streaming", "--raw", "8000", "--format", "srt"], "cannot be used with --streaming"),
        (["-", "-", "--streaming", "--raw", "8000"], "reads one file"),
        (["none.raw", "--streaming", "--raw", "8000"], "none.raw"),
        (["-", "--streaming", "--raw", "8000", "--set", "beams=2"], "beams"),
        (["-", "--streaming", "--raw", "8000", "--translate-policy", "wait-k"], "requires --translate"),
        (["-", "--streaming", "--raw", "8000", "--translate-lag", "2"], "requires --translate"),
        (["-", "--streaming", "--raw", "8000", "--translate-agree", "3"], "requires --translate"),
        (["-", "--streaming", "--raw", "8000", "--policy", "alignatt", "--agree", "3"], "does not compare hypotheses"),
        (["-", "--agree", "3"], "requires --streaming"),
        (["a.wav", "--translate", "none"], "requires --streaming"),
    ],
)
def test_bad_options_are_refused(regard: Any, speech: Path, options: list[str], message: str) -> None:
    result = regard("recognize", speech, *options, input=raw())
    error = result.exception
    assert isinstance(error, RegardError) and message in f"{error} {error.where}" and result.stdout == ""


def test_a_reader_that_exits_ends_the_command(speech: Path, tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(raw())
    command = f"{sys.executable} -m regard recognize {speech} - --streaming --raw {RATE} --threads 1"
    endless = f"(while cat {tmp_path / 'a.raw'}; do :; done) 2>/dev/null | {command} | head -1"
    done = subprocess.run(["bash", "-c", endless], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ab b a\n" and "Traceback" not in done.stderr


def test_words_are_printed_while_the_pipe_is_open(speech: Path) -> None:
    command = [sys.executable, "-m", "regard", "recognize", str(speech), "-", "--streaming", "--raw", str(RATE)]
    with subprocess.Popen([*command, "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        contents = raw()
        process.stdin.write(contents[: 3 * RATE])
        process.stdin.flush()
        first = process.stdout.read(2)  # arrives before the end of the segment
        process.stdin.write(contents[3 * RATE :])
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait() == 0
    assert first + rest == b"ab b a\nc ab\nb\n"


def test_the_head_is_measured_once(speech: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, model = RunFolder.open(speech), recognizer()
    head = find_head(run, model)
    assert 0 < head.agreement < 1 and head.pieces > 0
    saved = json.loads((speech / "alignment.json").read_text())
    measured = list[int]()

    def again(model: Any, recordings: Any) -> Any:
        measured.append(len(recordings))
        return head

    monkeypatch.setattr(attention_head, "choose_head", again)
    assert find_head(run, model) == head and not measured
    for change in ({"checkpoint": "other"}, {"head": 9}, {"shift": 3}, {"attention": "none"}, {"head": "0"}):
        (speech / "alignment.json").write_text(json.dumps(saved | change))
        assert find_head(run, model) == head
    (speech / "alignment.json").write_text("{")
    assert find_head(run, model) == head and measured == [64] * 6
    (speech / "alignment.json").unlink()
    (speech / "data" / "train-frames").rename(tmp_path / "frames")
    with pytest.raises(ConfigError, match="cannot choose an attention head"):
        find_head(run, model)
    (tmp_path / "frames").rename(speech / "data" / "train-frames")

"""The check of recordings: each finding on a recording made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.data.lint.utterances import lint_utterances
from regard.data.utterance import Utterance
from regard.data.wav_files import write_wav

RATE = 8000


def recording(folder: Path, name: str, samples: Any, text: str = "ten letter", speaker: str = "") -> Utterance:
    path = folder / name
    path.write_bytes(samples if isinstance(samples, bytes) else write_wav(np.asarray(samples, np.int16), RATE))
    return Utterance(f"{folder}/list.jsonl:{name[0]}", text, path=path, speaker=speaker)


def test_each_finding_is_reported_with_its_line(tmp_path: Path) -> None:
    tone = 8000 * np.sin(np.arange(RATE) * 0.3)
    train = [
        recording(tmp_path, "1.wav", tone, speaker="a"), recording(tmp_path, "2.wav", tone + 1, speaker="b"),
        recording(tmp_path, "3.wav", np.zeros(RATE)), recording(tmp_path, "4.wav", np.sign(tone) * 32767),
        recording(tmp_path, "5.wav", tone + 2, text="t"), recording(tmp_path, "6.wav", tone + 3, text="much " * 20),
        recording(tmp_path, "7.wav", b"RIFF"),
        Utterance(f"{tmp_path}/list.jsonl:8", "ten letter", path=tmp_path / "1.wav"),
    ]  # fmt: skip
    held_out = [train[0]._replace(where="valid.jsonl:1"), train[1]._replace(where="valid.jsonl:2", speaker="c")]
    report = lint_utterances(train, {"valid.jsonl": lambda: held_out}, frame_rate=100)
    lines = {finding.kind: [] for finding in report.findings}  # type: dict[str, list[int | None]]
    for finding in report.findings:
        lines[finding.kind].append(finding.line)
    expected = {"silent": [3], "clipped": [4], "speed": [5, 6], "format": [7], "duplicate": [8], "speaker": [1]}
    assert lines == expected
    assert report.lines == 8
    assert report.summary[0].endswith("1.0 to 1.0 s, median 1.0 s") and "2 speakers" in report.summary[0]
    assert report.summary[1] == "7 recordings at 8,000 Hz"
    assert report.summary[2] == "2 recordings in valid.jsonl, 100% with a text of the training data"


def test_frames_are_checked_too() -> None:
    one = Utterance("a.npz:1", "ab", frames=np.ones((50, 2), np.float32))
    report = lint_utterances([one], {}, frame_rate=50)
    assert report.counts == {"silent": 1} and report.summary[0].startswith("0.0 minutes, 1.0 to 1.0 s")

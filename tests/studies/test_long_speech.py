"""The study of long speech: its strings, what it requires, and a verdict that can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.wav_files import read_wav
from regard.errors import ConfigError, DataError
from regard.studies import digit_strings, long_speech
from regard.studies.catalog import STUDIES
from regard.studies.digit_strings import WORDS, read_digits, tones, write_strings
from regard.studies.long_speech import SEARCHES
from regard.studies.study import ignore_report

NUMBERS = {"train": 6, "valid": 4, "test": 4, "long": 2}


def lines(folder: Path, part: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{part}.jsonl").read_text().splitlines()]


def marked() -> Any:
    """Digits whose samples are the number of their take, for each of three speakers."""
    source = dict(tones(1))
    source["samples"] = np.repeat(source["take"] + 1, np.diff(source["offsets"])).astype(np.int16)
    return source


def test_no_take_is_in_two_parts_and_texts_are_what_is_said(tmp_path: Path) -> None:
    write_strings(marked(), tmp_path, numbers=NUMBERS)
    for part, (first, last) in digit_strings.TAKES.items():
        assert len(lines(tmp_path, part)) == NUMBERS[part]
        for line in lines(tmp_path, part):
            words = line["text"].split()
            assert len(words) == 25 if part == "long" else 1 <= len(words) <= 5
            assert {*words} <= {*WORDS} and line["speaker"] in ("low", "high")
            wave = read_wav((tmp_path / line["audio_filepath"]).read_bytes(), part)
            takes = {round(float(each) * 32768) for each in np.unique(wave.samples)} - {0}
            assert takes and min(takes) > first and max(takes) <= last
            assert line["duration"] == pytest.approx(len(wave.samples) / wave.rate)


def test_an_unseen_speaker_is_in_the_tests_alone(tmp_path: Path) -> None:
    write_strings(tones(1), tmp_path, unseen="low", numbers=NUMBERS)
    speakers = {part: {line["speaker"] for line in lines(tmp_path, part)} for part in NUMBERS}
    assert speakers == {"train": {"high"}, "valid": {"high"}, "test": {"low"}, "long": {"low"}}


def test_equal_seeds_write_equal_strings(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_strings(tones(1), tmp_path / name, numbers=NUMBERS, seed=seed)
    texts = [[line["text"] for line in lines(tmp_path / name, "train")] for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
    assert (tmp_path / "a/long/1.wav").read_bytes() == (tmp_path / "b/long/1.wav").read_bytes()


def test_missing_recordings_and_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="requires recordings of digits"):
        STUDIES["long-speech"].run()
    for updates in ("many", 0, True, 2.5):
        with pytest.raises(ConfigError, match="updates cannot be"):
            STUDIES["long-speech"].run(data=tmp_path, options={"updates": updates})
    np.savez(tmp_path / "a.npz", samples=np.zeros(3, np.int16), offsets=np.array([0, 3]))
    with pytest.raises(DataError, match="lacks label, speaker, take, speaker_names"):
        read_digits(tmp_path / "a.npz")


@pytest.mark.parametrize(("location", "content", "holds"), [(10, 20, True), (10.1, 90, False), (8, 15, False)])
def test_the_verdict_follows_from_the_rates(
    monkeypatch: pytest.MonkeyPatch, location: float, content: float, holds: bool
) -> None:
    rates = dict.fromkeys(SEARCHES, (3.0, 50.0))
    rates |= {"location-aware attention and CTC": (3.0, location), "content-only attention and CTC": (3.0, content)}
    monkeypatch.setattr(long_speech, "_measure", lambda *_: (rates, {}))
    findings = long_speech.run(seed=1, minimal=True, report=ignore_report, data=None, folder=None, options={})
    assert all(criterion.holds for criterion in findings.criteria) == holds
    assert len(findings.rows) == len(SEARCHES)

"""``regard evaluate --streaming`` of a recognizer: its table, JSON, and options that do not apply to sounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.wav_files import write_wav
from regard.errors import RegardError
from regard.metrics.latency import read_instances

from ..speech import RATE, trained
from ..speech_streams import sound
from .conftest import TinyRun

TEXTS = ["ab b a", "c ab", "b c"]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("speech"), steps=200, decoder="none").path


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    lines = []
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.wav").write_bytes(write_wav((sound([0.2, text, 0.3]) * 32767).astype("<i2"), RATE))
        lines.append(json.dumps({"audio_filepath": f"{number}.wav", "text": text}))
    (tmp_path / "test.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "test.jsonl"


def test_a_row_for_each_lag(regard: Any, speech: Path, recordings: Path) -> None:
    result = regard("evaluate", speech, recordings, "--streaming", "--lag", "2,1", "--step", 0.3)
    assert result.exit_code == 0
    header, first, second = result.stdout.splitlines()[:3]
    assert header.split()[:5] == ["policy", "lag", "step", "wer", "cer"]
    assert first.split()[:2] == ["local-agreement", "1"] and second.split()[:2] == ["local-agreement", "2"]
    assert "mean of 7 words" in result.stdout
    rows = json.loads(regard("evaluate", speech, recordings, "--streaming", "--lag", "1,2", "--json").stdout)
    assert [row["lag"] for row in rows] == [1, 2] and {row["step"] for row in rows} == {0.5}
    assert all(row["wer"] == 0 and 0 < row["delay"]["mean"] <= row["delay"]["p90"] for row in rows)
    assert all(row["computed"]["mean"] > row["delay"]["mean"] and row["elapsed"]["p50"] > 0 for row in rows)


LETTERS = ["a b c a", "c b a b"]


@pytest.fixture
def translated(tmp_path: Path) -> tuple[Path, Path]:
    """Return a list of recordings, and a file with the translations by ``tiny_run``."""
    lines = []
    for number, text in enumerate(LETTERS):
        (tmp_path / f"letters{number}.wav").write_bytes(
            write_wav((sound([0.2, text, 0.3]) * 32767).astype("<i2"), RATE)
        )
        lines.append(json.dumps({"audio_filepath": f"letters{number}.wav", "text": text}) + "\n")
    (tmp_path / "letters.jsonl").write_text("".join(lines))
    (tmp_path / "letters.upper").write_text("".join(f"{text.upper()}\n" for text in LETTERS))
    return tmp_path / "letters.jsonl", tmp_path / "letters.upper"


def test_translations_have_quality_and_lag(
    regard: Any, speech: Path, tiny_run: TinyRun, translated: tuple[Path, Path], tmp_path: Path
) -> None:
    command = ("evaluate", speech, *translated, "--streaming", "--translate", tiny_run.path)
    log = tmp_path / "a.log"
    result = regard(*command, "--step", 0.3, "--lag", "2,1", "--log", log)
    assert result.exit_code == 0, result.exception
    header, first, second = result.stdout.splitlines()[:3]
    assert header.split()[:8] == ["policy", "lag", "step", "wer", "bleu", "chrf", "AL", "s"]
    assert first.split()[:6] == ["local-agreement", "1", "0.30", "0.00", "100.00", "100.00"]
    assert second.split()[1] == "2" and "translated with local-agreement, lag 1" in result.stdout
    instances = read_instances(tmp_path / "a.local-agreement-1.log")
    assert [one.prediction for one in instances] == [text.upper() for text in LETTERS]
    assert all(len(one.delays) == 4 and one.delays[-1] <= one.source_length for one in instances)
    waiting = ("--translate-policy", "wait-k", "--translate-lag", 9, "--metric", "chrf", "--json")
    early, late = (json.loads(regard(*command, *own).stdout)[0] for own in (("--json",), waiting))
    assert late["translate_policy"] == "wait-k" and late["translate_lag"] == 9 and list(late["figures"]) == ["chrf"]
    three = json.loads(regard(*command, "--agree", 3, "--translate-agree", 4, "--json").stdout)[0]
    assert (three["policy"], three["translate_policy"]) == ("local-agreement of 3", "local-agreement of 4")
    assert late["sound"]["LAAL"] > early["sound"]["LAAL"] and early["computed"]["LAAL"] > early["sound"]["LAAL"]


def test_translations_match_the_recordings(
    regard: Any, speech: Path, tiny_run: TinyRun, translated: tuple[Path, Path]
) -> None:
    files, streaming = translated, ("--streaming", "--translate", tiny_run.path)
    error = regard("evaluate", speech, files[0], *streaming).exception
    assert isinstance(error, RegardError) and "a translation of each recording" in str(error)
    files[1].write_text("A\n")
    error = regard("evaluate", speech, *files, *streaming).exception
    assert isinstance(error, RegardError) and "2 recordings, 1 line" in str(error)
    error = regard("evaluate", speech, *files, "--streaming", "--translate", speech).exception
    assert isinstance(error, RegardError)
    error = regard("evaluate", tiny_run.path, files[1], files[1], *streaming).exception
    assert isinstance(error, RegardError) and "--translate" in str(error.where)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "wer"], "cannot be used with --streaming"),
        (["--log", "a.log"], "cannot be used with --streaming"),
        (["--engine", "reference"], "cannot be used with --streaming"),
        (["--rate", "2"], "cannot be used with --streaming"),
        (["--together", "2"], "cannot be used with --streaming"),
        (["--policy", "wait-k"], "counts source words"),
        (["--policy", "alignatt"], "requires attention"),
        (["--lag", "0"], "lag of at least 1"),
        (["--lag", "many"], "a list of lags is required"),
        (["--step", "0"], "step is 0 s"),
        (["--translate-policy", "wait-k"], "requires --translate"),
        (["--translate-lag", "0"], "requires --translate"),
        (["--translate-agree", "3"], "requires --translate"),
        (["--policy", "alignatt", "--agree", "3"], "does not compare hypotheses"),
    ],
)
def test_options_that_do_not_apply(
    regard: Any, speech: Path, recordings: Path, options: list[str], message: str
) -> None:
    result = regard("evaluate", speech, recordings, "--streaming", *options)
    error = result.exception
    assert isinstance(error, RegardError) and message in f"{error} {error.where}" and result.stdout == ""


def test_no_recordings_and_steps_of_texts(regard: Any, speech: Path, tmp_path: Path, tiny_run: TinyRun) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    assert isinstance(regard("evaluate", speech, tmp_path / "empty.jsonl", "--streaming").exception, RegardError)
    (tmp_path / "a").write_text("a b\n")
    result = regard("evaluate", tiny_run.path, tmp_path / "a", tmp_path / "a", "--streaming", "--step", 0.5)
    assert isinstance(result.exception, RegardError) and "--step" in str(result.exception.where)

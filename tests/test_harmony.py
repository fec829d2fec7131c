"""Voices for given voices: which pitches are set, in which order, over windows, and from MIDI to MIDI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import cli
from regard.core.task import find_task
from regard.data.midi import read_midi, write_midi
from regard.data.notes import spell
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.tasks.masked.harmony import Harmony, harmonize

NOTES = train_tokenizer([], TokenizerConfig(kind="notes"))
NOTES_MASK = len(NOTES)


def call(*arguments: object) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments])


class _Certain:
    """A masked model of music, sure of one pitch for each gap: that of ``wanted`` for the pitch below."""

    tokenizer, mask, context = NOTES, len(NOTES), 24

    def __init__(self, wanted: dict[int, int], others: float = 0.0) -> None:
        self.wanted, self.read, self.others = wanted, list[list[int]](), others

    def log_probabilities(self, tokens: torch.Tensor) -> torch.Tensor:
        (row,) = tokens.tolist()
        self.read.append(row)
        found = torch.full((len(row), len(NOTES) + 1), self.others)
        for at, token in enumerate(row):
            if token == self.mask:
                known = [each for each in row[:at] if each not in (self.mask, 2)]
                found[at, 5 + self.wanted.get(known[-1] - 5 if known else -1, 64)] = 1 - 0.001 * at
        return found[tokens[0] == self.mask].log()


def test_a_gap_gets_the_likeliest_pitch_between_its_neighbors() -> None:
    model: Any = _Certain({48: 55, 50: 40}, others=0.01)  # 40 is below 50: no pitch for that frame
    found = harmonize(model, [(48, 60), (), (50, 62)], [2])
    assert found.frames[0] == (48, 55, 60) and found.frames[1] == ()
    assert found.frames[2][0] == 50 and 50 < found.frames[2][1] < 62 and found.frames[2][2] == 62
    assert found.left_out == 0 and len(found.probabilities) == 2


def test_voices_without_room_meet() -> None:
    model: Any = _Certain({}, others=0.01)
    assert harmonize(model, [(60, 61)], [2]) == Harmony([(60, 61)], [], 1)


def test_what_is_set_first_is_read_by_the_others() -> None:
    model: Any = _Certain({48: 55, 50: 57}, others=0.001)
    harmonize(model, [(48, 60), (50, 62)], [2], passes=0)
    assert [row.count(NOTES_MASK) for row in model.read] == [2, 1]
    assert 5 + 55 in model.read[1], "the surer one, which is the first here"


class _Agreeing(_Certain):
    """A model that fills both gaps at once badly, and each as the pitch of the other frame, if that is known."""

    def log_probabilities(self, tokens: torch.Tensor) -> torch.Tensor:
        (row,) = tokens.tolist()
        self.read.append(row)
        found = torch.full((row.count(self.mask), len(NOTES) + 1), 1e-6)
        inner = [token - 5 for token in row if token not in (2, 3, 4, self.mask) and 50 <= token - 5 < 60]
        found[:, 5 + (inner[0] + 1 if inner else 55)] = 1
        return found.log()


def test_each_pitch_is_predicted_again_given_all_others() -> None:
    """55 first, then 56 given it; in a pass, 57 given 56, and 58 given 57."""
    model: Any = _Agreeing({})
    frames = [(48, 60), (48, 60)]
    assert harmonize(model, frames, [2], passes=0).frames == [(48, 55, 60), (48, 56, 60)]
    assert harmonize(model, frames, [2], passes=1).frames == [(48, 57, 60), (48, 58, 60)]
    assert [row.count(NOTES_MASK) for row in model.read[2:]] == [2, 1, 1, 1]


def test_passes_end_when_no_pitch_changes() -> None:
    model: Any = _Certain({48: 55}, others=0.001)
    harmonize(model, [(48, 60)] * 2, [2], passes=9)
    assert len(model.read) == 2 + 2


def test_a_long_piece_is_read_in_windows_and_every_frame_gets_its_voices() -> None:
    model: Any = _Certain({48: 55}, others=0.001)
    counts: list[int] = []
    found = harmonize(model, [(48, 60)] * 30, [2], done=counts.append)
    assert found.frames == [(48, 55, 60)] * 30 and sum(counts) == 30
    assert max(map(len, model.read)) <= model.context


def test_three_voices_below_a_melody() -> None:
    model: Any = _Certain({}, others=0.01)
    found = harmonize(model, [(72,), (74,)], [1, 2, 3])
    assert all(len(frame) == 4 and frame[-1] in (72, 74) for frame in found.frames)
    with pytest.raises(DataError, match="no voice 5"):
        harmonize(model, [(72,)], [5])


def test_a_model_of_words_knows_no_music() -> None:
    model: Any = _Certain({})
    model.tokenizer = train_tokenizer(["a b"], TokenizerConfig(kind="word"))
    with pytest.raises(ConfigError, match="not a model of music"):
        harmonize(model, [(60,)], [1])


def test_from_midi_to_midi(tmp_path: Path) -> None:
    text = spell([(48, 52, 55, 60), (50, 53, 57, 62)] * 4)
    (tmp_path / "music.jsonl").write_text(json.dumps({"text": text}) + "\n")
    corpus = [{"source": str(tmp_path / "music.jsonl")}]
    run = regard.train({
        "task": "masked", "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16},
        "data": {"train": corpus, "valid": corpus, "documents": "json-line", "tokenizer": {"kind": "notes"},
                 "context": 64},
        "train": {"steps": 2, "threads": 1, "batch_tokens": 64},
    }, tmp_path / "run")  # fmt: skip
    write_midi([(48, 55, 60), (50, 57, 62)], tmp_path / "three.mid", steps=1)
    done = call("harmonize", run, tmp_path / "three.mid", "--voice", 2, "-o", tmp_path / "four.mid")
    assert done.exit_code == 0 and "2 frames, 2 new pitches" in done.output, done.output
    found = read_midi(tmp_path / "four.mid", 1)
    assert [len(frame) for frame in found] == [4, 4] and {48, 55, 60} < {*found[0]}
    harmony = regard.harmonize(run, tmp_path / "three.mid", tmp_path / "new" / "four.mid", voice=[2])
    assert harmony.frames == found == read_midi(tmp_path / "new" / "four.mid", 1)
    write_midi([(), ()], tmp_path / "silent.mid", steps=1)
    with pytest.raises(DataError, match="no notes"):
        regard.harmonize(run, tmp_path / "silent.mid", voice=[2])
    (tmp_path / "no.mid").write_text("no music")
    with pytest.raises(DataError, match="not valid MIDI"):
        raise call("harmonize", run, tmp_path / "no.mid", "--voice", 2, "-o", tmp_path / "x.mid").exception


def test_a_model_of_voices_is_used_by_harmonize() -> None:
    for recipe, verb in (("chorales-voices", "harmonize"), ("middle-words", "fill")):
        assert find_task("masked").card_of(load_config(recipe)).command.split()[0] == verb

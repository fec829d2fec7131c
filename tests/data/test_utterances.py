"""Lists, folders and arrays of recordings with transcripts, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.shared_files import falls_into
from regard.data.utterance import Utterance
from regard.data.utterance_arrays import array_parts, holds_transcripts, read_recording_arrays
from regard.data.utterance_lists import holds_recordings, list_columns, read_folder, read_list
from regard.data.wav_files import write_wav
from regard.errors import DataError

RATE = 8000


def write(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_wav(np.arange(round(RATE * seconds), dtype=np.int16), RATE))
    return path


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_json_lines_name_sounds_next_to_them(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    row = {"audio_filepath": "a.wav", "text": "hello", "offset": 0.25, "duration": 0.5, "speaker": "s"}
    (one,) = read_list(lines(tmp_path / "list.jsonl", row), labeled=True)
    assert (one.text, one.speaker, one.key) == ("hello", "s", "s")
    assert one.sound(RATE).samples[0] == np.float32(2000 / 32768) and one.sound(RATE).seconds == 0.5


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_tables_have_the_columns_of_common_voice(tmp_path: Path, ending: str) -> None:
    write(tmp_path / "clips" / "a.wav")
    mark = "\t" if ending == "tsv" else ","
    path = tmp_path / f"list.{ending}"
    path.write_text("\n".join(mark.join(row) for row in [("client_id", "path", "sentence"), ("c", "a.wav", "yes")]))
    assert list_columns(path) == ("path", "sentence")
    (one,) = read_list(path, labeled=True)
    assert (one.text, one.speaker, one.path) == ("yes", "c", tmp_path / "clips" / "a.wav")


def test_folders_have_transcripts_next_to_sounds(tmp_path: Path) -> None:
    write(tmp_path / "x" / "b.wav")
    (tmp_path / "x" / "b.txt").write_text("two  words\n")
    assert holds_recordings(tmp_path)
    (one,) = read_folder(tmp_path, labeled=True)
    assert one.text == "two words"
    librispeech = tmp_path / "libri"
    write(librispeech / "84" / "121" / "84-121-0000.flac")
    (librispeech / "84" / "121" / "84-121.trans.txt").write_text("84-121-0000 GO DO YOU HEAR\n")
    (one,) = read_folder(librispeech, labeled=True)
    assert (one.text, one.speaker) == ("GO DO YOU HEAR", "84")


def arrays(**changes: Any) -> dict[str, Any]:
    table: dict[str, Any] = {
        "frames": np.ones((5, 2), np.float32), "offsets": np.array([0, 2, 5]), "text": np.array(["a", "b c"]),
        "speaker": np.array(["x", "y"]),
    }  # fmt: skip
    return {name: value for name, value in (table | changes).items() if value is not None}


def test_arrays_may_have_a_prefix_for_each_part(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **{f"{part}_{name}": value for part in ("train", "test") for name, value in arrays().items()})
    names = [f"{part}_{name}" for part in ("train", "test") for name in arrays()]
    assert array_parts(names) == {"train": "train_", "test": "test_"} and holds_transcripts(names)
    for prefix in ("train_", None):  # without a prefix: the test part
        one, two = read_recording_arrays(path, prefix, labeled=True)
        assert (one.text, two.text, two.speaker) == ("a", "b c", "y")
        assert one.frames is not None and one.frames.shape == (2, 2)


def test_a_speaker_is_in_one_part() -> None:
    recordings = [Utterance("", None, frames=np.full((1, 1), number, np.float32), speaker="s") for number in range(9)]
    assert len({falls_into(recording.key, (0.0, 0.5)) for recording in recordings}) == 1
    unknown = [recording._replace(speaker="") for recording in recordings]
    assert len({recording.key for recording in unknown}) == 9


BAD_ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"text": None}, "the array text is missing"),
    ({"text": np.array(["a"])}, "1 text for 2 recordings"),
    ({"offsets": np.array([0, 5, 5])}, "recording 2 has no frames"),
    ({"offsets": np.array([0, 2, 6])}, "does not match the frames"),
    ({"frames": np.ones((5, 2), np.int64)}, "wrong type or shape"),
    ({"frames": np.full((5, 2), np.nan, np.float32)}, "not finite"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_ARRAYS)
def test_arrays_that_do_not_match_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays(**changes))
    with pytest.raises(DataError) as error:
        list(read_recording_arrays(tmp_path / "a.npz", None, labeled=True))
    assert message in f"{error.value} {error.value.why}"


BAD_LINES: list[tuple[dict[str, Any], str]] = [
    ({"audio_filepath": "", "text": "a"}, "names no sound"),
    ({"audio_filepath": "none.wav", "text": "a"}, "does not exist"),
    ({"text": "a"}, "no column of sounds"),
    ({"audio_filepath": "a.wav"}, "no column of texts"),
    ({"audio_filepath": "a.wav", "text": "a", "offset": 0.5, "duration": 0.8}, "ends before the range"),
    ({"audio_filepath": "a.wav", "text": "a", "offset": 3}, "ends before the range"),
    ({"audio_filepath": "a.wav", "text": "a", "offset": "x"}, "not a number of seconds"),
    ({"audio_filepath": "a.wav", "text": "a", "duration": -1}, "not a number of seconds"),
]


@pytest.mark.parametrize(("row", "message"), BAD_LINES)
def test_lines_that_cannot_be_read_are_refused(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write(tmp_path / "a.wav")
    with pytest.raises(DataError) as error:
        for one in read_list(lines(tmp_path / "list.jsonl", row), labeled=True):
            one.sound(RATE)
    assert message in f"{error.value} {error.value.why}"
    assert error.value.where is not None and "list.jsonl" in error.value.where


def test_a_folder_without_transcripts_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    with pytest.raises(DataError, match="no sound with a transcript"):
        list(read_folder(tmp_path, labeled=True))
    (tmp_path / "84.trans.txt").write_text("84-1-2 HI\n")
    with pytest.raises(DataError, match="the sound does not exist"):
        list(read_folder(tmp_path, labeled=True))

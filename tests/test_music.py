"""Music: pitches, frames and MIDI both ways, figures by frame, files that are no music, a piece that goes on."""

from __future__ import annotations

import gzip
import json
import math
import struct
from pathlib import Path
from typing import Any

import mido
import pytest
import tomli_w
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard import cli
from regard.data import music_files
from regard.data.midi import read_midi, write_midi
from regard.data.music_files import read_pieces
from regard.data.notes import frames_of, name_of, pitch_of, spell
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import END, UNKNOWN, TokenizerConfig
from regard.errors import ConfigError, DataError
from regard.inference.interpolated_model import InterpolatedModel
from regard.runs.config import load_config
from regard.tasks.evaluate import evaluate
from regard.tasks.load import load

NOTES = train_tokenizer([], TokenizerConfig(kind="notes"))
frames = st.lists(st.sets(st.integers(0, 127), max_size=4).map(lambda frame: tuple(sorted(frame))), max_size=12)


def call(*arguments: object, input: str | None = None) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments], input=input)


@pytest.mark.parametrize(("name", "pitch"), [("C4", 60), ("A4", 69), ("C-1", 0), ("G9", 127), ("Db4", 61), ("B3", 59)])
def test_names_of_pitches(name: str, pitch: int) -> None:
    assert pitch_of(name) == pitch and (name == "Db4" or name_of(pitch) == name)


@pytest.mark.parametrize("name", ["H4", "C", "c4", "G#9", "Cb-1", "C44", "", "4C"])
def test_names_of_no_pitch(name: str) -> None:
    assert pitch_of(name) is None


@given(frames)
def test_text_tells_every_frame(piece: list[tuple[int, ...]]) -> None:
    """Silence too; and tokens are no more and no less than pitches and ends of frames."""
    assert frames_of(spell(piece)) == piece
    numbers = NOTES.encode(spell(piece))
    assert len(numbers) == sum(map(len, piece)) + len(piece) and UNKNOWN not in numbers
    assert frames_of(NOTES.decode(numbers)) == piece
    assert "".join(NOTES.decode([number]) for number in numbers) == NOTES.decode(numbers), "as it is generated"


def test_a_frame_has_a_pitch_once_and_rising() -> None:
    assert spell([(67, 60, 67)]) == "C4 G4\n" and frames_of("G4 Ab3 G4\n\nC4") == [(56, 67), (), (60,)]
    with pytest.raises(DataError, match="is not a pitch") as caught:
        frames_of("C4\nC4 X9\n", where="piece.txt")
    assert caught.value.where == "piece.txt:2"
    assert NOTES.unknown("C4 X9\n") == ["X9"] and NOTES.pieces(NOTES.encode("C4\n")) == ["C4", "⏎"]


def test_the_tokenizer_comes_back(tmp_path: Path) -> None:
    NOTES.save(tmp_path, "text")
    assert load_tokenizer(tmp_path, "text").digest() == NOTES.digest() and len(NOTES) == 133
    with pytest.raises(ValueError, match="133 pieces"):
        TokenizerConfig(kind="notes", size=20)


@given(frames.filter(any), st.integers(1, 8))
def test_midi_tells_every_frame(tmp_path_factory: pytest.TempPathFactory, piece: list[Any], steps: int) -> None:
    """From the first note to the last: silence at either end is no part of a file."""
    path = tmp_path_factory.mktemp("midi") / "piece.mid"
    write_midi(piece, path, steps=steps)
    sounding = [at for at, frame in enumerate(piece) if frame]
    assert read_midi(path, steps) == piece[sounding[0] : sounding[-1] + 1]


def test_a_long_piece_does_not_drift(tmp_path: Path) -> None:
    """Seven frames a quarter note are no whole number of ticks each."""
    piece = [(60 + at % 2,) for at in range(400)]
    write_midi(piece, tmp_path / "long.mid", steps=7, tempo=120)
    assert read_midi(tmp_path / "long.mid", 7) == piece
    assert mido.MidiFile(tmp_path / "long.mid").length == pytest.approx(400 / 7 / 2, abs=0.01), "the tempo counts"


def played(path: Path, *messages: mido.Message, ticks: int = 96) -> Path:
    file = mido.MidiFile(ticks_per_beat=ticks)
    file.tracks.append(mido.MidiTrack(messages))
    file.save(path)
    return path


def test_notes_go_to_the_nearest_frame_and_last_one_at_least(tmp_path: Path) -> None:
    def on(note: int, time: int, **other: int) -> mido.Message:
        return mido.Message("note_on", note=note, time=time, **other)

    path = played(
        tmp_path / "played.mid",
        on(60, 100),  # a little late for the second quarter note, and held for two
        on(36, 0, channel=9),  # a drum
        on(64, 90),  # a little early for the third
        on(64, 10, velocity=0),  # ends at once
        mido.Message("note_off", note=60, time=85),
        on(67, 0),  # never ends
    )
    assert read_midi(path, 1) == [(60,), (60, 64), (67,)]


def tracks(path: Path, *tracks: bytes, kind: int = 1, quarter: int = 480) -> Path:
    """Write a file of tracks, each the bytes of its events without the end of the track."""
    whole = [b"MTrk" + struct.pack(">I", len(track) + 4) + track + b"\x00\xff\x2f\x00" for track in tracks]
    path.write_bytes(b"MThd" + struct.pack(">IHHH", 6, kind, len(tracks), quarter) + b"".join(whole))
    return path


def events(*ticks_and_notes: tuple[int, int]) -> bytes:
    """Note-on of a pitch, note-off of a negative one, at ticks from the beginning."""
    data, before = b"", 0
    for tick, pitch in ticks_and_notes:
        data += vlq(tick - before) + bytes([0x90 if pitch > 0 else 0x80, abs(pitch), 80])
        before = tick
    return data


def vlq(number: int) -> bytes:
    """A number of MIDI: seven bits a byte, all but the last with the eighth bit set."""
    rest = b"" if number < 128 else vlq(number >> 7)
    return bytes(byte | 0x80 for byte in rest) + bytes([number & 127])


C4, D4, E4, G4, C5 = 60, 62, 64, 67, 72
LONG, AGAIN = ((0, C4), (1920, -C4)), ((480, C4), (960, -C4))


@pytest.mark.parametrize("merged", [False, True], ids=["two tracks", "one track"])
def test_a_pitch_sounds_as_long_as_one_voice_holds_it(tmp_path: Path, merged: bool) -> None:
    fifth = ((1440, G4), (1920, -G4))
    voices = [sorted(LONG + AGAIN + fifth)] if merged else [LONG, AGAIN + fifth]
    path = tracks(tmp_path / "unison.mid", *(events(*voice) for voice in voices))
    assert read_midi(path, 1) == [(C4,), (C4,), (C4,), (C4, G4)]


@pytest.mark.parametrize(
    "voices",
    [
        [((480, C4), (1440, -C4)), ((0, C4), (480, -C4))],
        [((0, C4), (480, C4), (480, -C4), (1440, -C4))],
        [((0, C4), (480, -C4), (480, C4), (1440, -C4))],
    ],
    ids=["other track", "strike first", "end first"],
)
def test_a_note_struck_again_in_the_tick_of_its_end_goes_on(tmp_path: Path, voices: list[Any]) -> None:
    path = tracks(tmp_path / "repeat.mid", *(events(*voice) for voice in voices))
    assert read_midi(path, 1) == [(C4,)] * 3
    assert read_midi(path, 2) == [(C4,)] * 6


def test_independent_pieces_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tracks(tmp_path / "type2.mid", events((0, C4), (960, -C4)), events((0, C5), (960, -C5)), kind=2)
    with pytest.raises(DataError, match="2 independent pieces"):
        read_midi(path, 1)
    path = tracks(tmp_path / "one.mid", events((0, C4), (960, -C4)), kind=2)
    assert read_midi(path, 1) == [(C4,), (C4,)]


@pytest.mark.parametrize("quarter", [480, 96])
def test_an_even_rhythm_off_the_beat_stays_even(tmp_path: Path, quarter: int) -> None:
    eighths = [(C4, 1), (D4, 3), (E4, 5), (G4, 7)]
    half = quarter // 2
    notes = [event for pitch, at in eighths for event in ((at * half, pitch), ((at + 1) * half, -pitch))]
    assert read_midi(tracks(tmp_path / "offbeat.mid", events(*notes), quarter=quarter), 1) == [
        (C4,),
        (D4,),
        (E4,),
        (G4,),
    ]


def test_a_note_that_never_ends_lasts_a_frame(tmp_path: Path) -> None:
    path = tracks(tmp_path / "neverends.mid", events((0, C4), (0, E4), (960, -E4)) + b"\x87\x40\xff\x01\x01x")
    assert read_midi(path, 1) == [(C4, E4), (E4,)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from([C4, E4])), min_size=1, max_size=12))
def test_frames_are_the_union_of_notes(tmp_path_factory: pytest.TempPathFactory, notes: list[Any]) -> None:
    """However many voices hold a pitch, and on however many tracks."""
    path = tmp_path_factory.mktemp("midi") / "drawn.mid"
    each = [events((begin, pitch), (begin + length, -pitch)) for begin, length, pitch in notes]
    ends = sorted(
        (tick, kind, pitch)
        for begin, length, pitch in notes
        for tick, kind, pitch in ((begin, 1, pitch), (begin + length, 0, -pitch))
    )
    first, last = min(begin for begin, _, _ in notes), max(begin + length for begin, length, _ in notes)
    expected = [
        tuple(sorted({pitch for begin, length, pitch in notes if begin <= step < begin + length}))
        for step in range(first, last)
    ]
    assert read_midi(tracks(path, *each, quarter=1), 1) == expected
    assert read_midi(tracks(path, events(*((tick, pitch) for tick, _, pitch in ends)), quarter=1), 1) == expected


def test_frames_are_in_proportion_to_the_file(tmp_path: Path) -> None:
    """A few bytes that hold many pitches for very long are refused after counted steps, without taking memory."""
    chord = events(*((0, pitch) for pitch in range(1, 128)), *((90_000, -pitch) for pitch in range(1, 128)))
    path = tracks(tmp_path / "chord.mid", chord, quarter=1)
    with pytest.raises(DataError, match="more than 1,048,576 sounding pitches") as caught:
        read_midi(path, 1)
    assert f"{path.stat().st_size:,} bytes" in str(caught.value.why) and caught.value.help
    held = tracks(tmp_path / "held.mid", events((0, C4), (90_000, -C4)), quarter=1)
    assert len({id(frame) for frame in read_midi(held, 1)}) == 1, "equal frames share memory"


@pytest.mark.parametrize(
    "content", [b"", b"MThd", b"no music at all", b"MThd\0\0\0\6\0\1\0\1\0\0MTrk\0\0\0\4\0\xff\x2f\0"]
)
def test_what_is_no_midi_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.mid").write_bytes(content)
    with pytest.raises(DataError, match=r"not valid MIDI|No note") as caught:
        read_midi(tmp_path / "x.mid", 1)
    assert caught.value.where == str(tmp_path / "x.mid")


def test_a_piece_of_a_hundred_years_takes_no_memory(tmp_path: Path) -> None:
    on = mido.Message("note_on", note=60, time=0)
    path = played(tmp_path / "long.mid", on, mido.Message("note_off", note=60, time=(1 << 28) - 1), ticks=1)
    with pytest.raises(DataError, match="268,435,455 frames"):
        read_midi(path, 1)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [], "b": []}, "its parts are a, b"), ("x", "a list of pieces"), ([3], "a list of frames"),
        ([[3]], "a list of pitches"), ([[[128]]], "0 to 127"), ([[[True]]], "0 to 127"), ([[[60.5]]], "0 to 127"),
    ],
)  # fmt: skip
def test_json_that_is_no_music_is_told(tmp_path: Path, value: object, told: str) -> None:
    (tmp_path / "x.json").write_text(json.dumps(value))
    with pytest.raises(DataError) as caught:
        list(read_pieces(tmp_path / "x.json", steps=1))
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_music_of_the_greatest_size_is_read_and_a_byte_more_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"[" + b", ".join([b"[[60], [62]]"] * 50) + b"]"  # more than its .gz
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    monkeypatch.setattr(music_files, "LARGE", len(content))
    assert list(read_pieces(tmp_path / name, steps=1)) == [[(60,), (62,)]] * 50
    monkeypatch.setattr(music_files, "LARGE", len(content) - 1)
    with pytest.raises(DataError, match=r"cannot be read|more than"):
        list(read_pieces(tmp_path / name, steps=1))


def test_pieces_of_json_and_of_a_folder(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "x.json.gz", "wt") as file:
        json.dump({"train": [[[60, 48], [], [-1, 62]]], "test": []}, file)
    assert list(read_pieces(tmp_path / "x.json.gz", steps=1, part="train")) == [[(48, 60), (), (62,)]]
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="no MIDI files"):
        list(read_pieces(tmp_path / "folder", steps=1))
    for name, pitch in (("b", 61), ("a", 60)):
        write_midi([(pitch,)], tmp_path / "folder" / f"{name}.mid", steps=1)
    assert list(read_pieces(tmp_path / "folder", steps=1)) == [[(60,)], [(61,)]]


def test_a_piece_at_several_heights_tells_which(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([[[60, 64], [127]]]))
    for shifts, told in (("1", ", 3 transpositions, 1 copy beyond the MIDI range left out"), ("0", "")):
        found = call("data", "notes", tmp_path / "x.json", "-o", tmp_path / "x.jsonl", "--shifts", shifts)
        assert found.output.endswith(f"1 piece, 2 frames{told}\n"), found.output
        rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
        assert rows[-1] == {"prompt": "C4\n", "completion": "C4 E4\nG9\n"}, "nothing is above G9"
        assert rows[:-1] == [{"prompt": "B3\n", "completion": "B3 D#4\nF#9\n"}] * int(shifts)


def test_a_gap_of_a_piece_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a masked model, which knows the ends of frames around a gap."""
    rows = [{"text": spell([(60, 64 + at % 2), (60, 65 - at % 2)] * 3)} for at in range(40)]
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "task": {"kind": "masked"},
        "data": {"train": [{"source": "x.jsonl"}], "documents": "json-line", "tokenizer": {"kind": "notes"}},
        "model": {"layers": 2, "width": 64, "feed_forward": 64, "heads": 2, "dropout": 0.0, "norm": "pre"},
        "train": {"steps": 250, "batch_tokens": 256, "learning_rate": 5e-3, "warmup": 10, "threads": 1},
    }
    Path("x.toml").write_text(tomli_w.dumps(config))
    assert call("train", "x.toml", "--name", "gaps").exit_code == 0
    filled = load("runs/gaps")(["C4 E4\nC4 F4\nC4 ___\nC4 F4\n"])[0]
    assert filled.gaps[0][0].text.strip() == "E4" and filled.gaps[0][0].probability > 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scales up and down in two voices, and what a model makes of them."""
    folder = tmp_path_factory.mktemp("music")
    scale = [60, 62, 64, 65, 67, 69, 71, 72]
    pieces = [[[low, low + 7 + number % 3] for low in scale[:: 1 - 2 * (number % 2)]] for number in range(24)]
    (folder / "scales.json").write_text(json.dumps({"train": pieces[4:], "valid": pieces[:4]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for part in ("train", "valid"):
            found = call("data", "notes", "scales.json", "--part", part, "-o", f"data/{part}.jsonl")
            assert found.exit_code == 0, found.output
        assert found.output == "data/valid.jsonl: 4 pieces, 32 frames\n"
        sizes = ["model.layers=2", "model.width=64", "model.feed_forward=64", "model.heads=2", "model.dropout=0"]
        train = ["train.steps=150", "train.batch_tokens=256", "train.learning_rate=5e-3", "train.threads=1"]
        sets = [part for each in [*sizes, *train, "data.context=64"] for part in ("--set", each)]
        found = call("train", "data/train.jsonl", "--valid-file", "data/valid.jsonl", "--name", "scales", *sets)
        assert found.exit_code == 0, found.output
        assert "music" in found.output
    return folder


def test_nats_of_a_frame_are_of_all_its_pitches(run: Path) -> None:
    """Counted here by the model's own probabilities, ends of frames and of pieces included."""
    found = evaluate(run / "runs" / "scales", run / "data" / "valid.jsonl").figures
    model = load(run / "runs" / "scales")
    total = frames = 0
    for line in (run / "data" / "valid.jsonl").read_text().splitlines():
        text = json.loads(line)["text"]
        numbers = torch.tensor([[2, *NOTES.encode(text), END]])
        whole = InterpolatedModel(model.model, model.ngrams, model.model.gate)
        with torch.no_grad():
            log_p, _ = whole.step(numbers[:, :-1], whole.start(1))
        total -= float(log_p.gather(2, numbers[:, 1:, None]).sum())
        frames += text.count("\n")
    assert frames == 32 and found["nats_per_frame"] == pytest.approx(total / frames, rel=1e-4)
    assert found["nats_per_frame"] < math.log(20), "a scale is nearly certain"


def test_a_piece_goes_on_from_its_first_chord_and_becomes_a_file(run: Path) -> None:
    found = call("generate", run / "runs" / "scales", "--prompt", "C4 G4\n", "--temperature", 0, "--length", 60)
    assert found.exit_code == 0, found.output
    piece = run / "piece.txt"
    piece.write_text(found.stdout, encoding="utf-8")
    told = call("data", "midi", piece, "-o", run / "out" / "piece.mid", "--steps", 2, "--draw", run / "roll")
    assert told.exit_code == 0, told.output
    heard = read_midi(run / "out" / "piece.mid", 2)
    assert heard == frames_of(found.stdout.rstrip("\n"))[: len(heard)] and [frame[0] for frame in heard[:4]] == [
        60,
        62,
        64,
        65,
    ]
    assert {path.name for path in (run / "roll").iterdir()} == {"figure.png", "figure.svg"}


def test_text_that_is_no_music_is_refused_by_its_line(run: Path) -> None:
    for text, told in (("C4\nhello\n", ":2"), ("\n\n", "has no notes")):
        found = call("data", "midi", "-o", run / "x.mid", input=text)
        assert found.exit_code != 0 and told in str(found.exception)


def test_frames_are_of_music_alone(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("abc")
    data = {"train": [{"source": str(tmp_path / "x.txt")}], "valid": [{"source": str(tmp_path / "x.txt")}]}
    with pytest.raises(ConfigError, match=r"best_by"):
        load_config(
            {"task": {"kind": "language-model"}, "data": data, "train": {"best_by": "nats_per_frame", "steps": 1}}
        )

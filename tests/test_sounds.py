"""Classification of recordings: from files to predictions by every verb and over HTTP, and files that are refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import regard
from regard import cli
from regard.core.task import find_task
from regard.data.shared_files import FilesConfig
from regard.data.sound_options import SoundOptions
from regard.data.wav_files import write_wav
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel
from regard.tasks.classification.audio_input import INPUT
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.find_config import find_config
from regard.testing import TaskCase
from regard.training.setup import set_up
from tests.laws.sounds_task import LABELS, RATE, TASK, line_of, save_sounds, tone
from tests.server.conftest import serving
from tests.server.predicting import Inspecting

TINY = [
    "train.steps=12", "train.batch_tokens=256", "model.layers=1", "model.width=16", "model.feed_forward=16",
    "model.heads=2", "train.shards=1",
]  # fmt: skip
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Return what a command prints."""
    code = cli.run([str(argument) for argument in arguments])
    streams = capsys.readouterr()
    assert code == 0, streams.err
    return streams.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Return the error of a command."""
    assert cli.run([str(argument) for argument in arguments]) != 0
    return capsys.readouterr().err


def save_folders(folder: Path, numbers: Any = range(24)) -> Path:
    """Write a folder for each class, with a WAV file for each recording."""
    for number in numbers:
        (folder / LABELS[number % 2]).mkdir(parents=True, exist_ok=True)
        (folder / LABELS[number % 2] / f"{number:03}.wav").write_bytes(write_wav(tone(number), RATE))
    return folder


def test_a_folder_is_trained_predicted_evaluated_and_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_folders(Path("tones/train"))
    save_folders(Path("tones/dev"), range(24, 32))
    test = save_folders(Path("tones/test"), range(32, 44))
    assert "no findings" in run(capsys, "check", "tones")
    run(capsys, "train", "tones", *SETTINGS)
    config = RunFolder.open(Path("runs/tones")).config
    data: Any = config.data
    assert (data.input, data.sound.rate, data.sound.normalization) == ("audio", RATE, "corpus")
    assert [str(data.train[0].source), str(data.valid[0].source)] == ["tones/train", "tones/dev"]
    assert config.model.encoder.input.subsample == 2  # type: ignore[attr-defined]

    figures = json.loads(run(capsys, "evaluate", "runs/tones", test, "--json"))["figures"]
    assert figures["accuracy"] == 1
    files = sorted(test.glob("*/*.wav"))
    rows = run(capsys, "classify", "runs/tones", *files).splitlines()
    assert [row.split("\t")[0] for row in rows] == [file.parent.name for file in files]
    table = Path("test.csv")
    table.write_text("path\n" + "".join(f"{file}\n" for file in files))
    assert run(capsys, "predict", "runs/tones", table).splitlines() == rows
    line = json.dumps({"audio": base64.b64encode(files[0].read_bytes()).decode()})
    Path("in.txt").write_text(f"{line}\n")
    assert run(capsys, "predict", "runs/tones", "in.txt") == rows[0] + "\n"
    answer = json.loads(run(capsys, "predict", "runs/tones", files[0], "--json"))
    assert answer["label"] == "high" and answer["probabilities"].keys() == {*LABELS}
    document = json.loads(run(capsys, "inspect", "runs/tones", line, "--json"))
    (surface,) = document["surfaces"]
    assert surface["kind"] == "frames" and surface["pieces"][1] == "0.01 s" and surface["numbers"]["rate"] == 100
    assert surface["numbers"]["unit"] == "ln energy" and len(surface["numbers"]["channels"]) == 40
    assert "audio-classification" in Path("runs/tones/README.md").read_text()
    model = regard.load("runs/tones")
    assert model([files[0].read_bytes()])[0].label == "high"


def test_frames_are_kept_in_the_run_and_not_computed_again(tmp_path: Path) -> None:
    config = load_config({**TASK.sample(tmp_path), "task": "classification"}, ["data.max_length=9"])
    made = RunFolder.create(tmp_path / "run", config)
    first = set_up(made, log=lambda message: None).data.train
    store = made.data / "audio-train" / "frames"
    assert store.stat().st_size == sum(len(row[0]) for row in first.rows) * 40 * 4  # type: ignore[attr-defined]
    assert not any(row[0].flags.writeable for row in first.rows)  # type: ignore[attr-defined] # views of the file
    changed, written = np.fromfile(store, "<f4"), store.stat().st_mtime_ns
    again = set_up(RunFolder.open(made.path), log=lambda message: None).data.train
    assert store.stat().st_mtime_ns == written
    assert [row[0].tolist() for row in again.rows] == [row[0].tolist() for row in first.rows]  # type: ignore[attr-defined]
    assert np.isfinite(changed).all()


def labeled(**sound: Any) -> LabeledDataConfig:
    options = SoundOptions(**{"rate": RATE, "channels": 40, "normalization": "speaker"} | sound)
    return LabeledDataConfig(train=(), input="audio", sound=options)


def rows_of(path: Path, share: tuple[float, float] = (0.0, 1.0), **sound: Any) -> list[Any]:
    return [row.cells["audio"] for row in INPUT.rows(labeled(**sound), [FilesConfig(source=path, share=share)])]


def test_a_speaker_is_in_one_part_only(tmp_path: Path) -> None:
    speakers = [f"s{number % 5}" for number in range(40)]
    path = save_sounds(tmp_path / "a.npz", [*map(tone, range(40))], [LABELS[n % 2] for n in range(40)], speakers)
    lines: list[str] = []
    config = find_config([str(path)], [], [f"data.sound.rate={RATE}"], log=lines.append)
    parts = [[*INPUT.rows(config.data, getattr(config.data, part))] for part in ("train", "valid")]
    names = [{row.cells["audio"].speaker for row in rows} for rows in parts]  # type: ignore[union-attr]
    heard = [{speakers[row.number - 1] for row in rows} for rows in parts]
    assert sum(map(len, parts)) == 40 and heard[0] | heard[1] == {*speakers} and not heard[0] & heard[1]
    assert [len(each) for each in names] == [len(each) for each in heard]
    assert config.data.sound.normalization == "speaker" and "40 recordings by 5 speakers" in lines[0]  # type: ignore[attr-defined]
    assert "selected by a hash of their speaker" in lines[1]


def test_statistics_of_a_speaker_are_those_of_the_own_recordings_of_the_part(tmp_path: Path) -> None:
    """By hand: the frames of a speaker have mean 0 and deviation 1, and do not depend on other parts."""
    sounds, labels = [*map(tone, range(6))], ["low", "high"] * 3
    whole = rows_of(save_sounds(tmp_path / "a.npz", sounds, labels, list("xyxyxy")))
    alone = rows_of(save_sounds(tmp_path / "b.npz", sounds[:4], labels[:4], list("xyxy")))
    frames = np.concatenate([recording.frames for recording in whole[::2]])
    assert frames.mean(0) == pytest.approx(np.zeros(40), abs=1e-4) and frames.std(0) == pytest.approx(
        np.ones(40), abs=1e-3
    )
    assert not np.array_equal(whole[0].frames, alone[0].frames)
    assert np.abs(np.concatenate([recording.frames for recording in alone[::2]]).mean(0)).max() < 1e-4


def test_the_run_learns_its_statistics_from_the_training_part(tmp_path: Path) -> None:
    """The codec of a run is the same for any validation and test data."""
    scales = []
    for number in (1, 2):
        sounds = [*map(tone, range(8)), *(tone(seed, length=0.5) for seed in range(number * 100, number * 100 + 9))]
        labels = [LABELS[n % 2] for n in range(17)]
        path, valid = tmp_path / "train.npz", save_sounds(tmp_path / "valid.npz", sounds[8:], labels[8:], [*"v" * 9])
        save_sounds(path, sounds[:8], labels[:8], [*"xxxxyyyy"])
        data = {**TASK.sample(tmp_path)["data"], "train": [{"source": str(path)}], "valid": [{"source": str(valid)}]}
        made = RunFolder.create(tmp_path / f"run{number}", load_config({"task": "classification", "data": data}))
        set_up(made, log=lambda message: None)
        scales.append((made.tokenizers / "sound.json").read_text())
    assert scales[0] == scales[1]


def test_an_input_without_a_speaker_is_standardized_by_the_training_data() -> None:
    predictor: Any = TaskCase(TASK, "classification").predictor
    field = predictor.codec.fields["audio"]
    value = predictor.read(line_of(tone(40)))
    raw = field.features.log_mel(value)
    mean, deviation = field.unknown_speaker.scale
    assert value.frames == pytest.approx((raw - mean) / deviation, abs=1e-5)
    own = json.loads(line_of(tone(40))) | {"scale": [[1.0] * 40, [2.0] * 40]}
    assert predictor.read(json.dumps(own)).frames == pytest.approx((raw - 1) / 2, abs=1e-5)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("seven.wav", "the input is not a sound"),
        ('{"audio": "seven.wav"}', "cannot decode 'audio'"),
        ('{"audio": 7}', "cannot decode 'audio'"),
        ('{"audio": ""}', "the file is empty"),
        ('{"audio": "AAAA", "path": "x"}', "the input is not a sound"),
        ('{"audio": "AAAA", "scale": [[0], [1]]}', "cannot parse the scale of a speaker"),
        ('{"audio": "AAAA", "scale": [[NaN], {}]}', "cannot parse the scale of a speaker"),
        ('{"audio": "AAAA"}', "it does not begin as a WAV"),
    ],
)
def test_a_wrong_line_has_one_message(line: str, why: str) -> None:
    predictor: Any = TaskCase(TASK, "classification").predictor
    with pytest.raises(DataError, match=why):
        predictor([predictor.read(line)])


def test_files_that_are_no_corpus_have_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = labeled(normalization="corpus")

    def read(path: str) -> list[Any]:
        return [*INPUT.rows(data, [FilesConfig(source=Path(path))])]

    (tmp_path / "none" / "low").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no folder inside has a file that ends with \.wav"):
        read("none")
    Path("a.csv").write_text("path,label\nmissing.wav,low\n")
    with pytest.raises(DataError, match=r"file not found\n.*a\.csv:2"):
        read("a.csv")
    Path("b.csv").write_text("name,label\na.wav,low\n")
    with pytest.raises(DataError, match="the table has no column of the path"):
        read("b.csv")
    Path("c.csv").write_text("path,kind\na.wav,low\n")
    with pytest.raises(DataError, match="the table has no column of the label"):
        read("c.csv")
    np.savez("d.npz", samples=np.zeros(4, np.int32), offsets=[0, 4], label=["low"])
    with pytest.raises(DataError, match="the array samples has the type int32"):
        read("d.npz")
    np.savez("e.npz", samples=np.zeros(4, np.int16), offsets=[0, 5], label=["low"])
    with pytest.raises(DataError, match="the array offsets does not match the samples"):
        read("e.npz")
    save_sounds(Path("f.npz"), [tone(0), tone(1)], ["low", "high"])
    with pytest.raises(ConfigError, match=r"data\.sound\.rate=16000"):
        find_config(["f.npz"], [], [])
    with pytest.raises(DataError, match="the speaker of a recording is not known"):
        [*INPUT.rows(labeled(), [FilesConfig(source=Path("f.npz"))])]
    save_folders(tmp_path / "tones")
    (tmp_path / "tones" / "low" / "broken.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    assert "broken.wav" in refused(capsys, "train", "tones", *SETTINGS)


def test_a_class_with_one_example_and_conversions_are_reported(tmp_path: Path) -> None:
    folder, lines = save_folders(tmp_path / "tones"), list[str]()
    (folder / "alone").mkdir()
    stereo = np.stack([tone(0), tone(0)], 1).reshape(-1)
    contents = bytearray(write_wav(stereo, 16_000))
    contents[22:24], contents[32:34] = (2).to_bytes(2, "little"), (4).to_bytes(2, "little")
    (folder / "alone" / "a.wav").write_bytes(contents)
    config = find_config([str(folder)], [], [], log=lines.append)
    text = "\n".join(lines)
    assert "1 class with one example, which is used for training only: alone" in text
    assert "1 recording with another rate → resampled to 8,000 Hz" in text
    made = RunFolder.create(tmp_path / "run", config)
    lines.clear()
    set_up(made, log=lines.append)
    assert lines.count("1 recording with several channels mixed to one") == 1
    assert lines.count("1 recording resampled from 16,000 to 8,000 Hz") == 1
    lines.clear()
    set_up(RunFolder.open(made.path), log=lines.append)
    assert not [line for line in lines if "resampled" in line]


def test_keys_of_sounds_apply_to_sounds_only() -> None:
    with pytest.raises(ConfigError, match=r"data\.sound"):
        load_config({"task": "classification", "data": {"train": [{"source": "a.tsv"}], "sound": {"rate": 8000}}})


def test_recordings_are_served_as_base64_and_as_files() -> None:
    predictor: Any = TaskCase(TASK, "classification").predictor
    inspector: Any = Inspecting("sounds", "classification", lambda: predictor)
    model = ServedModel(
        "sounds", task="classification", load_predictor=lambda: predictor, limits=Limits(), inspector=inspector,
        reads_files=True,
    )  # fmt: skip
    long = tone(1, length=20)  # 320,000 bytes: more than a request of texts may have
    with serving([model]) as (port, _):
        address = f"http://127.0.0.1:{port}/v1"

        def predict(inputs: list[Any]) -> httpx.Response:
            return httpx.post(f"{address}/predict", json={"inputs": inputs}, timeout=30)

        line = line_of(long)
        outputs = predict([line, json.loads(line)]).json()["outputs"]
        assert outputs[0] == outputs[1] and outputs[0]["label"] in LABELS
        contents = write_wav(long, RATE)
        files = [("file", ("a.wav", contents)), ("file", ("/etc/passwd", contents))]
        form = httpx.post(f"{address}/predict", files=files, data={"model": "sounds"}, timeout=30)
        assert form.json()["outputs"] == outputs
        settings = {"settings": json.dumps({"abstain_below": 1})}
        form = httpx.post(f"{address}/predict", files=files[:1], data=settings, timeout=30)
        assert form.json()["outputs"][0]["label"] is None
        document = httpx.post(f"{address}/inspect", json={"text": line_of(tone(1))}, timeout=30).json()
        assert document["surfaces"][0]["numbers"]["rate"] == 100
        for bad, code, why in [
            (predict([{"audio": "/etc/passwd"}]), 400, "paths and addresses are not opened"),
            (predict(["file:///etc/passwd"]), 400, "the input is not a sound"),
            (httpx.post(f"{address}/predict", files=[("file", ("a.wav", b"RIFF"))]), 400, "cannot read the sound"),
            (httpx.post(f"{address}/predict", files=files[:1], data={"no": "1"}), 422, "no: unknown field"),
            (httpx.post(f"{address}/predict", files=[("other", ("a", b""))]), 400, "the request contains no text"),
            (httpx.post(f"{address}/predict", content=b"x" * (17 << 20)), 413, "a body of more than 16777216 bytes"),
        ]:
            assert bad.status_code == code and why in bad.text, bad.text


def test_a_model_of_texts_takes_no_file() -> None:
    predictor: Any = TaskCase(find_task("classification"), "classification").predictor
    model = ServedModel("texts", task="classification", load_predictor=lambda: predictor, limits=Limits())
    with serving([model]) as (port, _):
        response = httpx.post(f"http://127.0.0.1:{port}/v1/predict", files=[("file", ("a.wav", b"RIFF"))], timeout=30)
        assert response.status_code == 422 and "this model does not read files" in response.text
        large = httpx.post(f"http://127.0.0.1:{port}/v1/predict", content=b"x" * (1 << 18))
        assert large.status_code == 413

"""Classification of images: from files to predictions by every verb and over HTTP, and files that are refused."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest

import regard
from regard import cli
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.image_input import INPUT
from regard.tasks.find_config import find_config
from regard.testing import TaskCase
from regard.training.setup import set_up
from tests.laws.images_task import LABELS, TASK, bar, line_of, save_images
from tests.server.conftest import serving
from tests.server.predicting import Inspecting

TINY = [
    "train.steps=15", "train.batch_tokens=256", "model.layers=1", "model.width=16", "model.feed_forward=16",
    "model.heads=2", "train.shards=1",
]  # fmt: skip
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """Return what a command prints."""
    code = cli.run([str(argument) for argument in arguments])
    streams = capsys.readouterr()
    assert code == 0, streams.err
    return streams.out


def png(pixels: np.ndarray) -> bytes:
    packed = io.BytesIO()
    PIL.Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(packed, "PNG")
    return packed.getvalue()


def save_folders(folder: Path, numbers: Any = range(40)) -> Path:
    """Write a folder for each class, with a PNG file for each image."""
    for number in numbers:
        (folder / LABELS[number % 2]).mkdir(parents=True, exist_ok=True)
        (folder / LABELS[number % 2] / f"{number:03}.png").write_bytes(png(bar(number)))
    return folder


def test_a_folder_is_trained_predicted_evaluated_and_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_folders(Path("bars"))
    test = save_folders(Path("more"), range(60, 72))
    assert "no findings" in run(capsys, "check", "bars")
    run(capsys, "train", "bars", *SETTINGS)
    config: Any = RunFolder.open(Path("runs/bars")).config
    assert (config.data.input, config.data.image.size, config.model.encoder.input.patch) == ("images", (6, 6), 1)
    figures = json.loads(run(capsys, "evaluate", "runs/bars", test, "--json"))["figures"]
    assert figures["accuracy"] > 0.8
    files = sorted(test.glob("*/*.png"))
    rows = run(capsys, "classify", "runs/bars", *files).splitlines()
    assert np.mean([row.split("\t")[0] == file.parent.name for row, file in zip(rows, files, strict=True)]) > 0.8
    table = Path("test.csv")
    table.write_text("path\n" + "".join(f"{file}\n" for file in files))
    assert run(capsys, "predict", "runs/bars", table).splitlines() == rows
    line = json.dumps({"image": base64.b64encode(files[0].read_bytes()).decode()})
    document = json.loads(run(capsys, "inspect", "runs/bars", line, "--json"))
    (surface,) = document["surfaces"]
    assert surface["kind"] == "image" and surface["numbers"]["grid"] == [6, 6] and len(surface["pieces"]) == 36
    assert surface["pieces"][7] == "row 2, column 2"
    assert "image-classification" in Path("runs/bars/README.md").read_text()
    model = regard.load("runs/bars")
    (one, other) = model([files[0].read_bytes(), bar(60)])
    assert one.label == rows[0].split("\t")[0] and other.label in LABELS


def rows_of(path: Path, **image: Any) -> list[Any]:
    data = LabeledDataConfig(train=(), input="images", image=image)
    return [row.cells["image"] for row in INPUT.rows(data, [FilesConfig(source=path)])]


def test_other_sizes_and_colors_are_converted_and_reported(tmp_path: Path) -> None:
    folder, lines = save_folders(tmp_path / "bars"), list[str]()
    large = np.repeat(bar(3, size=(12, 9)), 3, axis=2)
    (folder / "row" / "large.png").write_bytes(png(large))
    config: Any = find_config([str(folder)], [], [], log=lines.append)
    assert config.data.image.size == (6, 6) and config.data.image.channels == 3
    assert "1 image with another size → resized to 6 × 6 pixels" in lines
    assert {(picture.height, picture.width, picture.channels) for picture in rows_of(folder, size=(6, 6))} == {
        (6, 6, 1)
    }
    made = RunFolder.create(tmp_path / "run", load_config({
        "task": "classification", "data": {"train": [{"source": str(folder)}], "input": "images"},
    }))  # fmt: skip
    with pytest.raises(DataError, match="the images differ in size"):
        set_up(made, log=lambda message: None)


def test_files_that_are_no_corpus_have_one_message(tmp_path: Path) -> None:
    (tmp_path / "none" / "row").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no folder inside has a file that ends with \.png"):
        rows_of(tmp_path / "none")
    path = tmp_path / "a.npz"
    for images, why in [
        (np.zeros((2, 4)), "missing or has the wrong shape"), (np.zeros((2, 4, 4), int), "wrong type or shape"),
        (np.full((2, 4, 4), 16.0), "floats must be from 0 to 1"), (np.zeros((3, 4, 4)), "2 entries for 3 examples"),
    ]:  # fmt: skip
        np.savez(path, images=images, label=["row", "column"])
        with pytest.raises(DataError, match=why):
            rows_of(path)
    np.savez(path, pictures=np.zeros((2, 4, 4)), label=["row", "column"])
    with pytest.raises(DataError, match="the arrays of the file are pictures, label"):
        rows_of(path)
    folder = save_folders(tmp_path / "bars", range(4))
    (folder / "row" / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (40_000).to_bytes(4, "big") * 2)
    with pytest.raises(DataError, match=r"its header states a size of 40,000 × 40,000,") as caught:
        find_config([str(folder)], [], [])
    assert str(caught.value).count("huge.png") == 1


def test_too_many_patches_name_the_key(tmp_path: Path) -> None:
    data = {**TASK.sample(tmp_path)["data"], "max_length": 8}
    options = {"task": "classification", "data": data, "model": {"encoder": {"input": {"patch": 2}}}}
    made = RunFolder.create(tmp_path / "run", load_config(options))
    with pytest.raises(DataError, match=r"an image has 9 patches of 2 × 2 pixels(.|\n)*data\.max_length=9"):
        set_up(made, log=lambda message: None)


@pytest.mark.parametrize("change", ["model.encoder.input.subsample=2", "data.sound.rate=8000", "data.text=[3]"])
def test_keys_of_other_inputs_are_refused(tmp_path: Path, change: str) -> None:
    sample = {**TASK.sample(tmp_path), "task": "classification", "model": {}}
    with pytest.raises(ConfigError, match=r"data\.input|the input is images"):
        load_config(sample, [change])


def test_images_are_served_as_base64_and_as_files() -> None:
    predictor: Any = TaskCase(TASK, "classification").predictor
    inspector: Any = Inspecting("images", "classification", lambda: predictor)
    model = ServedModel(
        "images", task="classification", load_predictor=lambda: predictor, limits=Limits(), inspector=inspector,
        reads_files=True,
    )  # fmt: skip
    with serving([model]) as (port, _):
        address = f"http://127.0.0.1:{port}/v1"
        inputs = [line_of(bar(1)), json.loads(line_of(bar(1))), {"image": base64.b64encode(png(bar(1))).decode()}]
        outputs = httpx.post(f"{address}/predict", json={"inputs": inputs}, timeout=30).json()["outputs"]
        assert outputs[0] == outputs[1] == outputs[2] and outputs[0]["label"] in LABELS
        form = httpx.post(f"{address}/predict", files=[("file", ("a.png", png(bar(1))))], timeout=30)
        assert form.json()["outputs"] == outputs[:1]
        document = httpx.post(f"{address}/inspect", json={"text": line_of(bar(1)), "include": ["influence"]}).json()
        assert document["surfaces"][0]["numbers"]["grid"] == [3, 3]
        bad = httpx.post(f"{address}/predict", json={"inputs": [{"image": "/etc/passwd"}]})
        assert bad.status_code == 400 and "paths and addresses are not opened" in bad.text


def test_rows_of_one_part(tmp_path: Path) -> None:
    path = save_images(tmp_path / "a.npz", [*map(bar, range(4))], [LABELS[n % 2] for n in range(4)])
    arrays = dict(np.load(path))
    np.savez(path, **arrays, split=["train", "train", "dev", "test"])
    data = LabeledDataConfig(train=(), input="images")
    files = [FilesConfig(source=path, part=("split", part)) for part in ("train", "valid")]
    assert [[row.where for row in INPUT.rows(data, [part])] for part in files] == [
        [f"{path}:1", f"{path}:2"], [f"{path}:3"],
    ]  # fmt: skip

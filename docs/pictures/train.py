"""Train the small runs whose pages `make.py` takes pictures of, one for each task, from public corpora.

Run this command in the root of the repository; it takes about half an hour on two cores, and `make.py` lists the next:

    REGARD_DATA=FOLDER .venv/bin/python docs/pictures/train.py runs/pictures

The files of texts and graphs are those of ``bench/few_examples.py``, with the automatic settings; a run that exists is
kept. Files that are the inputs of pictures are written to ``runs/pictures-files/inputs``.
"""

from __future__ import annotations

import gzip
import math
import os
import random
import shutil
import subprocess
import sys
import wave
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import numpy as np  # noqa: E402
from few_examples import PROBLEMS  # noqa: E402 - a script of a sibling folder

SIZES = {  # training examples of each run
    "sentiment": 6000, "pairs": 4000, "dna": 2000, "tags": 2000, "graphs": 500, "nodes": 140, "links": 2000,
    "items": 1000, "gaps": 4000, "characters": 4000, "summaries": 1000,
}  # fmt: skip
SPOKEN = "Two dogs play in the snow."
SHORT, LONG = ("train.minutes=1",), ("train.minutes=6",)  # of each training, and of the translation


def main(folder: Path, data: Path) -> None:
    inputs = folder.parent / f"{folder.name}-files" / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    sounds_and_images(folder, data, inputs)
    tables(folder, data, inputs)
    if shutil.which("espeak-ng"):
        subprocess.run(["espeak-ng", "-v", "en-us", "-w", inputs / "speech.wav", SPOKEN], check=True)
    for name, size in SIZES.items():
        files = folder.parent / f"{folder.name}-files" / name
        files.mkdir(parents=True, exist_ok=True)
        problem = PROBLEMS[name](data, 1)
        written = problem.write(files, min(size, len(problem)), 1)
        train(folder, name, [str(written.train)], (*written.keys, *SHORT))
    sides = [str(data / "multi30k" / f"{part}.{side}") for part in ("train", "val") for side in ("en", "de")]
    train(folder, "translation", [f"{sides[0]}.gz", f"{sides[1]}.gz", "--valid", *sides[2:]], LONG)
    chorales = data / "jsb-chorales" / "jsb-chorales-quarter.json.gz"
    for part, shifts in (("train", "1"), ("valid", "0")):
        out = ROOT / "data" / "jsb" / f"{part}.jsonl"
        out.parent.mkdir(parents=True, exist_ok=True)
        regard("data", "notes", str(chorales), "--part", part, "--shifts", shifts, "-o", str(out))
    train(folder, "chorales", ["chorales-voices"], SHORT)


def sounds_and_images(folder: Path, data: Path, inputs: Path) -> None:
    """Train on spoken and written digits, and write one of each of their test parts as a file."""
    from PIL import Image

    for corpus, files in (("fsdd", [data / "fsdd" / "fsdd_8khz_int16.npz"]), ("digits", [])):
        script = ROOT / "bench" / "sounds_and_images.py"
        subprocess.run([sys.executable, script, corpus, *map(str, files)], check=True, cwd=ROOT)
    train(folder, "sounds", ["fsdd"], SHORT)
    train(folder, "images", ["digits"], SHORT)
    sounds, images = (dict(np.load(ROOT / "data" / corpus / "test.npz")) for corpus in ("fsdd", "digits"))
    first = int(np.flatnonzero(sounds["label"] == 5)[0])
    with wave.open(str(inputs / "sounds.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(sounds["samples"][slice(*sounds["offsets"][first : first + 2])].astype("<i2").tobytes())
    Image.fromarray(images["images"][int(np.flatnonzero(images["label"] == 3)[0])]).save(inputs / "images.png")


def tables(folder: Path, data: Path, inputs: Path) -> None:
    """Train on the temperature of a transformer, and on a daily wave with a fault, whose alarms are drawn."""
    whole, pump = inputs.parent / "ETTh1.csv", inputs.parent / "pump.csv"
    whole.write_bytes(gzip.decompress((data / "ett" / "ETTh1.csv.gz").read_bytes()))
    rows = whole.read_text("utf-8").splitlines()
    (inputs / "forecasts.csv").write_text("\n".join([rows[0], *rows[13_800:14_400]]) + "\n", "utf-8")
    train(folder, "forecasts", [str(whole), "--set", "data.horizon=24", "--set", 'data.targets=["OT"]'], SHORT)
    begin, draws = datetime(2024, 1, 1), random.Random(1)
    lines = ["date,load"]
    for hour in range(24 * 70):
        value = 50 + 10 * math.sin(math.tau * hour / 24) + draws.gauss(0, 0.5)
        lines.append(f"{begin + timedelta(hours=hour)},{50 if 1560 <= hour < 1566 else value:.2f}")
    pump.write_text("\n".join(lines) + "\n", "utf-8")
    train(folder, "pump", [str(pump), "--set", "data.horizon=1"], SHORT)
    picture = ROOT / "docs" / "pictures" / "alarms.png"
    regard("anomalies", str(folder / "pump"), str(pump), "--false-alarms", "1/week", "--plot", str(picture))


def train(folder: Path, name: str, files: list[str], keys: tuple[str, ...]) -> None:
    if (folder / name).is_dir():
        return
    regard("train", *files, "--name", name, "--runs", str(folder), *(word for key in keys for word in ("--set", key)))


def regard(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "regard", *words], check=True, cwd=ROOT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(os.environ["REGARD_DATA"]))

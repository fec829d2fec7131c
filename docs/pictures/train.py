"""Train the small runs whose pages `make.py` takes pictures of, one for each task, from public corpora.

Run these commands, in the root of the repository; they take about 25 minutes on two cores:

    REGARD_DATA=FOLDER .venv/bin/python docs/pictures/train.py runs/pictures
    regard serve runs/pictures/* --port 5055
    .venv/bin/python docs/pictures/make.py http://127.0.0.1:5055

The files of each run are those of ``bench/few_examples.py``, with the automatic settings; a run that exists is kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from few_examples import PROBLEMS  # noqa: E402 - a script of a sibling folder

SIZES = {  # training examples of each run
    "sentiment": 6000, "pairs": 4000, "dna": 2000, "tags": 2000, "graphs": 500, "nodes": 140, "links": 2000,
    "items": 1000, "gaps": 4000, "characters": 4000, "summaries": 1000,
}  # fmt: skip
SHORT, LONG = ("train.minutes=1",), ("train.minutes=6",)  # of each training, and of the translation


def main(folder: Path, data: Path) -> None:
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


def train(folder: Path, name: str, files: list[str], keys: tuple[str, ...]) -> None:
    if (folder / name).is_dir():
        return
    regard("train", *files, "--name", name, "--runs", str(folder), *(word for key in keys for word in ("--set", key)))


def regard(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "regard", *words], check=True, cwd=ROOT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(os.environ["REGARD_DATA"]))

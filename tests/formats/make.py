"""Make the run folder of the present formats: python -m tests.formats.make tests/formats/v2

Once a version has been released its folder is not made again: what it wrote then must load for ever.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path

from regard.core import atomic_files
from regard.runs import checkpoint
from regard.runs.averaging import average_run
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.setup import set_up
from regard.training.trainer import Trainer

CONFIG = {
    "name": "letters",
    "model": {
        "layers": 1, "width": 8, "feed_forward": 8, "heads": 2, "dropout": 0.0,
        "norm": "pre", "share": "target",
    },
    "data": {
        "train": [{"source": "letters.lower", "target": "letters.upper"}],
        "joint": False,
        "source_tokenizer": {"kind": "bpe", "size": 12},
        "target_tokenizer": {"kind": "word"},
    },
    "train": {
        "steps": 2000, "batch_tokens": 512, "learning_rate": 0.02, "warmup": 50, "save_every": 1000,
        "precision": "float32", "threads": 1, "keep": 2,
    },
}  # fmt: skip
# What the environment says of whoever made it is no part of the format.
ELSEWHERE = {"system": "Linux", "processor": "any", "cores": 1, "written": "2026-01-01T00:00:00+00:00"}


class Silent:
    def updated(self, place: object, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, place: object, validation: object, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


def write_text(folder: Path) -> None:
    """Every line of one to four letters, three times; the target in capitals."""
    lines = [" ".join(letters) for length in range(1, 5) for letters in product("abcd", repeat=length)] * 3
    (folder / "letters.lower").write_text("".join(f"{line}\n" for line in lines))
    (folder / "letters.upper").write_text("".join(f"{line.upper()}\n" for line in lines))


def make(folder: Path) -> None:
    """The text lies beside the run while it is made, and is named by a relative path."""
    write_text(Path())
    run = RunFolder.create(Path("run"), load_config(CONFIG))
    ready = set_up(run, log=print)
    Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=Silent(), interrupted=lambda: False,
    ).fit()  # fmt: skip
    average_run(run, last=1)
    checkpoint.mark_best(run.checkpoints, 2000, "loss", 0.5)
    atomic_files.remove_folder(checkpoint.step_path(run.checkpoints, 1000))
    shutil.rmtree(run.data)
    (run.path / "metrics.jsonl").unlink()
    environment = run.path / "environment.json"
    atomic_files.write_json(environment, json.loads(environment.read_bytes()) | ELSEWHERE)
    shutil.copytree(run.path, folder)


if __name__ == "__main__":
    wanted = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as workshop:
        os.chdir(workshop)
        make(wanted)
        os.chdir(wanted.parent)  # before the workshop goes

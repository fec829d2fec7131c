"""The fingerprint of a few small trainings whose every number is fixed: equal before and after a change of structure.

    python bench/fixed_run.py

Initial weights, corpus and order are functions of names and of numpy's Philox alone, so that neither the order in which
modules are built nor torch's generators decide them. Prints, for each model and each task, the sha256 over the trained
tensors in the order of their names in format 1, and over the outputs of the trained model. Tasks train on the corpus of
their own sample. Sums depend on the processor: compare two versions on one machine.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.models.saved_names import format_1_name
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load as load_predictor
from regard.tasks.translation.translator import load
from regard.training.setup import set_up
from regard.training.trainer import Trainer

UPDATES = 12
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"width": 32, "heads": 4, "feed_forward": 64, "layers": 2},
    "rotary, pre-norm, grouped": {
        "width": 32, "heads": 4, "key_heads": 2, "feed_forward": 48, "encoder_layers": 1, "decoder_layers": 2,
        "norm": "pre", "position": "rotary", "share": "target", "activation": "swiglu", "attention_dropout": 0.1,
    },
    "luong, location-aware": {
        "kind": "recurrent", "width": 24, "layers": 1, "share": "none",
        "cross_attention": "location-aware",
    },
    "convolutional": {"kind": "convolutional", "width": 24, "layers": 2},
}  # fmt: skip
TRAIN = {
    "steps": UPDATES, "batch_tokens": 256, "accumulate": 2, "learning_rate": 0.01, "warmup": 3,
    "schedule": "inverse-sqrt", "label_smoothing": 0.1, "precision": "float32", "threads": 1, "workers": 1, "shards": 1,
    "validate_every": 5, "save_every": 5,
}  # fmt: skip
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")  # of outputs, which may differ in the last digits
TASK_TRAIN = {
    "steps": UPDATES, "learning_rate": 0.01, "warmup": 0, "schedule": "constant", "precision": "float32", "threads": 1,
    "workers": 1, "shards": 2, "validate_every": 5, "save_every": 5,
}  # fmt: skip


class Silent:
    """A reporter that tells nobody."""

    def updated(self, place: Any, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, place: Any, validation: Any, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


def drawn(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(zlib.crc32(name.encode())))


def write_corpus(folder: Path, name: str, pairs: int) -> dict[str, str]:
    """Sentences of made-up words, and the same words turned round and spelled otherwise."""
    random, lines = drawn(name), []
    for _ in range(pairs):
        words = random.integers(0, 20, size=random.integers(2, 12))
        lines.append((" ".join(f"s{word}" for word in words), " ".join(f"t{word}" for word in words[::-1])))
    for side, suffix in enumerate(("src", "tgt")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{line[side]}\n" for line in lines), encoding="utf-8")
    return {"source": str(folder / f"{name}.src"), "target": str(folder / f"{name}.tgt")}


@torch.no_grad()
def fix_weights(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        values = drawn(format_1_name(name)).standard_normal(tuple(parameter.shape)) * 0.1
        parameter.copy_(torch.from_numpy(values + (1.0 if parameter.ndim == 1 and "norm" in name else 0.0)))


def trained(folder: Path, config: dict[str, Any]) -> tuple[Path, str]:
    """Train a run in a new folder. Returns its path and the digest of its weights."""
    run = RunFolder.create(folder / "run", load_config(config))
    ready = set_up(run, log=lambda message: None)
    fix_weights(ready.net)
    trainer = Trainer(run, ready.net, ready.data, steps=ready.steps, reporter=Silent(), interrupted=lambda: False)
    trainer.fit()
    weights = hashlib.sha256()
    tensors = {format_1_name(name): tensor for name, tensor in ready.net.state_dict().items()}
    for name, tensor in sorted(tensors.items()):
        weights.update(name.encode() + tensor.numpy().tobytes())
    return run.path, weights.hexdigest()


def model_fingerprint(folder: Path, model: dict[str, Any]) -> tuple[str, str]:
    """The digests of a translation model's weights and of its translations."""
    config = {
        "data": {
            "joint": False, "tokenizer": {"kind": "word"},
            "train": [write_corpus(folder, "train", 200)], "valid": [write_corpus(folder, "valid", 30)],
        },
        "model": {"share": "target"} | model, "train": TRAIN, "seed": 5,
    }  # fmt: skip
    path, weights = trained(folder, config)
    text = hashlib.sha256()
    for result in load(path, checkpoint="last").translate(["s1 s2 s3", "s4 s5 s6 s7 s8"]):
        text.update(f"{result.text} {result.score:.6f}".encode())
    return weights, text.hexdigest()


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.3f}"


def task_fingerprint(folder: Path, kind: str) -> tuple[str, str]:
    """The digests of the weights and of the outputs of a task on its own sample."""
    task = find_task(kind)
    sample = dict(task.sample(folder))
    config = sample | {"task": {"kind": kind}, "train": {**sample.get("train", {}), **TASK_TRAIN}, "seed": 5}
    path, weights = trained(folder, config)
    predictor, outputs = load_predictor(path, checkpoint="last"), hashlib.sha256()
    settings = {"greedy": True} if kind == "language-model" else {}
    for line in task.sample_lines:
        for output in predictor([predictor.read(line)], **settings):
            outputs.update(NUMBER.sub(_rounded, predictor.write(output, json=True)).encode())
    return weights, outputs.hexdigest()


def main() -> None:
    torch.set_num_threads(1)
    whole = hashlib.sha256()
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            weights, text = model_fingerprint(Path(folder), model)
        whole.update((weights + text).encode())
        print(f"{name:26} weights {weights[:16]}  translations {text[:16]}")
    print(f"all {whole.hexdigest()}")
    for kind in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            weights, outputs = task_fingerprint(Path(folder), kind)
        whole.update((weights + outputs).encode())
        print(f"{kind:26} weights {weights[:16]}  outputs {outputs[:16]}")
    print(f"tasks, too {whole.hexdigest()}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Time from nothing to a BLEU on Multi30k's test2016, against MarianMTModel with the same data and hyper-parameters.

    REGARD_DATA=folder-with-multi30k .venv/bin/python bench/time_to_bleu.py

Both make the same updates over the same batches in the same order, some at a time and in turn; after each stretch the
test set is decoded greedily, which is nobody's time, and scored as it stands (cased, sacreBLEU's own tokenization). Who
reaches the goal is done. Preset small, 8,000 joint types, matrices N(0, 0.02²) as the peer's are by default, or
with ``--glorot`` ours as they are by default. Writes
runs/bench/time-to-bleu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import BENCH, Worker
from environments import ROOT, peer_python
from machine import machine
from sacrebleu.metrics import BLEU
from train_speed import _planned, _write_settings

from regard.data.text_files import read_lines
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.config import TranslationConfig
from regard.training.setup import TrainingInputs, set_up

FOLDER = ROOT / "runs" / "bench"


def main() -> None:
    arguments = _arguments()
    prepared = FOLDER / "time-to-bleu"
    shutil.rmtree(prepared, ignore_errors=True)
    config = _config(arguments)
    run = RunFolder.create(prepared / "auto", config)
    ready = set_up(run, log=print)
    codecs = ready.data.codecs
    _write_batches(prepared / "batches.npz", ready, config, arguments.most)
    _write_settings(prepared / "settings.json", ready, config)
    sources, references = (
        list(read_lines(_data(f"test_2016_flickr.{side}")))[: arguments.sentences] for side in ("en", "de")
    )
    job = {"every": arguments.every, "longest": 50, "sources": [codecs.source.encode(line) for line in sources]}
    (prepared / "job.json").write_text(json.dumps(job))
    measure = BLEU()
    curves: dict[str, list[dict[str, float]]] = {name: [] for name in ("regard", "marian")}
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(name, command, threads=arguments.threads))
            for name, command in _commands(run, prepared, arguments).items()
        }
        for stretch in range(arguments.most // arguments.every):
            names = [name for name in curves if not _reached(curves[name], arguments.goal)]
            if not names:
                break
            for name in names if stretch % 2 else reversed(names):
                answer = workers[name].turn().answer
                outputs = json.loads((prepared / f"outputs-{name}.json").read_text())
                texts = [codecs.target.decode(tokens) for tokens in outputs]
                point = answer | {"bleu": measure.corpus_score(texts, [references]).score}
                curves[name].append(point)
                print(f"{name:8}{point['updates']:>6,} updates {point['seconds']:>8,.0f} s  loss {point['loss']:.3f}  "
                      f"BLEU {point['bleu']:.2f}", flush=True)  # fmt: skip
    settings = vars(arguments) | {"signature": str(measure.get_signature())}
    result = {"machine": machine(), "settings": settings, "curves": curves}
    (FOLDER / "time-to-bleu.json").write_text(json.dumps(result, indent=2))
    ours, theirs = (_time(curves[name], arguments.goal) for name in ("regard", "marian"))
    print(f"to {arguments.goal} BLEU: regard {ours:,.0f} s, marian {theirs:,.0f} s: {ours / theirs:.2f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--goal", type=float, default=32.0)
    parser.add_argument("--every", type=int, default=100, help="updates between two scores")
    parser.add_argument("--most", type=int, default=2000, help="updates of each")
    parser.add_argument("--sentences", type=int, help="of the test set; all unless given")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--warm-up", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--glorot", action="store_true", help="our matrices start as they do by default")
    parser.add_argument("--marian", nargs=2, default=["bfloat16", "eager"], help="its number format and attention")
    return parser.parse_args()


def _data(name: str) -> Path:
    path = Path(os.environ.get("REGARD_DATA", "")) / "multi30k" / name
    path = path if path.is_file() else path.with_name(f"{name}.gz")
    if "REGARD_DATA" not in os.environ or not path.is_file():
        sys.exit(f"REGARD_DATA must name a folder that holds multi30k/{name}")
    return path


def _config(arguments: argparse.Namespace) -> TranslationConfig:
    corpus = {"source": str(_data("train.en")), "target": str(_data("train.de"))}
    train = {
        "batch_tokens": arguments.batch_tokens,
        "threads": arguments.threads,
        "learning_rate": arguments.learning_rate,
        "warmup": arguments.warm_up,
        "validate_every": 10**9,
        "save_every": 10**9,
    }
    data = {"train": [corpus], "tokenizer": {"kind": "bpe", "size": 8000}}
    model = {"preset": "small"} | ({} if arguments.glorot else {"init_std": 0.02})
    return load_config({"model": model, "data": data, "train": train})


def _commands(run: RunFolder, prepared: Path, arguments: argparse.Namespace) -> dict[str, list[str | Path]]:
    plan = run.read_plan()
    assert plan is not None
    peer = BENCH / "peers" / "marian_bleu.py"
    python = peer_python("marian", peer.with_name("marian_transformers.txt"))
    given = [prepared / "settings.json", prepared / "batches.npz", prepared / "job.json"]
    folder = _planned(run, plan.precision, 1)
    return {
        "regard": [sys.executable, BENCH / "ours_bleu.py", folder, given[2], prepared / "outputs-regard.json"],
        "marian": [python, peer, *given, prepared / "outputs-marian.json", *arguments.marian],
    }


def _write_batches(path: Path, ready: TrainingInputs, config: TranslationConfig, updates: int) -> None:
    """Those of the trainer, in its order, epoch after epoch."""
    examples, arrays, number, epoch = ready.data.train, dict[str, Any](), 0, 0
    while number < updates:
        for batch in examples.batches(epoch)[: updates - number]:
            fields = examples.collate(batch)._asdict()
            tensors = {name: each for name, each in fields.items() if isinstance(each, torch.Tensor)}
            arrays |= {f"{number}.{name}": tensor.numpy() for name, tensor in tensors.items()}
            number += 1
        epoch += 1
    np.savez(path, **arrays)


def _reached(curve: list[dict[str, float]], goal: float) -> bool:
    return bool(curve) and curve[-1]["bleu"] >= goal


def _time(curve: list[dict[str, float]], goal: float) -> float:
    """Seconds to the goal, on a line between the stretches before and after it."""
    if not _reached(curve, goal):
        return float("nan")
    before, after = ([{"seconds": 0.0, "bleu": 0.0}, *curve])[-2:]
    share = (goal - before["bleu"]) / (after["bleu"] - before["bleu"])
    return before["seconds"] + (after["seconds"] - before["seconds"]) * share


if __name__ == "__main__":
    main()

"""Training speed of a classifier and of a masked model against transformers' BERT of the same shape, alternately.

    python bench/bert_speed.py LABELED.tsv [--task labels masked] [--shape small] [--rounds 7] [--threads 1]

LABELED.tsv has a text, a tab and a label a line; words are the pieces. Both sides make the same updates over the same
batches: ours is ``Trainer`` as it is, in the number format that a run would choose, which pads its batches and writes
its metrics within the time; BERT's finds its batches in memory. Layers, width, heads, feed-forward, GELU, norms behind
the sums, learned positions, dropout on attention weights and a bias in each projection are alike; BERT has a pooler,
embeddings of segments and, for masked tokens, a layer before the output besides, which are some percent of its
weights. transformers is to be installed beside Regard. A turn is a block of updates.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import BENCH, alternate, quartiles
from environments import ROOT
from machine import machine

from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.setup import set_up

FOLDER = ROOT / "runs" / "bench" / "bert-speed"
SHAPES = {
    "tiny": {"layers": 2, "width": 128, "heads": 4, "feed_forward": 256},
    "small": {"layers": 4, "width": 256, "heads": 4, "feed_forward": 1024},
    "medium": {"layers": 6, "width": 384, "heads": 6, "feed_forward": 1536},
}
LONGEST, RATE, NEVER = 512, 1e-4, 10**9


def config_of(given: argparse.Namespace, task: str, texts: Path) -> dict[str, Any]:
    model = SHAPES[given.shape] | {
        "dropout": 0.1, "attention_dropout": 0.1, "attention_bias": True, "norm": "post", "activation": "gelu",
        "position": {"kind": "learned", "longest": LONGEST}, "init_std": 0.02,
    }  # fmt: skip
    tokenizer = {"kind": "word", "size": given.types}
    train = {
        "optimizer": "adamw", "learning_rate": RATE, "schedule": "constant", "warmup": 1, "threads": given.threads,
        "batch_tokens": given.batch_tokens, "steps": NEVER, "validate_every": NEVER, "save_every": NEVER,
    }  # fmt: skip
    if task == "labels":
        data = {"train": [{"source": str(given.labeled.absolute())}], "tokenizer": tokenizer}
        return {"task": "classification", "data": data, "model": model | {"pooling": "first"}, "train": train}
    data = {"train": [{"source": str(texts)}], "tokenizer": tokenizer, "context": 128}
    return {"task": "masked", "data": data, "model": model, "train": train}


def measure(given: argparse.Namespace, task: str) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    texts = FOLDER / "texts.txt"
    lines = given.labeled.read_text(encoding="utf-8").splitlines()
    texts.write_text("".join(f"{line.partition(chr(9))[0]}\n" for line in lines), encoding="utf-8")
    run = RunFolder.create(FOLDER / "ours", load_config(config_of(given, task, texts)))
    ready = set_up(run, log=print)
    order = ready.data.train.batches(0)
    updates = min((given.rounds + given.warm_up) * given.block, len(order))
    arrays = {
        f"{number}.{name}": each.numpy()
        for number, indices in enumerate(order[:updates])
        for name, each in ready.data.train.collate(indices)._asdict().items() if isinstance(each, torch.Tensor)
    }  # fmt: skip
    np.savez(FOLDER / "batches.npz", **arrays)
    types = ready.data.spec["types"] + (task == "masked")  # the mask
    settings = SHAPES[given.shape] | {
        "types": types, "classes": ready.data.spec.get("classes", 2), "dropout": 0.1, "longest": LONGEST, "rate": RATE,
        "threads": given.threads, "block": given.block,
    }  # fmt: skip
    (FOLDER / "settings.json").write_text(json.dumps(settings))
    commands: dict[str, list[str | Path]] = {
        "regard": [sys.executable, BENCH / "ours_train.py", run.path, str(given.block)]
    }
    for precision in given.precisions:
        for attention in given.attention:
            worker = [BENCH / "peers" / "bert_transformers.py", FOLDER / "settings.json", FOLDER / "batches.npz"]
            commands[f"bert {precision} {attention}"] = [sys.executable, *worker, task, precision, attention]
    hello, turns = alternate(commands, rounds=given.rounds, warm_up=given.warm_up, threads=given.threads)
    counted = {tuple(turn.answer["tokens"] for turn in each) for each in turns.values()}
    if len(counted) > 1:
        sys.exit(f"the workers saw different batches: {counted}")
    about, plan = machine(), run.read_plan()
    assert plan is not None
    print(f"\n{about['processor']}, {given.threads} threads of {about['cores']} cores; {about['written']}")
    print(f"{task}, {given.shape}: {SHAPES[given.shape]}, {types:,} types, {given.batch_tokens:,} tokens an update")
    ours = turns["regard"][given.warm_up :]
    for name, each in turns.items():
        timed = each[given.warm_up :]
        speed = quartiles([turn.seconds / given.block * 1000 for turn in timed])
        ratio = quartiles([one.seconds / other.seconds for one, other in zip(timed, ours, strict=True)])
        shown = name if name != "regard" else f"regard {plan.precision}"
        print(
            f"{shown:22}{hello[name]['parameters']:>12,} parameters {speed['median']:8.1f} ms an update, regard is "
            f"faster by {ratio['median']:.2f} [{ratio['low']:.2f} {ratio['high']:.2f}], loss "
            f"{each[-1].answer['loss']:.2f}",
            flush=True,
        )


def main() -> None:
    given = _arguments()
    for task in given.task:
        measure(given, task)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labeled", type=Path)
    parser.add_argument("--task", nargs="+", choices=("labels", "masked"), default=["labels", "masked"])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--types", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--block", type=int, default=3, help="updates a turn")
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], help="of BERT")
    parser.add_argument("--attention", nargs="+", default=["sdpa", "eager"], help="of BERT")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Speed of classifying and of tagging lines against transformers' pipelines with BERT of the same shape, in turn.

    python bench/classify_speed.py LABELED.tsv [--task labels tags] [--shape small] [--lines 2000] [--rounds 5]

LABELED.tsv has a text, a tab and a label a line; words are the pieces of both sides. Weights are those after one
update, since speed does not hang on them. A turn is all lines: cutting them into pieces, batches, the network, and
answers as Python values. Ours in float32, in 8 bits and by torch; the pipeline in float32, as it comes, with batches as
large as ours and lines in the order of the file, and sdpa, its default. transformers is to be installed beside Regard.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from alternate import quartiles
from bert_speed import LONGEST, SHAPES
from environments import ROOT
from machine import machine

import regard

FOLDER = ROOT / "runs" / "bench" / "classify-speed"
BATCH = 64
NAMES = {"labels": "BertForSequenceClassification", "tags": "BertForTokenClassification"}
PIPELINES = {"labels": "text-classification", "tags": "token-classification"}


def ours(given: argparse.Namespace, task: str) -> Path:
    """A run of one update."""
    model = SHAPES[given.shape] | {
        "dropout": 0.1, "attention_bias": True, "norm": "post", "activation": "gelu",
        "position": {"kind": "learned", "longest": LONGEST}, "init_std": 0.02,
    }  # fmt: skip
    source = given.labeled.absolute()
    if task == "tags":
        source = FOLDER / "tagged.jsonl"
        rows = (
            {"tokens": words, "tags": [word[-1] for word in words]}
            for words in map(str.split, texts(given, every=True))
        )
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = {
        "task": {"labels": "classification", "tags": "tagging"}[task],
        "data": {"train": [{"source": str(source)}], "tokenizer": {"kind": "word", "size": given.types}},
        "model": model | ({"pooling": "first"} if task == "labels" else {}),
        "train": {"steps": 1, "threads": given.threads, "precision": "float32"},
    }
    return regard.train(config, FOLDER / f"ours-{task}")


def texts(given: argparse.Namespace, *, every: bool = False) -> list[str]:
    lines = given.labeled.read_text(encoding="utf-8").splitlines()
    return [line.partition("\t")[0] for line in (lines if every else lines[: given.lines])]


def theirs(given: argparse.Namespace, task: str, model: Any) -> Callable[[list[str]], Any]:
    """A pipeline with the same words and shape, its weights drawn."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    words = [model.codec.tokenizer.pieces([number])[0] for number in range(4, len(model.codec.tokenizer))]
    vocabulary = FOLDER / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary.write_text("\n".join([*special, *words]) + "\n", encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(vocab=str(vocabulary), do_lower_case=True)
    shape = SHAPES[given.shape]
    classes = len(model.labels)
    config = transformers.BertConfig(
        vocab_size=len(special) + len(words), hidden_size=shape["width"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], intermediate_size=shape["feed_forward"], num_labels=classes,
    )  # fmt: skip
    network = getattr(transformers, NAMES[task])(config).eval()
    pipe = transformers.pipeline(PIPELINES[task], model=network, tokenizer=tokenizer, device="cpu", batch_size=BATCH)
    return lambda lines: list(pipe(lines))


def measure(given: argparse.Namespace, task: str) -> None:
    run, lines = ours(given, task), texts(given)
    model = regard.load(run)
    inputs: Any = lines if task == "labels" else [line.split() for line in lines]
    forms = {"float32": model, **{engine: regard.load(run, engine=engine) for engine in ("int8", "torch")}}
    programs: dict[str, Callable[[], Any]] = {f"regard {name}": partial(each, inputs) for name, each in forms.items()}
    programs["pipeline"] = partial(theirs(given, task, model), lines)
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(given.rounds + 1):
        for name in sorted(programs, reverse=bool(turn % 2)):
            began = time.perf_counter()
            assert len(programs[name]()) == len(lines)
            seconds[name].append(time.perf_counter() - began)
    about = machine()
    print(f"\n{about['processor']}, {given.threads} threads of {about['cores']} cores; {about['written']}")
    print(f"{task}, {given.shape}: {SHAPES[given.shape]}, {len(lines):,} lines")
    for name, each in seconds.items():
        speed = quartiles([len(lines) / one for one in each[1:]])
        ratio = quartiles([one / other for one, other in zip(seconds["pipeline"][1:], each[1:], strict=True)])
        print(
            f"{name:16} {speed['median']:8,.0f} [{speed['low']:,.0f} {speed['high']:,.0f}] lines/s, "
            f"{ratio['median']:.2f} [{ratio['low']:.2f} {ratio['high']:.2f}] times the pipeline's",
            flush=True,
        )


def main() -> None:
    given = _arguments()
    torch.set_num_threads(given.threads)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for task in given.task:
        measure(given, task)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labeled", type=Path)
    parser.add_argument("--task", nargs="+", choices=NAMES, default=["labels"])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--types", type=int, default=8000)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Influence by hiding: its time, and how often attention names the word that counts most.

    python bench/influence.py time DATA [--rounds 7] [--runs FOLDER]
    python bench/influence.py agreement DATA [--inputs 300] [--minutes 2] [--runs FOLDER]

DATA holds ``sst``, ``ud-lines`` and ``lm-tinyshakespeare``. Both train what ``regard train`` chooses for the files; the
tagger of ``agreement`` is a Transformer, because the automatic choice, a GRU, has no attention.

``time``: seconds of the influences of an input of 254 words, the longest that can be inspected, in a sentiment
classifier, a GRU tagger and a masked model after one update, and of a plain prediction. A tagger has an influence for
each pair of words.

``agreement``: for each input the share of its predictions for which the word with the largest attention is the word
with the largest influence of either sign. Attention is the pooling weights, or the mean of the heads of the last layer
in the row of the prediction. Gaps and special pieces do not count; the own word of a tag counts, and a second row
leaves it out. Chance is the mean of 1 / words. The standard error is over inputs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import machine
from middle_words import write_lines

import regard
from regard.core.observation import Influence, Observation
from regard.data.text_files import read_lines

WORDS = 254  # with the begin and the end, the longest input that can be inspected
LONG = ["data.max_length=256", "train.steps=1", "train.baseline=false", "model.wide=false"]


def main() -> None:
    given = _arguments()
    print(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]), date.today().isoformat())
    print(json.dumps(machine()))
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(given.data, Path(folder))
        rows = {"time": times, "agreement": agreements}[given.action](files, given, given.runs or Path(folder))
        for row in rows:
            print(json.dumps(row), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["time", "agreement"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inputs", type=int, default=300, help="of each task, the first ones of its test part")
    parser.add_argument("--minutes", type=float, default=2, help="of training of each task")
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder, and use those that it has")
    return parser.parse_args()


def write_files(data: Path, folder: Path) -> Path:
    """Write the uncompressed files of each task."""
    for source, target in (
        ("sst/sst2-train.tsv.gz", "reviews.tsv"), ("ud-lines/train.jsonl.gz", "tags.jsonl"),
        ("ud-lines/dev.jsonl.gz", "tags-valid.jsonl"), ("ud-lines/test.jsonl.gz", "tags-test.jsonl"),
        ("lm-tinyshakespeare/input.txt.gz", "input.txt"),
    ):  # fmt: skip
        with gzip.open(data / source) as packed, (folder / target).open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    for part, name in (("dev", "reviews-valid.tsv"), ("test", "reviews-test.tsv")):
        shutil.copy(data / f"sst/sst2-{part}.tsv", folder / name)
    write_lines(folder / "input.txt", folder / "gaps")
    return folder


def train(runs: Path, name: str, files: Sequence[Path], *options: str) -> Any:
    """Return the model of a run, which is trained unless the folder has it."""
    if not (runs / name).exists():
        source, valid = files
        command = [sys.executable, "-m", "regard", "train", str(source), "--valid-file", str(valid)]
        subprocess.run([*command, "--runs", str(runs), "--name", name, *options], check=True, stdout=sys.stderr)
    return regard.load(runs / name)


def settings(*keys: str) -> list[str]:
    return [part for key in keys for part in ("--set", key)]


def times(files: Path, given: argparse.Namespace, runs: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each model: median seconds of the influences of one input, and of its prediction."""
    words = [word for line in read_lines(files / "gaps" / "test.txt") for word in line.split()][:WORDS]
    gap = [*words[: WORDS // 2], "___", *words[WORDS // 2 + 1 :]]
    reviews = files / "reviews.tsv", files / "reviews-valid.tsv"
    tags = files / "tags.jsonl", files / "tags-valid.jsonl"
    models: dict[str, tuple[Callable[[], Any], Any]] = {
        "classifier": (
            lambda: train(runs, "time-classifier", reviews, *settings(*LONG)),
            " ".join(words),
        ),
        "GRU tagger": (
            lambda: train(runs, "time-tagger", tags, *settings(*LONG)),
            words,
        ),
        "masked model": (
            lambda: train(
                runs, "time-masked", [files / "gaps" / "train.txt", files / "gaps" / "valid.txt"], "--task", "masked",
                *settings("data.context=256", *LONG[1:]),
            ),
            " ".join(gap),
        ),
    }  # fmt: skip
    for name, (make, input) in models.items():
        model = make()
        observation = model.inspect(input)
        model.influences(input, observation)
        seconds = [timed(lambda: model.influences(input, observation)) for _ in range(given.rounds)]  # noqa: B023
        plain = [timed(lambda: model([input])) for _ in range(given.rounds)]  # noqa: B023
        parameters = sum(
            parameter.numel() for parameter in (model.net if hasattr(model, "net") else model.model).parameters()
        )
        yield {
            "model": name, "words": WORDS, "parameters": parameters, "seconds": round(statistics.median(seconds), 3),
            "least": round(min(seconds), 3), "most": round(max(seconds), 3),
            "of a prediction": round(statistics.median(plain), 4),
        }  # fmt: skip


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Compared(NamedTuple):
    """A prediction: the attention to and the influence of each word that is compared, and the place of its own word."""

    attention: np.ndarray[Any, Any]
    influence: np.ndarray[Any, Any]
    own: int | None


def agreements(files: Path, given: argparse.Namespace, runs: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each task."""
    minutes = settings(f"train.minutes={given.minutes}")
    reviews = train(runs, "reviews", [files / "reviews.tsv", files / "reviews-valid.tsv"], *minutes)
    texts = [line.partition("\t")[0] for line in read_lines(files / "reviews-test.tsv")]
    yield from rows_of("sentiment", reviews, texts[: given.inputs], of_reviews)
    tagger = transformer_tagger(files, runs, given.minutes)
    sentences = [json.loads(line)["tokens"] for line in read_lines(files / "tags-test.jsonl")]
    yield from rows_of("part of speech", tagger, sentences[: given.inputs], of_tags)
    lines = files / "gaps" / "train.txt", files / "gaps" / "valid.txt"
    filler = train(runs, "gaps", lines, "--task", "masked", *minutes)
    with_gap = [middle_hidden(line) for line in read_lines(files / "gaps" / "test.txt")]
    yield from rows_of("middle word", filler, with_gap[: given.inputs], of_gaps)


def transformer_tagger(files: Path, runs: Path, minutes: float) -> Any:
    if not (runs / "tags").exists():
        parts = {
            part: [{"source": str(files / name)}]
            for part, name in (("train", "tags.jsonl"), ("valid", "tags-valid.jsonl"))
        }
        config = {
            "task": "tagging",
            "data": {**parts, "token": "tokens", "tag": "tags", "hidden_tokens": 0.2},
            "model": {"layers": 2, "width": 128, "heads": 4, "feed_forward": 256, "dropout": 0.3, "affixes": 20_000},
            "train": {
                "epochs": 6, "optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.1, "batch_tokens": 1024,
                "minutes": minutes,
            },
        }  # fmt: skip
        regard.train(config, runs / "tags")
    return regard.load(runs / "tags")


def middle_hidden(line: str) -> str:
    words = line.split()
    return " ".join([*words[: len(words) // 2], "___", *words[len(words) // 2 + 1 :]])


def rows_of(
    task: str, model: Any, inputs: Sequence[Any], read: Callable[[Observation, Influence], Compared | None]
) -> Iterator[dict[str, Any]]:
    """Yield the agreement over all words, and without the own word of each prediction, if it has one."""
    compared: list[list[Compared]] = []
    for input in inputs:
        observation = model.inspect(input)
        found = [read(observation, each) for each in model.influences(input, observation)]
        compared.append([each for each in found if each is not None and len(each.attention) > 1])
    compared = [part for part in compared if part]
    yield {"task": task, "words": "all"} | agreement(compared)
    if compared[0][0].own is not None:
        others = [[without_own(each) for each in part if len(each.attention) > 2] for part in compared]
        yield {"task": task, "words": "without the own one"} | agreement([part for part in others if part])


def without_own(one: Compared) -> Compared:
    kept = np.arange(len(one.attention)) != one.own
    return Compared(one.attention[kept], one.influence[kept], None)


def agreement(compared: Sequence[Sequence[Compared]]) -> dict[str, Any]:
    shares = [
        np.mean([each.attention.argmax() == np.abs(each.influence).argmax() for each in part]) for part in compared
    ]
    chance = [np.mean([1 / len(each.attention) for each in part]) for part in compared]
    return {
        "inputs": len(compared), "predictions": sum(map(len, compared)), "same": round(float(np.mean(shares)), 3),
        "standard error": round(float(np.std(shares, ddof=1)) / math.sqrt(len(shares)), 3),
        "chance": round(float(np.mean(chance)), 3),
    }  # fmt: skip


def last_layer(observation: Observation, row: int) -> np.ndarray[Any, Any]:
    """Return the weights (keys,) of a row, the mean of the heads of the last self-attention."""
    place = max((each for each in observation.attention if each.layer is not None), key=lambda each: each.layer or 0)
    return place.weights[:, row].mean(0).numpy()


def of_reviews(observation: Observation, influence: Influence) -> Compared:
    """Compare the words between the begin and the end of a text."""
    return Compared(observation.maps["pooling"].weights[0, 0, 1:-1].numpy(), np.array(influence.values)[1:-1], None)


def of_tags(observation: Observation, influence: Influence) -> Compared:
    """Compare the words of a sentence, whose positions follow that of the begin."""
    token = influence.prediction
    return Compared(last_layer(observation, token + 1)[1:-1], np.array(influence.values), token)


def of_gaps(observation: Observation, influence: Influence) -> Compared | None:
    """Compare the words of a line without the gap; None if a word has several tokens."""
    (place,) = observation.predictions[influence.prediction].site.pieces
    weights, values = last_layer(observation, place + 1)[1:-1], np.array(influence.values)
    if len(weights) != len(values):
        return None
    words = np.arange(len(values)) != place
    return Compared(weights[words], values[words], None)


if __name__ == "__main__":
    main()

"""Full fine-tuning, LoRA and a frozen encoder on labeled sentences: quality, trained weights, memory and time.

    REGARD_DATA=FOLDER python bench/adapters.py --seeds 5
    REGARD_DATA=FOLDER python bench/adapters.py --seeds 3 --examples 1000 --pretrain 300 --epochs 4

Pretrains a masked model on the sentences of SST-2 without labels, and trains classifiers on some of the labels from its
encoder. Each seed draws other examples. Each method uses the rate with the smallest validation loss, summed over seeds.
Prints the test accuracy with its standard error over seeds, the difference from full fine-tuning with that of the
paired difference, trained weights, bytes of the optimizer's moments, and the median seconds of an update. JSON goes to
runs/bench/adapters.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from machine import machine

import regard
from regard.runs.checkpoint import load_latest
from regard.runs.run_folder import RunFolder

ENCODER = {"layers": 2, "width": 64, "heads": 4, "feed_forward": 256, "dropout": 0.1}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # keys of the encoder, and of the model
    "full": ({}, {}),
    "lora": ({}, {"lora": {"rank": 8}}),
    "lora, query and value": ({}, {"lora": {"rank": 8, "targets": ["query", "value"]}}),
    "frozen": ({"frozen": "all"}, {}),
}
LINE = "{method:22} accuracy {accuracy:.4f} ± {error:.4f}  difference {difference:+.4f} ± {paired:.4f}  rate {rate:g}  "
LINE += "trained {trained:,}  moments {moments:,} bytes  update {seconds:.4f} s"


class Measured(NamedTuple):
    """Figures of one training."""

    loss: float
    accuracy: float
    trained: int
    moments: int
    seconds: float


def main() -> None:
    given = _arguments()
    data, measured = Path(os.environ["REGARD_DATA"]) / "sst", dict[tuple[str, float], list[Measured]]()
    lines = gzip.decompress((data / "sst2-train.tsv.gz").read_bytes()).decode().splitlines()
    with tempfile.TemporaryDirectory() as place:
        base = _pretrained(Path(place), [line.rpartition("\t")[0] for line in lines], given.pretrain)
        for seed in range(1, given.seeds + 1):
            labeled = Path(place) / f"labeled-{seed}.tsv"
            labeled.write_text("\n".join(random.Random(seed).sample(lines, given.examples)) + "\n")
            for method in METHODS:
                for rate in given.rates:
                    run = Path(place) / f"{method}-{rate}-{seed}"
                    config = _config(base, labeled, data, method, rate, seed, given.epochs)
                    measured.setdefault((method, rate), []).append(_measure(config, run, data))
    rows = _rows(measured)
    for row in rows:
        print(LINE.format_map(row))
    folder = Path("runs") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapters.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=1000, help="Labeled sentences.")
    parser.add_argument("--pretrain", type=int, default=1000, help="Updates of the masked model.")
    parser.add_argument("--epochs", type=int, default=5, help="Epochs of a classifier.")
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-4, 1e-3, 3e-3], help="Learning rates to try.")
    return parser.parse_args()


def _pretrained(folder: Path, sentences: list[str], steps: int) -> Path:
    (folder / "text.txt").write_text("\n".join(sentences) + "\n")
    train = {"optimizer": "adamw", "learning_rate": 2e-3, "schedule": "linear", "steps": steps, "batch_tokens": 2048}
    tables = {
        "task": "masked",
        "data": {"train": [{"source": str(folder / "text.txt")}], "tokenizer": {"kind": "byte-bpe", "size": 2000}},
        "model": ENCODER,
        "train": train | {"baseline": False, "threads": 1},
    }
    return regard.train(tables, folder / "base")


def _config(base: Path, labeled: Path, data: Path, method: str, rate: float, seed: int, epochs: int) -> dict[str, Any]:
    encoder, model = METHODS[method]
    train = {"optimizer": "adamw", "learning_rate": rate, "schedule": "linear", "epochs": epochs, "batch_tokens": 1024}
    return {
        "task": "classification",
        "seed": seed,
        "data": {"train": [{"source": str(labeled)}], "valid": [{"source": str(data / "sst2-dev.tsv")}]},
        "model": {"encoder": {"from": str(base), **encoder}, **model},
        "train": train | {"baseline": False, "threads": 1},
    }


def _measure(config: dict[str, Any], path: Path, data: Path) -> Measured:
    run = RunFolder.open(regard.train(config, path))
    figures = regard.evaluate(run.path, data / "sst2-test.tsv").figures
    updates = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    saved = load_latest(run.checkpoints, lambda message: None)
    assert saved is not None
    moments = {name: tensor for name, tensor in saved.groups["optimizer"].items() if name.startswith("exp_avg")}
    size = sum(tensor.numel() * tensor.element_size() for tensor in moments.values())
    return Measured(
        loss=min(record["validation"]["loss"] for record in updates if "validation" in record),
        accuracy=figures["accuracy"],
        trained=sum(tensor.numel() for name, tensor in moments.items() if name.startswith("exp_avg.")),
        moments=size,
        seconds=statistics.median(record["seconds"] for record in updates if "seconds" in record),
    )


def _rows(measured: dict[tuple[str, float], list[Measured]]) -> list[dict[str, Any]]:
    rows, full = [], list[float]()
    for method in METHODS:
        rates = {rate: runs for (name, rate), runs in measured.items() if name == method}
        rate = min(rates, key=lambda rate: sum(run.loss for run in rates[rate]))
        runs = rates[rate]
        accuracies = [run.accuracy for run in runs]
        full = full or accuracies
        differences = [own - other for own, other in zip(accuracies, full, strict=True)]
        row = {"method": method, "rate": rate, "seeds": len(runs), "trained": runs[0].trained}
        row |= {"accuracy": statistics.mean(accuracies), "error": _error(accuracies)}
        row |= {"difference": statistics.mean(differences), "paired": _error(differences)}
        rows.append(row | {"moments": runs[0].moments, "seconds": statistics.median(run.seconds for run in runs)})
    return rows


def _error(values: list[float]) -> float:
    """Return the standard error of a mean; 0 for a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


if __name__ == "__main__":
    main()

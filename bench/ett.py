"""ETTh1 and ETTh2 at four horizons: the network alone, with its ridge regression, and that regression alone.

    python bench/ett.py [--corpora etth1 etth2] [--horizons 96 192 336 720] [--seeds 1] [--skips none average linear]
        [--outputs point quantiles] [--set KEY=VALUE]

Reads data/ett (``regard data fetch ett``). Trains the recipe of each corpus, resumes what is unfinished, and prints a
JSON line for each run: errors on every window of the test part, those of the ridge regression, of the same hour of the
day before and of the last value, the coverage of the band before and after its width is fitted to the validation part,
updates and seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

WINDOWS = 128  # of a batch


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="*", default=["etth1", "etth2"])
    parser.add_argument("--horizons", nargs="*", type=int, default=[96, 192, 336, 720])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--skips", nargs="*", default=["none", "average"])
    parser.add_argument("--outputs", nargs="*", default=["point"])
    parser.add_argument("--look-back", type=int, default=512)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of every config")
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    choices = itertools.product(options.corpora, options.outputs, options.skips, options.horizons, options.seeds)
    for corpus, output, skip, horizon, seed in choices:
        name = f"{corpus}-{output}-{skip}-{horizon}-{seed}"
        settings = {
            "data.horizon": horizon, "data.look_back": options.look_back, "model.skip": skip, "model.output": output,
            "train.batch_tokens": WINDOWS * (options.look_back + horizon), "seed": seed,
        }  # fmt: skip
        train(corpus, name, settings, options.overrides)
        print(json.dumps({"run": name} | measured(name, corpus)), flush=True)


def train(corpus: str, name: str, settings: dict[str, Any], overrides: list[str]) -> None:
    run = Path("runs") / name
    if run.exists():
        regard("train", "--resume", str(run))
        return
    keys = [f"{key}={value}" for key, value in settings.items()] + overrides
    regard("train", corpus, "--name", name, *(part for key in keys for part in ("--set", key)))


def measured(name: str, corpus: str) -> dict[str, Any]:
    run, file = Path("runs") / name, f"data/ett/ETTh{corpus[-1]}.csv"
    result = json.loads(regard("evaluate", str(run), file, "--json"))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [record for record in records if "loss" in record]
    baseline = {f"ridge {name}": value for name, value in (result.get("baseline") or {}).get("figures", {}).items()}
    seconds = round(sum(record["seconds"] for record in updates))
    tables = {"forecasts": result["tables"]["forecasts"][1:]}
    return result["figures"] | baseline | tables | {"updates": len(updates), "seconds": seconds}


def regard(*arguments: str) -> str:
    command = [sys.executable, "-c", "import sys; from regard.cli import main; main()", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

"""Times one product and one step of decoding in each number format on this processor.

    scripts/bench engines

The product of the rows' features by the output matrix, and a greedy step of as many sentences: reading the sources and
searching are in it. Milliseconds of one thread's own time, so that other work on the machine hardly counts; medians of
rounds in which all formats take their turn. Steps are those of the engines, by the kernels in C where they compute
them; int8 is left out where there are none, and its product is not timed alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import torch
from environments import ROOT
from machine import machine
from work import OUTPUT, decoding, fast, model

from regard.core.processor import bfloat16_in_hardware
from regard.engine.packed import PackedLinear, PackedMatrix
from regard.inference.decoding import Engine
from regard.native.library import find

FOLDER = ROOT / "runs" / "bench"
TYPES, LENGTH = 8000, 16


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    formats: list[Engine] = ["float32", "bfloat16"]
    kinds: list[Engine] = formats if find().library is None else [*formats, "int8"]
    found: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        for preset in arguments.presets:
            made = model(preset, TYPES)
            width = made.head.weight.shape[1]
            engines = {kind: fast(made, kind) for kind in kinds}
            for rows in arguments.rows:
                products = {kind: _product(made.head.weight.detach(), kind, rows) for kind in formats}
                found[f"{rows} × {width} × {TYPES}"] = _in_turn(products, arguments.rounds, 1)
                steps = {
                    kind: decoding(engine, batch=rows, length=LENGTH, types=TYPES, beam=None)
                    for kind, engine in engines.items()
                }
                found[f"step of {preset}, {rows} sentences"] = _in_turn(steps, arguments.rounds, OUTPUT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "settings": vars(arguments), "milliseconds": found}
    (FOLDER / "engines.json").write_text(json.dumps(report, indent=2))
    print("instructions:", ", ".join(report["machine"]["instructions"]))
    print(
        "bfloat16:",
        "in hardware" if bfloat16_in_hardware() else "emulated",
        "· kernels in C:",
        find().reason or "built",
    )
    for name, each in found.items():
        print(f"{name:28}", *(f"{kind} {milliseconds:9.3f} ms" for kind, milliseconds in each.items()))


def _product(weight: torch.Tensor, kind: str, rows: int) -> Callable[[], object]:
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    packed, x = PackedLinear(PackedMatrix(weight.to(dtype)), alone=True), torch.randn(rows, weight.shape[1]).to(dtype)
    return lambda: packed(x)


def _in_turn(calls: dict[str, Callable[[], object]], rounds: int, parts: int) -> dict[str, float]:
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds + 1):  # the first prepares kernels
        for kind, call in calls.items():
            began = time.thread_time()
            call()
            times[kind].append((time.thread_time() - began) / parts * 1e3)
    return {kind: statistics.median(each[1:]) for kind, each in times.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["small"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=15)
    return parser.parse_args()


if __name__ == "__main__":
    main()

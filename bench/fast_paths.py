"""Times decoding by each implementation: the reference, torch's fast path and the kernels in C.

    python bench/fast_paths.py [--presets small base] [--rows 1 64] [--rounds 5] [--copying]

All compute in float32 with one thread, in one process, in turn. Figures are milliseconds of the thread's own time for
each step, with reading of the source or the prompt; medians of rounds, the first of which is not counted. Ratios are
taken within a round.

A fast path is kept if it decodes at least 1.2 × as fast as the reference in at least one row in which no faster path
serves the model. Torch's path is the only one without a compiler, on a GPU and in bfloat16. Writes
runs/bench/fast-paths.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from environments import ROOT
from generate_speed import SIZES, greedy, in_turn
from generate_speed import model as language_model
from machine import machine
from work import OUTPUT, decoding, model

from regard.engine.language_model import FastLanguageModel
from regard.engine.native import NativeEncoderDecoder
from regard.engine.native_language_model import NativeLanguageModel
from regard.engine.transformer import FastEncoderDecoder
from regard.search.contract import chunked

TYPES, LENGTH, PROMPT, NEW = 8000, 16, 8, 64
Call = Callable[[], Any]


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    print("instructions:", ", ".join(machine()["instructions"]))
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for preset in arguments.presets:
            for batch in arguments.rows:
                for beam in (None, 5):
                    name = f"translation, {preset}, {batch} at a time, {'greedy' if beam is None else f'beam {beam}'}"
                    calls = _translation(preset, batch, beam, copying=arguments.copying)
                    rows.append(_measure(name, calls, arguments.rounds, OUTPUT))
                if arguments.copying:
                    continue
                rows.append(
                    _measure(
                        f"language model, {preset}, {batch} at a time, greedy",
                        _generation(preset, batch),
                        arguments.rounds,
                        NEW,
                    )
                )
    folder = ROOT / "runs" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "settings": vars(arguments), "rows": rows}
    (folder / "fast-paths.json").write_text(json.dumps(report, indent=2))


def _translation(preset: str, batch: int, beam: int | None, *, copying: bool) -> dict[str, Call]:
    whole = model(preset, TYPES, copying=copying).eval()
    parts: dict[str, Any] = {
        "encoder": whole.encoder, "decoder": whole.decoder, "projection": whole.head.weight, "bias": whole.head.bias,
        "copying": whole.copying,
    }  # fmt: skip
    reference: Any = SimpleNamespace(session=whole.session, chunked_step=chunked(whole.step))
    paths: dict[str, Any] = {
        "reference": reference,
        "torch": FastEncoderDecoder(**parts),
        "kernels": NativeEncoderDecoder(**parts),
    }
    return {name: decoding(path, batch=batch, length=LENGTH, types=TYPES, beam=beam) for name, path in paths.items()}


def _generation(preset: str, batch: int) -> dict[str, Call]:
    whole = language_model(*SIZES[preset])
    prompt = torch.randint(4, SIZES[preset][3], (batch, PROMPT))
    reference: Any = SimpleNamespace(start=whole.start, chunked_step=chunked(whole.step))
    paths: dict[str, Any] = {
        "reference": reference, "torch": FastLanguageModel(whole), "kernels": NativeLanguageModel(whole),
    }  # fmt: skip
    return {name: greedy(path, prompt, NEW) for name, path in paths.items()}


def _measure(name: str, calls: dict[str, Call], rounds: int, steps: int) -> dict[str, Any]:
    times, _ = in_turn(calls, rounds, steps)
    medians = {path: statistics.median(each) for path, each in times.items()}
    ratios = {
        path: statistics.median(a / b for a, b in zip(times["reference"], each, strict=True))
        for path, each in times.items()
    }
    figures = "   ".join(f"{path} {medians[path]:8.2f} ms ({ratios[path]:.2f} ×)" for path in calls)
    print(f"{name:48} {figures}", flush=True)
    return {"name": name, "milliseconds": medians, "times_reference": ratios}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["small", "base"], choices=list(SIZES))
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copying", action="store_true", help="only translation, by models that copy source tokens")
    return parser.parse_args()


if __name__ == "__main__":
    main()

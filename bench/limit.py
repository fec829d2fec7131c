"""How far from what the processor can do: an update, a batch being decoded, and a single sentence.

    scripts/bench limit

Of an update and of a batch: the time that its matrix products take when each shape runs alone, again and again, at its
best, over the time of the whole; products inside torch's fused attention are not counted. Of a single sentence: the
weights that a step reads, in bytes over the bandwidth at which so many are read again and again, over the time of the
step. Writes runs/bench/limit.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from environments import ROOT
from machine import machine
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from work import OUTPUT, decoding, fast, model, reading, update

from regard.engine.native import NativeEncoderDecoder
from regard.native.library import library
from regard.native.program import Program
from regard.native.runner import Runner

FOLDER = ROOT / "runs" / "bench"
TYPES, LENGTH, ROWS = 8000, 16, 64
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_linear_pointwise")
OVER_SOURCE = ("reader.attention.key", "reader.attention.value")  # products of the source alone
BEST_OF, WITHIN = 5, 0.05  # seconds
ENOUGH = 2.0  # seconds of timing the whole


class Shape(NamedTuple):
    """A product as it was called: its name, and what each argument was, without the numbers in it."""

    name: str
    arguments: tuple[str, ...]


class Products(TorchDispatchMode):
    """How often each product is called, and one call of each to repeat."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Shape] = Counter()
        self.again: dict[Shape, Callable[[], Any]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if function.overloadpacket.__name__ in PRODUCTS:
            shape = Shape(str(function), tuple(_described(each) for each in (*arguments, *options.values())))
            if shape not in self.again:
                copies = tree_map_only(Tensor, _copy, (arguments, options))
                self.again[shape] = lambda: function(*copies[0], **copies[1])
            self.calls[shape] += 1
        return function(*arguments, **options)


def _described(argument: Any) -> str:
    if not isinstance(argument, Tensor):
        return str(argument)
    return f"{argument.dtype} {tuple(argument.shape)} {argument.stride() if argument.layout == torch.strided else ''}"


def _copy(x: Tensor) -> Tensor:
    """The same numbers laid out the same way, at an address of their own; packed matrices as they are."""
    return x if x.layout != torch.strided else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    found = {}
    for preset in arguments.presets:
        made = model(preset, TYPES)
        for kind in arguments.kinds:
            engine = fast(made, kind)
            for beam in (None, 5):
                run = decoding(engine, batch=ROWS, length=LENGTH, types=TYPES, beam=beam)
                how = f"beam {beam}" if beam else "greedy"
                by_kernels = isinstance(engine, NativeEncoderDecoder)
                took = _of_kernels(run, made, kind, beam or 1) if by_kernels else _of_products(run)
                found[f"decode {preset} {kind}, {ROWS} sentences, {how}"] = took
            run = decoding(engine, batch=1, length=LENGTH, types=TYPES, beam=None)
            before = reading(engine, length=LENGTH, types=TYPES)
            found[f"decode {preset} {kind}, one sentence"] = _of_bandwidth(run, before, _step_bytes(made, kind))
    for kind in ("bfloat16", "float32"):
        made = model("small", TYPES).to(getattr(torch, kind))
        rows = arguments.batch_tokens // LENGTH
        run = update(made, batch=rows, length=LENGTH, types=TYPES, threads=arguments.threads)
        found[f"update small {kind}, {rows * LENGTH} tokens"] = _of_products(run)
    FOLDER.mkdir(parents=True, exist_ok=True)
    settings = vars(arguments)
    (FOLDER / "limit.json").write_text(
        json.dumps({"machine": machine(), "settings": settings, "found": found}, indent=2)
    )
    for name, each in found.items():
        print(f"{name:44}{each['seconds'] * 1e3:9.2f} ms, of which at the limit {each['limit'] * 1e3:8.2f}: "
              f"{each['limit'] / each['seconds']:.0%}")  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["small", "base"])
    parser.add_argument("--kinds", nargs="+", default=["bfloat16", "int8"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    return parser.parse_args()


def _of_products(run: Callable[[], None]) -> dict[str, Any]:
    """Seconds of the whole, and of its products at each shape's own best."""
    run()
    with Products() as products:
        run()
    seconds = _median(run)
    best = {shape: _best(again) for shape, again in products.again.items()}
    costly = sorted(best, key=lambda shape: -best[shape] * products.calls[shape])
    return {
        "seconds": seconds,
        "limit": sum(best[shape] * calls for shape, calls in products.calls.items()),
        "products": [[*shape, products.calls[shape], best[shape]] for shape in costly],
    }


def _of_kernels(run: Callable[[], None], of: Any, kind: Any, beam: int) -> dict[str, Any]:
    """The same of kernels in C, whose products no one sees: of the model's matrices, each alone at its best."""
    run()
    seconds, limit = _median(run), 0.0
    calls: Counter[tuple[int, int, int]] = Counter()
    encoder = {id(p) for p in of.encoder.parameters()}
    for name, p in [*of.encoder.named_parameters(), *of.decoder.named_parameters()]:
        if p.dim() == 2 and "embedding" not in name:
            read = id(p) in encoder or any(part in name for part in OVER_SOURCE)
            calls[(ROWS * LENGTH if read else ROWS * beam, *p.shape)] += 1 if read else OUTPUT
    calls[(ROWS * beam, *of.head.weight.shape)] += OUTPUT
    for (rows, outputs, inputs), number in calls.items():
        limit += number * _best(_product(kind, rows, outputs, inputs))
    return {"seconds": seconds, "limit": limit}


def _product(kind: Any, rows: int, outputs: int, inputs: int) -> Callable[[], Any]:
    kernels = library()
    assert kernels is not None
    program = Program(kernels, kind)
    x, out = program.allocate(inputs), program.allocate(outputs)
    program.product(x, out, torch.randn(outputs, inputs), None)
    runner = Runner(program, torch.get_num_threads())
    runner.prepare(rows)[:] = 1.0
    return lambda: runner.run(rows, 0)


def _of_bandwidth(run: Callable[[], None], before: Callable[[], None], weights: int) -> dict[str, Any]:
    """Seconds of a step of one sentence, the reading of its source left out, and of reading the step's weights."""
    run()
    before()
    bandwidth = _bandwidth(weights)
    seconds = (_median(run) - _median(before)) / OUTPUT
    return {"seconds": seconds, "limit": weights / bandwidth, "bytes": weights, "bandwidth": bandwidth}


def _step_bytes(of: Any, kind: str) -> int:
    """The weights that one step reads: the decoder's matrices, those over the source apart, and the output's."""
    once = ("embedding", *OVER_SOURCE)
    named = of.decoder.named_parameters()
    matrices = sum(p.numel() for name, p in named if p.dim() > 1 and not any(part in name for part in once))
    return (matrices + of.head.weight.numel()) * {"float32": 4, "bfloat16": 2, "int8": 1}[kind]


def _bandwidth(size: int) -> float:
    """Bytes a second at which so many are summed again and again, at its best: from memory or a cache."""
    many = torch.ones(size // 4)
    return size / _best(many.sum)


def _clock() -> float:
    """Seconds; of a single thread its own, so that other work on the machine counts less."""
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _best(call: Callable[[], Any]) -> float:
    """Seconds of one call, the best of several times many."""
    began, number = _clock(), 0
    while _clock() - began < WITHIN or number < 2:
        call()
        number += 1
    times = []
    for _ in range(BEST_OF):
        began = _clock()
        for _ in range(number):
            call()
        times.append((_clock() - began) / number)
    return min(times)


def _median(run: Callable[[], None]) -> float:
    times: list[float] = []
    while len(times) < 5 or sum(times) < ENOUGH:
        began = _clock()
        run()
        times.append(_clock() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()

"""The paths of ``regard.attention.kernel.attend`` on short sequences: milliseconds forward and backward.

    .venv/bin/python bench/attention_paths.py

Each row is one attention of preset `small` over 4,096 tokens: 4 heads of 64, as many sentences as fit. The paths are
timed in turn; each figure is the median. ``choose`` takes the softmax form up to ``SHORT`` keys.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from machine import machine

from regard.attention.kernel import Kernel, attend, kernel
from regard.attention.mask import Bound, Causal, Padding
from regard.attention.span import Span

PATHS: tuple[Kernel, ...] = ("reference", "softmax", "sdpa", "causal")
HEADS, WIDTH = 4, 64


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    about = machine()
    print(f"{about['processor']}, {arguments.threads} threads, {' '.join(about['instructions'])}; {about['written']}")
    print(f"{'':9}{'length':>7}", *(f"{path:>22}" for path in PATHS), " ms: forward + backward", sep="")
    for dtype in (torch.float32, torch.bfloat16):
        for length in arguments.lengths:
            times = _time(dtype, length, arguments.tokens, arguments.rounds)
            cells = (f"{forward:.1f} + {backward:.1f} = {forward + backward:.1f}" for forward, backward in times)
            print(f"{str(dtype).removeprefix('torch.'):9}{length:>7}", *(f"{cell:>22}" for cell in cells), sep="")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[8, 18, 32, 64, 128, 256, 512])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


def _time(dtype: torch.dtype, length: int, tokens: int, rounds: int) -> list[tuple[float, float]]:
    """Medians of every path, (forward, backward) in ms, for causal attention over padded sentences."""
    torch.manual_seed(1)
    sentences = max(tokens // length, 1)
    valid = torch.arange(length) < torch.randint(max(length // 2, 1), length + 1, (sentences, 1))
    span = Span.of(valid)
    inputs = [torch.randn(sentences, HEADS, length, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3)]
    upstream = torch.randn(sentences, HEADS, length, WIDTH, dtype=dtype)
    times: dict[Kernel, list[tuple[float, float]]] = {path: [] for path in PATHS}
    for _ in range(rounds + 1):
        for path in PATHS:
            times[path].append(_once(path, inputs, (Causal() & Padding()).bind(span, span), upstream))
    # The first round warms up.
    return [(_median(times[path], 0), _median(times[path], 1)) for path in PATHS]


def _once(path: Kernel, inputs: list[torch.Tensor], bound: Bound, upstream: torch.Tensor) -> tuple[float, float]:
    bound.dense()  # kept; every path but the causal one needs it
    started = time.perf_counter()
    with kernel(path):
        context, _ = attend(*inputs, bound)
    computed = time.perf_counter()
    torch.autograd.grad(context, inputs, upstream)
    return 1e3 * (computed - started), 1e3 * (time.perf_counter() - computed)


def _median(times: list[tuple[float, float]], part: int) -> float:
    return statistics.median(each[part] for each in times[1:])


if __name__ == "__main__":
    main()

"""A few rows times one matrix: packed by oneDNN, and as it stands. Microseconds a product.

    .venv/bin/python bench/one_row.py

The reason why ``regard.engine.packed`` multiplies a row that comes alone by the matrix as it stands. Each figure is the
shortest of many calls timed one by one, so that other work on the machine hardly counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from machine import machine

from regard.engine.packed import PackedLinear, PackedMatrix

NAMES = ("packed", "plain")
WITHIN = 1.0  # seconds of calls


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    about = machine()
    print(f"{about['processor']}, {arguments.threads} threads, {' '.join(about['instructions'])}; {about['written']}")
    print(f"{'rows':>5}", *(f"{name:>8}" for name in NAMES), f" µs: rows × {arguments.width} × {arguments.width}")
    for rows, times in measure(arguments.rows, arguments.width).items():
        print(f"{rows:>5}", *(f"{1e6 * seconds:>8.1f}" for seconds in times))


def measure(rows: list[int], width: int, within: float = WITHIN) -> dict[int, tuple[float, ...]]:
    """Seconds of a product in float32, for each number of rows, in the order of NAMES."""
    torch.manual_seed(1)
    matrix = PackedMatrix(torch.randn(width, width) / width**0.5)
    packed, plain = PackedLinear(matrix), matrix.weight.t()
    inputs = {number: torch.randn(number, width) for number in rows}
    return {
        number: (_shortest(lambda x=x: packed(x), within), _shortest(lambda x=x: x.mm(plain), within))
        for number, x in inputs.items()
    }


def _shortest(call: Callable[[], torch.Tensor], within: float) -> float:
    """Seconds of the quickest of all calls in that time."""
    best, end = float("inf"), time.perf_counter() + within
    while (began := time.perf_counter()) < end or best == float("inf"):
        call()
        best = min(best, time.perf_counter() - began)
    return best


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 16, 64])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Times draws of tokens, by the kernels and by torch in turn, beside a step of the model that they follow.

    python bench/draw_speed.py [--types 65 8000] [--rows 1 64] [--calls 60]

The model is ``small`` of ``generate_speed`` with so many types, in 8 bits, weights drawn: its scores are more even than
those of a trained one, which is the worst case for a nucleus. Milliseconds of one thread's own time, medians.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from generate_speed import model

from regard.inference.causal_decoding import causal_decoder
from regard.inference.prompt_decoding import SYMBOLS, PromptDecoding
from regard.inference.search_model import choice_of
from regard.native import passes
from regard.search.choice import Chooser, choose_tokens
from regard.search.draws import Draws
from regard.tasks.language_model.config import GenerateConfig

LIMITS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0}, "temperature": {"temperature": 0.8}, "top-k": {"top_k": 40}, "top-p": {"top_p": 0.9},
    "all": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
}  # fmt: skip
kernels = passes.library


def milliseconds(call: Callable[[], object], calls: int) -> float:
    times = []
    for _ in range(calls + 1):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return 1e3 * statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", nargs="+", type=int, default=[65, 8000])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--calls", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for types in given.types:
        engine = causal_decoder(model(6, 384, 6, types), "int8")
        for rows in given.rows:
            measure(engine, types, rows, given.calls)


def measure(engine: Any, types: int, rows: int, calls: int) -> None:
    decoding = PromptDecoding(engine, context=1024, types=types, device=torch.device("cpu"))
    texts = [random.choices(range(4, types), k=64) for _ in range(rows)]
    state = decoding.read(texts)
    log_p, states = state.following, [state._replace(following=None)]
    assert log_p is not None
    tokens = torch.tensor([text[-1:] for text in texts])

    def step() -> None:
        _, states[0] = decoding.step(tokens, states[0], lambda log_p, rows: (log_p,))

    results = [f"step {milliseconds(step, calls):.2f}"]
    for name, limits in LIMITS.items():
        choice, times = choice_of(GenerateConfig(**limits)), []
        choosers = [Chooser(choice, Draws(1, 0, text), text) for text in texts]
        for library in (lambda: None, kernels):
            passes.library = library
            choose = lambda: choose_tokens(log_p, choosers, SYMBOLS.suppressed)  # noqa: B023, E731
            times.append(milliseconds(choose, calls))
        results.append(f"{name} {times[0]:.2f} → {times[1]:.2f}")
    print(f"{types:6,} types, {rows:3} texts:", ", ".join(results), flush=True)


if __name__ == "__main__":
    main()

"""Multi-query associative recall (Arora et al. 2023, 2312.04927, §4): which mixer finds a value by its key.

    .venv/bin/python bench/recall.py [--mixers dense window …] [--updates 2000]

A row holds K pairs of a key and a value, then all of its keys again, in another order, each to be followed by its
value. Keys and values are drawn anew for each row from 64 each, so nothing is to be learned but to look. One small
language model a mixer: two layers of 64, four heads; trained on rows of 4 to 32 pairs, few before many. Accuracy is the
share of values that come first, on 256 fresh rows of each K. Chance among the values of the row, 1/K, is the baseline.
A window of 16 has to fail where the pair stands further away (``global-local`` in a language model is the same window
with sinks). Writes runs/bench/recall.json.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from environments import ROOT
from machine import machine
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.language_model import LanguageModel
from regard.models.transformer.build import language_model
from regard.training.optim import Optimizer, schedule

KINDS, WIDTH, ROWS, TESTED, RATE = 64, 64, 32, 256, 3e-3
PAIRS = (4, 8, 16, 32)
MIXERS: dict[str, dict[str, Any]] = {
    "dense": {"mixer": "dot", "position": "rotary"},
    "window": {"mixer": {"kind": "dot", "neighborhood": 16, "sinks": 1}, "position": "rotary"},
    "global-local": {"mixer": {"kind": "global-local", "radius": 16}, "position": "rotary"},
    "segment-memory": {"mixer": {"kind": "segment-memory", "segment": 16, "memory": 48}, "position": "rotary"},
    "compressive": {
        "mixer": {"kind": "compressive", "segment": 16, "memory": 16, "compressed": 16, "rate": 2},
        "position": "rotary",
    },
    "hashed": {"mixer": {"kind": "hashed", "rounds": 4, "buckets": 8, "chunk": 16}, "position": "rotary"},
    "linear": {"mixer": "linear", "position": "sinusoidal"},
    "mamba2": {"mixer": "mamba2", "position": "sinusoidal"},
    "average": {"mixer": "average", "position": "sinusoidal"},
    "ssru": {"mixer": "ssru", "position": "sinusoidal"},
}


def rows(pairs: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens (count, 4 · pairs), keys below ``KINDS`` and values above, and where a value is asked for."""
    keys = torch.rand(count, KINDS, generator=generator).argsort(1)[:, :pairs]
    values = KINDS + torch.randint(KINDS, (count, pairs), generator=generator)
    order = torch.rand(count, pairs, generator=generator).argsort(1)
    given = torch.stack([keys, values], 2).flatten(1)
    asked = torch.stack([keys.gather(1, order), values.gather(1, order)], 2).flatten(1)
    place = torch.zeros(count, 4 * pairs, dtype=torch.bool)
    place[:, 2 * pairs :: 2] = True
    return torch.cat([given, asked], 1), place


def model(config: dict[str, Any]) -> LanguageModel:
    """The language model of these settings, beside those that all share."""
    settings = {"layers": 2, "width": WIDTH, "heads": 4, "feed_forward": 2 * WIDTH, "init_std": None} | config
    table = embedding_matrix(2 * KINDS, WIDTH)
    return language_model(CausalStackConfig.model_validate(settings), TokenInput(table), Head(table, None))


def logits(network: LanguageModel, tokens: Tensor, place: Tensor) -> Tensor:
    features = network(tokens, Span.without_padding(tokens)).features
    found: Tensor = features[place] @ network.head.weight.T
    return found


def trained(config: dict[str, Any], updates: int, seed: int) -> LanguageModel:
    """Train with Muon; rows of at most 8 pairs in the first third of the updates."""
    torch.manual_seed(seed)
    network, draw = model(config), torch.Generator().manual_seed(seed)
    optimizer = Optimizer(network, kind="muon", clip_norm=1.0)
    rate = schedule("linear", learning_rate=RATE, warmup=50, last_step=updates)
    for step in range(1, updates + 1):
        most = 2 if step < updates / 3 else len(PAIRS)
        pairs = PAIRS[int(torch.randint(most, (), generator=draw))]
        tokens, place = rows(pairs, max(ROWS * 8 // pairs, 8), draw)
        loss = cross_entropy(logits(network, tokens, place), tokens[:, 1:][place[:, :-1]])
        loss.backward()
        optimizer.step(rate(step))
    return network.eval()


@torch.no_grad()
def accuracy(network: LanguageModel, pairs: int) -> float:
    tokens, place = rows(pairs, TESTED, torch.Generator().manual_seed(10**6 + pairs))
    right = logits(network, tokens, place).argmax(1) == tokens[:, 1:][place[:, :-1]]
    return float(right.double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=list(MIXERS))
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    about = machine()
    print(f"{about['processor']}; {about['written']}; accuracy in % by number of pairs, seed {arguments.seed}")
    print(f"{'':>14}{''.join(f'{pairs:>8}' for pairs in PAIRS)}   seconds")
    print(f"{'1/K':>14}{''.join(f'{100 / pairs:>8.1f}' for pairs in PAIRS)}")
    found = {}
    for name in arguments.mixers:
        began = time.process_time()
        network = trained(MIXERS[name], arguments.updates, arguments.seed)
        took = time.process_time() - began
        found[name] = {str(pairs): accuracy(network, pairs) for pairs in PAIRS}
        print(f"{name:>14}{''.join(f'{100 * each:>8.1f}' for each in found[name].values())}{took:>10.0f}", flush=True)
    path = ROOT / "runs" / "bench" / "recall.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": about, "updates": arguments.updates, "accuracy": found}, indent=2))


if __name__ == "__main__":
    main()

"""ListOps learned: which mixer beats the rules of ``listops.py``, and how far one reaches at full length.

    .venv/bin/python bench/listops.py --write data/listops-tiny --lengths 4 100 --counts 200000 1000 2000
    .venv/bin/python bench/listops.py --write data/listops-short --lengths 100 200 --counts 12000 1000 2000
    .venv/bin/python bench/listops_train.py data/listops-tiny data/listops-short --updates 600 400
    .venv/bin/python bench/listops_train.py … data/listops --updates … --mixers dense --layers 6 --save runs/listops

Folders are stages, one after the other, each with so many updates; a model is tested on the last one. Each operator in
brackets is an expression of its own, and has an answer: by default a model is told all of them, at the closing
bracket, which a causal one has read to its end; the last is that of the line. ``--answers last`` tells that one alone.
Muon, a rate that rises and falls in each stage, bfloat16 where the processor has it, batches of lines of like length.
Prints accuracy on the validation part as it goes and the test part at the end. Writes runs/bench/listops.json.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from environments import ROOT
from listops import OPERATORS, SPLITS, TYPES
from machine import machine
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.core.processor import bfloat16_in_hardware
from regard.models.build import ARCHITECTURES
from regard.models.causal_config import CausalStackConfig
from regard.models.classifier_config import ClassifierModelConfig
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.transformer.build import language_model
from regard.training.optim import Optimizer, schedule

TESTED = 8000  # tokens of a batch that is tested
ENCODERS: dict[str, dict[str, Any]] = {
    "dense": {"mixer": "dot", "position": "rotary"},
    "window": {"mixer": {"kind": "dot", "neighborhood": 16}, "position": "rotary"},
    "global-local": {"mixer": {"kind": "global-local", "radius": 16}, "position": "rotary"},
    "hashed": {"mixer": {"kind": "hashed", "rounds": 4, "buckets": 8, "chunk": 32}, "position": "rotary"},
    "linear": {"mixer": "linear", "position": "sinusoidal"},
    "average": {"mixer": "average", "position": "sinusoidal"},
    "ssru": {"mixer": "ssru", "position": "sinusoidal"},
}
CAUSAL: dict[str, dict[str, Any]] = {
    "dense, causal": {"mixer": "dot", "position": "rotary"},
    "linear, causal": {"mixer": "linear", "position": "sinusoidal"},
    "mamba2": {"mixer": "mamba2", "position": "sinusoidal"},
    "segment-memory": {"mixer": {"kind": "segment-memory", "segment": 32, "memory": 32}, "position": "rotary"},
    "compressive": {
        "mixer": {"kind": "compressive", "segment": 32, "memory": 32, "compressed": 16, "rate": 4},
        "position": "rotary",
    },
}
MIXERS = [*ENCODERS, *CAUSAL]


Line = tuple[str, int]  # a text, split where it is needed, and its answer


def answers(tokens: list[str]) -> list[int]:
    """Answers of all expressions of a line, each at its closing bracket (or the lone digit); elsewhere −1."""
    open_: list[tuple[str, list[int]]] = []
    found = []
    for token in tokens:
        answer = -1
        if token in OPERATORS:
            open_.append((token, []))
        elif token == "]":
            name, values = open_.pop()
            answer = OPERATORS[name](values)
        if open_ and token not in OPERATORS:
            open_[-1][1].append(answer if token == "]" else int(token))
        found.append(answer)
    return found if len(found) > 1 else [int(tokens[0])]


def lines(path: Path) -> list[Line]:
    pairs = (line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8"))
    return [(text, int(label)) for text, label in pairs]


def length(line: Line) -> int:
    return line[0].count(" ") + 1


def batches(every: list[Line], tokens: int, draw: random.Random) -> Iterator[list[Line]]:
    """Batches of about so many tokens, of lines of like length, in a drawn order, for ever."""
    cut: list[list[Line]] = [[]]
    for line in sorted(every, key=length):
        if cut[-1] and length(line) * (len(cut[-1]) + 1) > tokens:
            cut.append([])
        cut[-1].append(line)
    while True:
        draw.shuffle(cut)
        yield from cut


def tensors(chosen: list[Line], last: bool) -> tuple[Tensor, Tensor]:
    """Tokens and answers (rows, length), −1 where none is asked for; only the answer of each line where ``last``."""
    shape = (len(chosen), max(map(length, chosen)))
    rows, asked = torch.zeros(shape, dtype=torch.long), torch.full(shape, -1)
    for row, (text, label) in enumerate(chosen):
        tokens = text.split(" ")
        rows[row, : len(tokens)] = torch.tensor([TYPES[each] for each in tokens])
        if not last:
            asked[row, : len(tokens)] = torch.tensor(answers(tokens))
        asked[row, len(tokens) - 1] = label
    return rows, asked


class Answerer(nn.Module):
    """States of an encoder, or of a causal stack, and ten logits of each column."""

    def __init__(self, name: str, sizes: dict[str, Any]) -> None:
        super().__init__()
        embedding = embedding_matrix(len(TYPES), sizes["width"])
        self.encoder = self.causal = None
        if name in ENCODERS:
            config = ClassifierModelConfig.model_validate({"encoder": sizes | ENCODERS[name]}).encoder
            self.encoder = ARCHITECTURES[config.kind].encoder(config, TokenInput(embedding))
        else:
            settings = CausalStackConfig.model_validate(sizes | {"init_std": None} | CAUSAL[name])
            self.causal = language_model(settings, TokenInput(embedding), Head(embedding, None))
        self.output = nn.Linear(sizes["width"], 10)

    def forward(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Logits (asked columns, 10)."""
        if self.causal:
            states = self.causal(tokens, Span.without_padding(tokens)).features
        else:
            states = self.encoder(tokens, Span.of(tokens > 0)).states  # type: ignore[misc]
        found: Tensor = self.output(states[asked]).float()
        return found


@torch.no_grad()
def accuracy(network: Answerer, every: list[Line]) -> float:
    """Share of the lines whose own answer is right."""
    right, seen = 0, 0
    source = batches(every, TESTED, random.Random(0))
    network.eval()
    while seen < len(every):
        tokens, wanted = tensors(next(source), last=True)
        asked = wanted >= 0
        right += int((network(tokens, asked).argmax(1) == wanted[asked]).sum())
        seen += len(tokens)
    return right / len(every)


def stage(network: Answerer, folder: Path, updates: int, given: argparse.Namespace, say: str) -> None:
    """Train on one folder, and print the learning curve on its validation part."""
    train, valid = (lines(folder / f"{split}.tsv") for split in SPLITS[:2])
    source = batches(train, given.tokens, random.Random(given.seed))
    optimizer = Optimizer(network, kind="muon", clip_norm=1.0)
    rate = schedule("linear", learning_rate=given.rate, warmup=100, last_step=updates)
    began, sums = time.monotonic(), 0.0
    for step in range(1, updates + 1):
        tokens, wanted = tensors(next(source), given.answers == "last")
        asked = wanted >= 0
        logits = network.train()(tokens, asked)
        last = asked & (asked.flip(1).cumsum(1).flip(1) == 1)
        loss = cross_entropy(logits, wanted[asked])
        if given.answers == "every":  # the line's own answer is one of many
            loss = loss + 0.5 * cross_entropy(logits[last[asked]], wanted[last])
        loss.backward()
        optimizer.step(rate(step))
        sums += loss.item()
        if step % max(updates // given.reports, 1) == 0:
            shown = f"loss {sums / max(updates // given.reports, 1):6.3f} {accuracy(network, valid[:500]):6.1%} valid"
            print(f"{say:>16} {folder.name} {step:>6} {shown} {time.monotonic() - began:6.0f} s", flush=True)
            sums = 0.0
            if given.save:
                given.save.mkdir(parents=True, exist_ok=True)
                save_file(network.state_dict(), given.save / f"{say}.safetensors")


def trained(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Accuracy on the test part of the last folder, of the lines and by the operator outermost; seconds."""
    torch.manual_seed(given.seed)
    sizes = {"layers": given.layers, "width": given.width, "heads": 4, "feed_forward": 2 * given.width}
    network = Answerer(name, sizes | {"norm": "pre", "dropout": 0.0})
    network.to(torch.bfloat16 if bfloat16_in_hardware() else torch.float32)
    if given.start:
        network.load_state_dict(load_file(given.start / f"{name}.safetensors"))
    began = time.process_time()
    for folder, updates in zip(given.folders, given.updates, strict=True):
        stage(network, folder, updates, given, name)
    took = time.process_time() - began
    test = lines(given.folders[-1] / "test.tsv")
    found = {"all": accuracy(network, test)}
    for operator in OPERATORS:
        found[operator] = accuracy(network, [line for line in test if line[0].startswith(f"{operator} ")])
    shown = ", ".join(f"{operator[1:]} {found[operator]:.1%}" for operator in OPERATORS)
    print(f"{name:>16} test {found['all']:6.1%} ({shown}), {took:.0f} s", flush=True)
    return found | {"seconds": took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--updates", type=int, nargs="+", required=True)
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=MIXERS)
    parser.add_argument("--answers", choices=("every", "last"), default="every")
    parser.add_argument("--tokens", type=int, default=8000, help="of an update")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--reports", type=int, default=4, help="lines of a learning curve, of each stage")
    parser.add_argument("--save", type=Path, help="folder of weights, by mixer")
    parser.add_argument("--start", type=Path, help="folder of weights to begin with")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    about = machine()
    print(f"{about['processor']}; {about['written']}; seed {arguments.seed}")
    found = {name: trained(name, arguments) for name in arguments.mixers}
    path = ROOT / "runs" / "bench" / "listops.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": about, "updates": arguments.updates, "accuracy": found}, indent=2))


if __name__ == "__main__":
    main()

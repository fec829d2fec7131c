"""Training speed of a small language model against a GPT in plain torch and nanoGPT's loop, alternately in one run.

    .venv/bin/python bench/nanogpt_speed.py TEXT [--shape cpu|gpu] [--batch 12] [--rounds 12] [--forms auto 1 2 ...]

TEXT is plain or ``.gz``: tiny Shakespeare, in characters. Shape ``cpu``: 4 layers of 128, 4 heads, context 64, 12
windows an update, no dropout; ``gpu``: 6 layers of 384, 6 heads, context 256, 8 windows, dropout 0.2. Both sides have
the same parameters; that they compute the same is checked first, with the same weights and batches. Ours is ``Trainer``
as it is, which finds and collates its windows and writes its metrics within the time, in as many shards as a run would
choose (``auto``), as many as said by one worker, or with an optimizer (``muon``). A turn is a block of updates.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from alternate import BENCH, Turn, alternate, quartiles
from environments import ROOT
from machine import machine
from peers.nanogpt import GPT
from peers.nanogpt import optimizer as peer_optimizer

from regard.core.task import Batch
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.automatic_training import two_workers
from regard.training.optim import make_optimizer
from regard.training.setup import TrainingInputs, set_up
from regard.training.strategy import Trainable

FOLDER = ROOT / "runs" / "bench" / "nanogpt-speed"
SHAPES: dict[str, dict[str, Any]] = {
    "cpu": {"layers": 4, "width": 128, "heads": 4, "feed_forward": 512, "context": 64, "batch": 12, "dropout": 0.0,
            "block": 25},
    "gpu": {"layers": 6, "width": 384, "heads": 6, "feed_forward": 1536, "context": 256, "batch": 8, "dropout": 0.2,
            "block": 2},
}  # fmt: skip
TRAINING = {"rate": 1e-3, "betas": [0.9, 0.99], "epsilon": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}
# Nats a token by which the losses of equal models may differ, by what ours computes in; the peer's check is in float32.
ALIKE = {"float32": 2e-4, "bfloat16": 1e-2}
CHECKED = 3  # updates


def config_of(text: Path, shape: dict[str, Any], threads: int, chosen: dict[str, Any]) -> dict[str, Any]:
    model = {key: shape[key] for key in ("layers", "width", "heads", "feed_forward", "dropout")}
    model |= {"attention_dropout": shape["dropout"], "position": "learned", "attention_bias": True}
    never = 10**9
    return {
        "task": {"kind": "language-model"},
        "data": {"train": [{"source": str(text)}], "tokenizer": {"kind": "character"}, "context": shape["context"]},
        "model": model,
        "train": {
            "optimizer": "adamw", "learning_rate": TRAINING["rate"], "schedule": "constant", "warmup": 1,
            "betas": TRAINING["betas"], "epsilon": TRAINING["epsilon"], "weight_decay": TRAINING["weight_decay"],
            "clip_norm": TRAINING["clip_norm"], "batch_tokens": shape["context"] * shape["batch"], "steps": never,
            "validate_every": never, "save_every": never, "threads": threads, **chosen,
        },
    }  # fmt: skip


def check(ready: TrainingInputs, run: RunFolder, settings: dict[str, Any]) -> list[tuple[float, float]]:
    """Losses of both with the same weights over the same batches, an update after each. Ends the program if unlike."""
    peer = GPT(settings | {"dropout": 0.0}, scale=settings["width"] ** 0.5)
    copy_weights(ready.net, peer)
    plain = run.config.train.model_copy(update={"weight_decay": 0.0, "optimizer": "adamw"})
    ours, trainable = make_optimizer(ready.net, plain), Trainable(ready.net.eval(), run.task.objective(run.config))
    theirs = peer_optimizer(peer.eval(), settings | {"weight_decay": 0.0})
    losses = []
    for indices in ready.data.train.batches(0)[:CHECKED]:
        batch: Any = ready.data.train.collate(indices)
        losses.append((_ours(trainable, ours, batch), _theirs(peer, theirs, batch)))
    plan = run.read_plan()
    assert plan is not None
    if max(abs(one - other) for one, other in losses) > ALIKE[plan.precision]:
        sys.exit(f"the two do not compute the same: {losses}")
    return losses


def _ours(trainable: Trainable, optimizer: Any, batch: Batch) -> float:
    mean = trainable(batch).minimized / batch.weight
    mean.backward()
    optimizer.step(TRAINING["rate"])
    return float(mean.detach())


def _theirs(peer: GPT, optimizer: torch.optim.Optimizer, batch: Any) -> float:
    loss = peer(batch.input, batch.target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(peer.parameters(), TRAINING["clip_norm"])
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())


@torch.no_grad()
def copy_weights(net: Any, peer: GPT) -> None:
    """Our weights into the peer's modules."""
    pairs = [(net.embedding.weight, peer.tokens.weight), (net.embedding.position.table, peer.positions.weight)]
    parts = [(net.norm, peer.norm)]
    for ours, theirs in zip(net.layers, peer.blocks, strict=True):
        heads = ours.mixer.attention
        inputs = (heads.query, heads.key, heads.value)
        pairs += [(torch.cat([one.weight for one in inputs]), theirs.attention.qkv.weight),
                  (torch.cat([one.bias for one in inputs]), theirs.attention.qkv.bias)]  # fmt: skip
        parts += [(ours.around_mixer.norm, theirs.norm_1), (ours.around_feed_forward.norm, theirs.norm_2),
                  (heads.output, theirs.attention.output), (ours.feed_forward.up, theirs.up),
                  (ours.feed_forward.down, theirs.down)]  # fmt: skip
    pairs += [pair for one, other in parts for pair in ((one.weight, other.weight), (one.bias, other.bias))]
    for source, target in pairs:
        target.copy_(source)


def form(text: Path, shape: dict[str, Any], threads: int, name: str) -> RunFolder:
    """A run in the form of that name: ``auto``, a number of shards, or an optimizer."""
    usual = two_workers({"threads": threads})
    chosen = {"auto": usual, "muon": {"optimizer": "muon", **usual}}.get(name)
    if chosen is None:
        chosen = {"shards": int(name), "workers": 1}
    return RunFolder.create(FOLDER / f"ours-{name}", load_config(config_of(text, shape, threads, chosen)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="cpu")
    parser.add_argument("--batch", type=int, help="windows an update")
    parser.add_argument("--block", type=int, help="updates a turn")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forms", nargs="+", default=["auto"], help="auto, numbers of shards, muon")
    parser.add_argument("--precisions", nargs="*", default=["float32", "bfloat16"], help="of the peer")
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    shape = SHAPES[given.shape] | {key: getattr(given, key) for key in ("batch", "block") if getattr(given, key)}
    shutil.rmtree(FOLDER, ignore_errors=True)
    runs = {name: form(given.text.absolute(), shape, given.threads, name) for name in given.forms}
    ready = {name: set_up(run, log=print) for name, run in runs.items()}
    first = given.forms[0]
    settings = shape | TRAINING | {
        "types": ready[first].data.spec["types"], "threads": given.threads, "bias": True,
        "tokens": str(runs[first].data / "train-0" / "tokens"),
    }  # fmt: skip
    (FOLDER / "settings.json").write_text(json.dumps(settings))
    losses = check(ready[first], runs[first], settings)
    print("equal weights, equal batches:", ", ".join(f"{one:.5f} and {other:.5f}" for one, other in losses))
    commands: dict[str, list[str | Path]] = {
        f"regard {name}": [sys.executable, BENCH / "ours_train.py", run.path, str(shape["block"])]
        for name, run in runs.items()
    }
    for precision in given.precisions:
        worker = BENCH / "peers" / "nanogpt.py"
        commands[f"plain torch {precision}"] = [sys.executable, worker, FOLDER / "settings.json", precision]
    hello, turns = alternate(commands, rounds=given.rounds, warm_up=given.warm_up, threads=given.threads)
    if len({said["parameters"] for said in hello.values()}) > 1:
        sys.exit(f"the models differ: {hello}")
    result = {"machine": machine(), "shape": shape, "training": TRAINING, "losses": losses, "workers": {}}
    report(result, hello, {name: each[given.warm_up :] for name, each in turns.items()})
    (FOLDER.with_suffix(f".{given.shape}.json")).write_text(json.dumps(result, indent=2))


def report(result: dict[str, Any], hello: dict[str, dict[str, Any]], turns: dict[str, list[Turn]]) -> None:
    """Print the table, and put it into ``result``; ratios within a round."""
    about, shape = result["machine"], result["shape"]
    print(f"\n{about['processor']}, {about['cores']} cores, {' '.join(about['instructions'])}; {about['written']}")
    print(", ".join(f"{key} {value}" for key, value in shape.items()))
    speeds = {name: [one.answer["tokens"] / one.seconds for one in each] for name, each in turns.items()}
    peers = [name for name in speeds if name.startswith("plain")]
    columns = "".join(f"{f'against {name.split()[-1]}':>26}" for name in peers)
    print(f"{'':24}{'parameters':>11}{'tokens/s':>26}{columns}  loss")
    for name, each in speeds.items():
        ratios = {
            peer: quartiles([one / other for one, other in zip(each, speeds[peer], strict=True)]) for peer in peers
        }
        worker = hello[name] | {"tokens_per_second": quartiles(each), "times_as_fast_as": ratios}
        result["workers"][name] = worker
        shown = "".join(f"{_shown(found, '.2f'):>26}" for found in ratios.values())
        speed, loss = _shown(worker["tokens_per_second"], ",.0f"), turns[name][-1].answer["loss"]
        print(f"{name:24}{worker['parameters']:>11,}{speed:>26}{shown}  {loss:.2f}")


def _shown(found: dict[str, float], how: str) -> str:
    return f"{found['median']:{how}} [{found['low']:{how}} {found['high']:{how}}]"


if __name__ == "__main__":
    main()

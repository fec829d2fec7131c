"""Training speed against MarianMTModel (transformers) and Joey NMT of the same shape, alternately in one run.

    REGARD_DATA=folder-with-multi30k .venv/bin/python bench/train_speed.py

Every worker makes the same updates over the same batches in the same order, one after the other while the rest
sleep: batch, forward, backward, Adam. Ours is ``Trainer`` as it is, which reads and pads its batches
and writes its metrics within the time; the others find their batches in memory. Only target tokens that are no
padding count. Ours runs in each number format as one worker with all threads and as one worker a thread. Writes
runs/bench/train-speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alternate import BENCH, Turn, alternate, quartiles
from environments import ROOT, peer_python
from instructions import LEVELS, limited, proof
from machine import machine

from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.runs.config import dump_config, load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.config import TranslationConfig
from regard.training.setup import TrainingInputs, set_up

FOLDER = ROOT / "runs" / "bench"
PRECISIONS = ("float32", "bfloat16")
ATTENTION = ("sdpa", "eager")  # of MarianMTModel; the first is its default


def main() -> None:
    arguments = _arguments()
    limited(arguments.instructions)
    prepared = FOLDER / "train-speed"
    shutil.rmtree(prepared, ignore_errors=True)
    config = _config(arguments)
    run = RunFolder.create(prepared / "auto", config)
    ready = set_up(run, log=print)
    plan = run.read_plan()
    assert plan is not None
    updates = arguments.warm_up + arguments.rounds
    _write_batches(prepared / "batches.npz", ready, config, updates)
    _write_settings(prepared / "settings.json", ready, config)
    commands: dict[str, list[str | Path]] = {
        _ours(precision, workers): [sys.executable, BENCH / "ours_train.py", _planned(run, precision, workers)]
        for precision, workers in product(arguments.precisions, sorted({1, arguments.threads}))
    }
    given = [prepared / "settings.json", prepared / "batches.npz"]
    if "marian" in arguments.peers:
        peer = BENCH / "peers" / "marian_transformers.py"
        python = peer_python("marian", peer.with_suffix(".txt"))
        for attention, precision in product(ATTENTION[: arguments.peer_forms], arguments.precisions):
            commands[f"marian {precision} {attention}"] = [python, peer, *given, precision, attention]
    if "joeynmt" in arguments.peers:
        peer = BENCH / "peers" / "joeynmt_train.py"
        python = peer_python("joeynmt", peer.with_suffix(".txt"))
        for precision in arguments.precisions:
            commands[f"joeynmt {precision}"] = [python, peer, *given, precision]
    hello, turns = alternate(commands, rounds=arguments.rounds, warm_up=arguments.warm_up, threads=arguments.threads)
    _check(hello, turns, config)
    usual = plan.precision if plan.precision in arguments.precisions else arguments.precisions[0]
    result = _result(hello, turns, arguments.warm_up, _ours(usual, config.train.workers))
    result |= {"instructions": proof()}
    result |= {"machine": machine(), "config": config.model_dump(mode="json", include={"model", "train"})}
    (FOLDER / "train-speed.json").write_text(json.dumps(result, indent=2))
    _print(result)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="small")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--types", type=int, default=8000, help="size of the joint vocabulary")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10, help="timed updates of each")
    parser.add_argument("--warm-up", type=int, default=2, help="updates of each before")
    parser.add_argument("--peers", nargs="+", choices=("marian", "joeynmt"), default=["marian", "joeynmt"])
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS)
    parser.add_argument("--instructions", choices=LEVELS, default="all", help="avx2: no AVX-512 and no AMX for anyone")
    parser.add_argument("--peer-forms", type=int, choices=(1, 2), default=2, help="1: Marian's default attention alone")
    return parser.parse_args()


def _config(arguments: argparse.Namespace) -> TranslationConfig:
    folder = Path(os.environ.get("REGARD_DATA", "")) / "multi30k"
    corpus = {"source": str(folder / "train.en.gz"), "target": str(folder / "train.de.gz")}
    if "REGARD_DATA" not in os.environ or not Path(corpus["source"]).is_file():
        sys.exit("REGARD_DATA must name a folder that holds multi30k/train.en.gz and train.de.gz")
    train = {
        "batch_tokens": arguments.batch_tokens,
        "threads": arguments.threads,
        "label_smoothing": 0.1,
        # A short climb, so that a dozen updates show that both learn.
        "schedule": "constant",
        "learning_rate": 5e-4,
        "warmup": 5,
        "validate_every": 10**9,
        "save_every": 10**9,
    }
    if len(arguments.precisions) == 1:  # nothing to choose, and without AVX-512 bfloat16 would take minutes to time
        train["precision"] = arguments.precisions[0]
    data = {"train": [corpus], "tokenizer": {"kind": "bpe", "size": arguments.types}}
    return load_config({"model": {"preset": arguments.preset}, "data": data, "train": train})


def _ours(precision: str, workers: int) -> str:
    return f"regard {precision} × {workers}"


def _planned(run: RunFolder, precision: str, workers: int) -> Path:
    """A copy of the run that computes in this number format, by so many workers."""
    folder = run.path.with_name(f"{precision}-{workers}")
    shutil.copytree(run.path, folder)
    plan = run.read_plan()
    assert plan is not None
    train = run.config.train.model_copy(update={"workers": workers, "shards": workers})
    (folder / "config.toml").write_text(dump_config(run.config.model_copy(update={"train": train})))
    threads = max(plan.threads * run.config.train.workers // workers, 1)
    changes = {"precision": precision, "shards": workers, "threads": threads}
    RunFolder.open(folder).write_plan(plan.model_copy(update=changes))
    return folder


def _write_batches(path: Path, ready: TrainingInputs, config: TranslationConfig, updates: int) -> None:
    """The batches of the trainer's first epoch, in its order."""
    examples = ready.data.train
    order = examples.batches(0)
    if updates > len(order):
        sys.exit(f"an epoch has {len(order)} batches: ask for fewer than {updates} rounds")
    arrays = {
        f"{number}.{name}": tensor.numpy()
        for number, indices in enumerate(order[:updates])
        for name, tensor in examples.collate(indices)._asdict().items()
        if isinstance(tensor, torch.Tensor)
    }
    np.savez(path, **arrays)


def _write_settings(path: Path, ready: TrainingInputs, config: TranslationConfig) -> None:
    special = {"pad": PAD, "unknown": UNKNOWN, "begin": BEGIN, "end": END}
    settings = config.model_dump(mode="json", include={"train"}) | {"model": sizes(config)}
    settings |= {"types": ready.data.spec["target_types"], "special": special, "threads": config.train.threads}
    path.write_text(json.dumps(settings))


def sizes(config: TranslationConfig) -> dict[str, Any]:
    """Sizes of a model of which both sides are alike but for their number of layers."""
    sides = config.model.model_dump(mode="json", include={"encoder", "decoder"})
    encoder, decoder = sides["encoder"], sides["decoder"]
    alike = {key: encoder[key] for key in ("width", "feed_forward", "heads", "dropout", "attention_bias")}
    if any(decoder[key] != value for key, value in alike.items()):
        sys.exit("the two sides differ in more than their layers, which the peers know no settings for")
    return alike | {"encoder_layers": encoder["layers"], "decoder_layers": decoder["layers"]}


def _check(hello: dict[str, dict[str, Any]], turns: dict[str, list[Turn]], config: TranslationConfig) -> None:
    """The comparison is one of like with like, or there is none."""
    model = sizes(config)
    tokens = {name: [turn.answer["tokens"] for turn in each] for name, each in turns.items()}
    if len({tuple(each) for each in tokens.values()}) > 1:
        sys.exit(f"the workers saw different batches: {tokens}")
    # The peers' four projections of an attention have biases, the paper's have none; all else must be equal.
    biases = 0
    if not model["attention_bias"]:
        biases = 4 * model["width"] * (model["encoder_layers"] + 2 * model["decoder_layers"])
    ours = next(said["parameters"] for name, said in hello.items() if name.startswith("regard"))
    for name, said in hello.items():
        expected = ours + (0 if name.startswith("regard") else biases)
        if said["parameters"] != expected:
            sys.exit(f"{name} has {said['parameters']:,} parameters, not {expected:,}")
    for name, each in turns.items():
        first, last = each[0].answer["loss"], each[-1].answer["loss"]
        if not last < first:
            sys.exit(f"{name} does not learn: the loss goes from {first:.3f} to {last:.3f}")
    if len({said["torch"].partition("+")[0] for said in hello.values()}) > 1:
        sys.exit("the workers run different versions of torch")


def _result(hello: dict[str, dict[str, Any]], turns: dict[str, list[Turn]], warm_up: int, auto: str) -> dict[str, Any]:
    timed = {name: each[warm_up:] for name, each in turns.items()}
    ours = timed[auto]
    workers = {}
    for name, each in timed.items():
        speeds = [turn.answer["tokens"] / turn.seconds for turn in each]
        # Over the same batch in the same round, so that long and short batches do not mix.
        ratios = [theirs.seconds / our.seconds for theirs, our in zip(each, ours, strict=True)]
        workers[name] = hello[name] | {
            "tokens_per_second": quartiles(speeds),
            "regard_is_faster_by": quartiles(ratios),
            "by_processor_time": quartiles([theirs.cpu / our.cpu for theirs, our in zip(each, ours, strict=True)]),
            "seconds": [turn.seconds for turn in each],
            "loss": [turn.answer["loss"] for turn in turns[name]],
        }
    peers = [name for name in workers if not name.startswith("regard")]
    best = max(peers, key=lambda name: workers[name]["tokens_per_second"]["median"])
    tokens = [turn.answer["tokens"] for turn in ours]
    return {"auto": auto, "best_peer": best, "target_tokens": tokens, "workers": workers}


def _print(result: dict[str, Any]) -> None:
    about, tokens = result["machine"], result["target_tokens"]
    threads, instructions = result["config"]["train"]["threads"], " ".join(about["instructions"])
    print(f"\n{about['processor']}, {threads} threads of {about['cores']} cores, {instructions}; {about['written']}")
    print(*result["instructions"], sep="\n")
    print(f"{len(tokens)} updates of {sum(tokens) / len(tokens):,.0f} target tokens; medians, quartiles in brackets")
    print(f"{'':24}{'parameters':>11}  {'target tokens/s':>22}  {'regard is faster by':>20}   cpu  loss, peak memory")
    for name, worker in result["workers"].items():
        speed, ratio = worker["tokens_per_second"], worker["regard_is_faster_by"]
        speeds = f"{speed['median']:,.0f} [{speed['low']:,.0f} {speed['high']:,.0f}]"
        ratios = f"{ratio['median']:.2f} [{ratio['low']:.2f} {ratio['high']:.2f}]"
        used = worker["by_processor_time"]["median"]
        losses = f"{worker['loss'][0]:.2f} → {worker['loss'][-1]:.2f}"
        rest = f"{used:5.2f}  {losses}  {worker['peak_mib']:,.0f} MiB"
        print(f"{name:24}{worker['parameters']:>11,}  {speeds:>22}  {ratios:>20} {rest}")
    best = result["best_peer"]
    ratio = result["workers"][best]["regard_is_faster_by"]["median"]
    print(
        f"{result['auto']}, which a run would choose, trains {ratio:.2f} × as fast as {best}, the fastest of the peers"
    )


if __name__ == "__main__":
    main()

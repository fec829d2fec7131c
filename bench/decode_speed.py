"""Decoding speed against CTranslate2, with the same weights and the same pieces, alternately in one run.

    .venv/bin/python bench/decode_speed.py --preset base                    # untrained, 16 pieces in and out
    .venv/bin/python bench/decode_speed.py --run runs/m30k --source test.en  # a trained model, its real text

Both sides get numbers of pieces and give numbers of pieces: cutting and joining text are within nobody's time. Each
is measured in two layouts of the threads, one worker with all and one worker a thread, and the better one counts.
``--generate`` adds transformers' ``generate`` on a model of the same shape, one process with all threads.
Writes runs/bench/decode-speed.json.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from alternate import BENCH, Turn, alternate, quartiles
from environments import ROOT, peer_python
from instructions import LEVELS, limited, proof
from machine import machine
from safetensors.torch import save_file

from regard.data.text_files import read_lines
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.codecs import open_codecs
from regard.tasks.translation.config import translation_config

FOLDER = ROOT / "runs" / "bench"
FIXED = 16  # pieces a source and an output, where there is no text


def main() -> None:
    arguments = _arguments()
    limited(arguments.instructions)
    job = FOLDER / "decode-speed"
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir(parents=True)
    settings = _of_run(job, arguments) if arguments.run else _of_preset(job, arguments)
    settings |= {"beam": arguments.beam, "rows": arguments.rows, "length_penalty": 1.0}
    settings |= {"begin": BEGIN, "end": END, "pad": PAD, "unknown": UNKNOWN}
    (job / "job.json").write_text(json.dumps(settings))
    worker = BENCH / "peers" / "ctranslate2_decode.py"
    python = peer_python("ctranslate2", worker.with_suffix(".txt"))
    commands: dict[str, list[str | Path]] = {}
    for workers in sorted({1, arguments.threads}):
        layout = f"{workers} × {arguments.threads // workers}"
        for kind in arguments.ours:
            commands[f"regard {kind} {layout}"] = [sys.executable, BENCH / "ours_decode.py", job, kind, str(workers)]
        for kind in arguments.theirs:
            commands[f"ctranslate2 {kind} {layout}"] = [python, worker, job, kind, str(workers)]
    peer = BENCH / "peers" / "transformers_decode.py"
    for kind in arguments.generate:
        generating = peer_python("marian", peer.with_name("marian_transformers.txt"))
        commands[f"transformers {kind}"] = [generating, peer, job, kind]
    hello, turns = alternate(commands, rounds=arguments.rounds, warm_up=1, threads=arguments.threads)
    model = next(job.glob("ctranslate2-*"), None)
    result = _result(hello, turns) | {"machine": machine(), "settings": vars(arguments), "equal": _equal(job)}
    result["instructions"] = proof(python, model)
    (FOLDER / "decode-speed.json").write_text(json.dumps(result, indent=2))
    _print(result)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--types", type=int, default=8000, help="size of the joint vocabulary, where there is no run")
    parser.add_argument("--run", help="a trained run in the place of a preset")
    parser.add_argument("--source", help="text for the run to translate")
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64, help="sentences decoded together")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--theirs", nargs="+", default=["int8", "float32"])
    parser.add_argument("--generate", nargs="*", default=[], help="transformers, too: float32, bfloat16")
    parser.add_argument("--instructions", choices=LEVELS, default="all", help="avx2: no AVX-512 and no AMX for anyone")
    return parser.parse_args()


def _of_preset(job: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    config = ModelConfig.model_validate({"preset": arguments.preset})
    model = build(config, source_types=arguments.types, target_types=arguments.types)
    _save(job, dict(model.named_parameters()))
    draw = random.Random(1)
    sources = [[*draw.choices(range(8, arguments.types), k=FIXED), END] for _ in range(arguments.sentences)]
    return {
        "model": config.model_dump(mode="json"), "types": arguments.types, "sources": sources, "fixed": True,
        "longest": FIXED,
    }  # fmt: skip


def _of_run(job: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    run = RunFolder.open(Path(arguments.run))
    source, target = open_codecs(run)
    _save(job, run.weights(None).groups["model"])
    lines = [line for line in read_lines(Path(arguments.source)) if line.strip()][: arguments.sentences]
    sources = [[*source.encode(line), END] for line in lines]
    return {
        "model": translation_config(run).model.model_dump(mode="json"), "types": len(target), "sources": sources,
        "fixed": False, "longest": max(map(len, sources)) + 50,
    }  # fmt: skip


def _save(job: Path, weights: dict[str, torch.Tensor]) -> None:
    save_file({name: tensor.detach().float().clone() for name, tensor in weights.items()}, job / "model.safetensors")


def _result(hello: dict[str, dict[str, Any]], turns: dict[str, list[Turn]]) -> dict[str, Any]:
    workers = {
        name: hello[name] | {"tokens_per_second": quartiles([t.answer["tokens"] / t.seconds for t in each[1:]])}
        for name, each in turns.items()
    }

    def best(of: str) -> str:
        names = [name for name in workers if name.startswith(of)]
        return max(names, key=lambda name: workers[name]["tokens_per_second"]["median"])

    ours, theirs = best("regard"), best("ctranslate2")
    ratios = [  # within a round
        (a.answer["tokens"] / a.seconds) / (b.answer["tokens"] / b.seconds)
        for a, b in zip(turns[ours][1:], turns[theirs][1:], strict=True)
    ]
    used = [
        (b.cpu / b.answer["tokens"]) / (a.cpu / a.answer["tokens"])
        for a, b in zip(turns[ours][1:], turns[theirs][1:], strict=True)
    ]
    shown = {"ours": ours, "theirs": theirs, "ratio": quartiles(ratios), "by_processor_time": quartiles(used)}
    return {"workers": workers, **shown}


def _equal(job: Path) -> dict[str, float]:
    """The share of sentences that another format decodes as ours in float32, or the first we have."""
    outputs = {path.stem.removeprefix("outputs-"): json.loads(path.read_text()) for path in job.glob("outputs-*.json")}
    first = outputs.get("regard-float32") or outputs[min(outputs)]
    return {name: sum(a == b for a, b in zip(each, first, strict=True)) / len(first) for name, each in outputs.items()}


def _print(result: dict[str, Any]) -> None:
    about, settings = result["machine"], result["settings"]
    print(
        f"\n{about['processor']}, {settings['threads']} threads, {' '.join(about['instructions'])}; {about['written']}"
    )
    shape = settings["run"] or settings["preset"]
    print(f"{shape}, {settings['sentences']} sentences, {settings['rows']} together, beam {settings['beam']}")
    for name, worker in result["workers"].items():
        speed = worker["tokens_per_second"]
        print(f"{name:28}{speed['median']:>9,.0f} tokens/s [{speed['low']:,.0f} {speed['high']:,.0f}], "
              f"{worker['peak_mib']:,.0f} MiB")  # fmt: skip
    print(*result["instructions"], sep="\n")
    for name, share in result["equal"].items():
        print(f"{name}: {share:.1%} of the sentences as in our float32")
    ratio = result["ratio"]
    print(f"{result['ours']} / {result['theirs']}: {ratio['median']:.2f} [{ratio['low']:.2f} {ratio['high']:.2f}]")
    used = result["by_processor_time"]
    print(f"by processor time: {used['median']:.2f} [{used['low']:.2f} {used['high']:.2f}]")


if __name__ == "__main__":
    main()

"""Times greedy generation of a language model beside transformers' ``generate`` with the same weights.

    python bench/generate_speed.py [--sizes small base] [--rows 1 64] [--new 256] [--prompt 8] [--threads 1]

A model of the shape of Llama (RMSNorm, SwiGLU, rotary positions), drawn with a seed: ``small`` has 6 layers of 384 and
65 types, ``base`` 12 layers of 768 and 8,000 types. Its weights are copied into a ``LlamaForCausalLM`` of the installed
transformers, which generates with its cache of keys and values; both in float32, in one process, in turn. Medians of
rounds, the first of which is not counted; milliseconds a step, reading the prompt included, of a single thread its own
time, so that other work on the machine counts less. The tokens must agree;
the other engines, with ``--engines``, compute in fewer bits, and how many of their tokens agree is told.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from environments import ROOT
from machine import machine
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from regard.engine.language_model import FastLanguageModel
from regard.engine.native_language_model import NativeLanguageModel
from regard.inference.causal_decoding import causal_decoder
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.search.best_types import BestTypes
from regard.tasks.language_model.task import TASK

FOLDER = ROOT / "runs" / "bench"
SIZES: dict[str, tuple[int, int, int, int]] = {"small": (6, 384, 6, 65), "base": (12, 768, 12, 8000)}
SEED = 1
Generate = Callable[[], Tensor]


def model(layers: int, width: int, heads: int, types: int) -> LanguageModel:
    """A drawn model; wide enough matrices that the tokens of a text differ."""
    torch.manual_seed(SEED)
    shape = {"layers": layers, "width": width, "heads": heads, "feed_forward": width * 8 // 3, "init_std": 0.06}
    parts = {"normalization": "rms", "activation": "swiglu", "position": {"kind": "rotary", "layout": "half"}}
    chosen = {**shape, **parts, "share": "none"}
    config = load_config({"task": "language-model", "data": {"train": [], "context": 1024}, "model": chosen})
    return cast(LanguageModel, TASK.build(config, {"types": types})).eval()


@torch.no_grad()
def llama(ours: LanguageModel) -> LlamaForCausalLM:
    """The same function in transformers; its embedding is not scaled, so that ours is multiplied by the scale."""
    layers, heads = list(ours.stack), cast(Any, ours.layers[0]).mixer.attention.heads
    types, width = ours.head.weight.shape
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=types, hidden_size=width, num_hidden_layers=len(layers), num_attention_heads=heads,
            intermediate_size=cast(Any, layers[0]).feed_forward.up.out_features, rms_norm_eps=1e-6,
            max_position_embeddings=4096, tie_word_embeddings=False,
            pad_token_id=0, bos_token_id=None, eos_token_id=None,
        )
    ).eval()  # fmt: skip
    names = {
        "around_mixer.norm": "input_layernorm", "around_feed_forward.norm": "post_attention_layernorm",
        "mixer.attention.query": "self_attn.q_proj", "mixer.attention.key": "self_attn.k_proj",
        "mixer.attention.value": "self_attn.v_proj", "mixer.attention.output": "self_attn.o_proj",
        "feed_forward.gate": "mlp.gate_proj", "feed_forward.up": "mlp.up_proj", "feed_forward.down": "mlp.down_proj",
    }  # fmt: skip
    for mine, other in zip(layers, theirs.model.layers, strict=True):
        for name, target in names.items():
            other.get_submodule(target).weight.copy_(mine.get_submodule(name).weight)
    embedding = cast(Any, ours.embedding)
    theirs.model.embed_tokens.weight.copy_(embedding.weight * embedding.scale)
    theirs.model.norm.weight.copy_(cast(Any, ours.norm).weight)
    theirs.lm_head.weight.copy_(ours.head.weight)
    return theirs


def greedy(quick: FastLanguageModel | NativeLanguageModel, prompt: Tensor, new: int) -> Generate:
    """The likeliest token and its log-probability, step by step, without an end."""

    @torch.no_grad()
    def run() -> Tensor:
        tokens, state, found = prompt, quick.start(len(prompt)), []
        for _ in range(new):
            (_, tokens), state = quick.chunked_step(tokens, state, BestTypes(1))
            found.append(tokens)
        return torch.cat(found, 1)

    return run


def theirs(other: LlamaForCausalLM, prompt: Tensor, new: int) -> Generate:
    def run() -> Tensor:
        with torch.inference_mode():
            found = other.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new,
                do_sample=False, use_cache=True, pad_token_id=0,
            )  # fmt: skip
        return cast(Tensor, found)[:, prompt.shape[1] :]

    return run


def in_turn(calls: dict[str, Generate], rounds: int, new: int) -> tuple[dict[str, list[float]], dict[str, Tensor]]:
    """Milliseconds a step of each, round by round, without the first; and the tokens."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    tokens = {}
    for number in range(rounds + 1):
        names = list(calls)[number % len(calls) :] + list(calls)[: number % len(calls)]
        for name in names:
            began = clock()
            tokens[name] = calls[name]()
            times[name].append((clock() - began) / new * 1e3)
    return {name: each[1:] for name, each in times.items()}, tokens


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    print("processor:", machine()["instructions"], "threads:", arguments.threads, "seed:", SEED)
    report = {}
    for size in arguments.sizes:
        ours = model(*SIZES[size])
        other = llama(ours)
        engines = {
            kind: causal_decoder(ours, kind)
            for kind in arguments.engines
        }  # fmt: skip
        for rows in arguments.rows:
            prompt = torch.randint(4, SIZES[size][3], (rows, arguments.prompt))
            calls = {kind: greedy(quick, prompt, arguments.new) for kind, quick in engines.items()}
            calls |= {"transformers": theirs(other, prompt, arguments.new)}
            times, tokens = in_turn(calls, arguments.rounds, arguments.new)
            medians = {name: statistics.median(each) for name, each in times.items()}
            for kind in engines:
                ratio = statistics.median(b / a for a, b in zip(times[kind], times["transformers"], strict=True))
                agree = float((tokens[kind] == tokens["transformers"]).float().mean())
                report[f"{size}, {rows} rows, {kind}"] = {**medians, "ratio": ratio, "agree": agree}
                print(
                    f"{size:6} {rows:3} rows  {kind:9} {medians[kind]:8.2f} ms a step, transformers "
                    f"{medians['transformers']:8.2f} ms: × {ratio:.2f}; {agree:.1%} of the tokens agree", flush=True,
                )  # fmt: skip
                least = min(times["transformers"]) / min(times[kind])
                print(f"{'':6} least {min(times[kind]):.2f} ms a step: × {least:.2f}", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = {"machine": machine(), "settings": vars(arguments), "found": report}
    (FOLDER / "generate.json").write_text(json.dumps(whole, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["small"], choices=list(SIZES))
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--engines", nargs="+", default=["float32"], choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--new", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()

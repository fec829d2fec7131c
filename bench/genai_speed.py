"""Times greedy generation of a language model beside onnxruntime-genai with the same weights.

    python bench/genai_speed.py [--rows 1 32] [--new 128] [--prompt 8] [--rounds 7]

Needs an interpreter that has onnxruntime-genai beside Regard. The model is ``small`` of ``generate_speed``, saved in
the format of transformers and turned into ONNX by onnxruntime-genai's own builder, in each of its formats. All are
timed in one process, in turn, one thread each, its own time: medians of milliseconds a step, reading the prompt
included. How many tokens agree with ours in float32 is told. Writes runs/bench/genai.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai
import torch
from environments import ROOT
from generate_speed import SIZES, Generate, greedy, in_turn, llama, model
from machine import machine
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from regard.inference.causal_decoding import causal_decoder
from regard.models.language_model import LanguageModel

FOLDER = ROOT / "runs" / "bench"
OURS, THEIRS = ("float32", "int8"), ("fp32", "int8", "int4")
PAD, BEGIN, END = 0, 1, 2  # of their search, which must be told of some


def converted(ours: LanguageModel, types: int, folder: Path) -> dict[str, Any]:
    """The model in each of their formats, for one thread."""
    shutil.rmtree(folder, ignore_errors=True)
    other = llama(ours)
    for config in (other.config, other.generation_config):
        config.pad_token_id, config.bos_token_id, config.eos_token_id = PAD, BEGIN, END
    other.save_pretrained(folder / "transformers")
    words = Tokenizer(models.WordLevel({f"t{number}": number for number in range(types)}, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0").save_pretrained(folder / "transformers")
    found = {}
    for kind in THEIRS:
        command = ["-m", "onnxruntime_genai.models.builder", "-i", folder / "transformers", "-o", folder / kind]
        subprocess.run([sys.executable, *command, "-p", kind, "-e", "cpu"], check=True, capture_output=True)
        settings = json.loads((folder / kind / "genai_config.json").read_text())
        settings["model"]["decoder"]["session_options"] |= {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
        (folder / kind / "genai_config.json").write_text(json.dumps(settings))
        found[kind] = onnxruntime_genai.Model(str(folder / kind))
    return found


def theirs(other: Any, prompt: Tensor, new: int) -> Generate:
    rows, length = prompt.shape
    tokens = prompt.numpy().astype(np.int32)

    def run() -> Tensor:
        parameters = onnxruntime_genai.GeneratorParams(other)
        whole = length + new
        parameters.set_search_options(batch_size=rows, max_length=whole, min_length=whole, do_sample=False)
        generator = onnxruntime_genai.Generator(other, parameters)
        generator.append_tokens(tokens)
        while not generator.is_done():
            generator.generate_next_token()
        return torch.tensor(np.stack([generator.get_sequence(row)[length:] for row in range(rows)]))

    return run


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    types = SIZES["small"][3]
    ours = model(*SIZES["small"])
    engines, others = {kind: causal_decoder(ours, kind) for kind in OURS}, converted(ours, types, FOLDER / "genai")
    print("processor:", machine()["instructions"], "onnxruntime-genai", onnxruntime_genai.__version__)
    report = {}
    for rows in arguments.rows:
        prompt = torch.randint(4, types, (rows, arguments.prompt))
        calls = {f"regard {kind}": greedy(engine, prompt, arguments.new) for kind, engine in engines.items()}
        calls |= {f"genai {kind}": theirs(other, prompt, arguments.new) for kind, other in others.items()}
        times, tokens = in_turn(calls, arguments.rounds, arguments.new)
        for name, each in times.items():
            agree = float((tokens[name] == tokens["regard float32"]).float().mean())
            report[f"{rows} rows, {name}"] = {"median": statistics.median(each), "agree": agree}
            print(f"{rows:3} rows  {name:15} {statistics.median(each):8.2f} ms a step; {agree:.1%} as ours", flush=True)
        for mine, other in (("float32", "fp32"), ("int8", "int8"), ("int8", "int4")):
            pairs = zip(times[f"regard {mine}"], times[f"genai {other}"], strict=True)
            print(f"{rows:3} rows  {other} / our {mine}: {statistics.median(b / a for a, b in pairs):.2f}", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "genai.json").write_text(json.dumps({"machine": machine(), "found": report}, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 32], help="theirs takes 32 at most")
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Computes with each engine in forked children, one an instruction set, and writes what oneDNN says that it ran.

A line of JSON for each: ``instructions``, ``engine``, and ``kernels`` of its products. oneDNN reads both of its
settings when it is first used, so each child sets its own; torch is imported once for all.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from regard.attention.span import Span
from regard.engine.transformer import FastEncoderDecoder
from regard.models.build import build
from regard.models.configuration import ModelConfig

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "feed_forward": 96, "layers": 1}
TYPES, SENTENCES = 500, (1, 20)


def main() -> None:
    torch.set_num_threads(1)  # others would not live through a fork
    for instructions in sys.argv[1:]:
        for engine in ("float32", "bfloat16"):
            with tempfile.NamedTemporaryFile() as said:
                if (child := os.fork()) == 0:
                    _compute(instructions, engine, Path(said.name))
                assert os.waitpid(child, 0)[1] == 0, f"{engine} with {instructions} failed"
                sys.stdout.write(json.dumps(_heard(Path(said.name))) + "\n")


def _compute(instructions: str, engine: str, said: Path) -> None:
    os.environ |= {"ONEDNN_MAX_CPU_ISA": instructions, "ONEDNN_VERBOSE": "0"}
    said.write_text(json.dumps({"instructions": instructions, "engine": engine}) + "\n")
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 1)
    torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON).__enter__()
    _decode(engine)
    os._exit(0)


@torch.no_grad()
def _decode(engine: str) -> None:
    model = build(ModelConfig(**SIZES), source_types=TYPES, target_types=TYPES).eval()
    quick = FastEncoderDecoder(model.encoder, model.decoder, model.head.weight, dtype=getattr(torch, engine))
    for sentences in SENTENCES:
        source = torch.randint(4, TYPES, (sentences, 7))
        quick.step(torch.full((sentences, 2), 2), quick.session(source, Span.without_padding(source)))


def _heard(said: Path) -> dict[str, Any]:
    first, *lines = said.read_text().splitlines()
    # onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_vnni,…
    fields = [line.split(",") for line in lines if line.startswith("onednn_verbose")]
    kernels = {each[6] for each in fields if each[3] == "exec" and each[5] in ("matmul", "inner_product")}
    return {**json.loads(first), "kernels": sorted(kernels)}


if __name__ == "__main__":
    main()

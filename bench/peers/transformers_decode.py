"""Hugging Face's worker: ``generate`` of a MarianMTModel of the job's shape, decoding the job's sources whenever asked.

    python bench/peers/transformers_decode.py JOB float32|bfloat16

Its weights are its own, untrained: the job must ask for outputs of a fixed length. One process with all threads and
batches of ``rows`` sentences of like length, as a loop over a file makes them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import transformers
from marian_transformers import build
from serving import Served


def main(job: Path, precision: str) -> None:
    served = Served()
    settings = json.loads((job / "job.json").read_text())
    if not settings["fixed"]:
        sys.exit("this worker has weights of its own: give a preset, not a run")
    threads = int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(threads)
    special = {name: settings[name] for name in ("pad", "end", "begin")}
    encoder, decoder = settings["model"]["encoder"], settings["model"]["decoder"]
    sizes = encoder | {"encoder_layers": encoder["layers"], "decoder_layers": decoder["layers"]}
    shape = {"model": sizes, "types": settings["types"], "special": special}
    model = build(shape, "sdpa").eval().to(getattr(torch, precision))
    model.config.use_cache = model.generation_config.use_cache = True
    sources = sorted(settings["sources"], key=len)
    batches = [sources[start : start + settings["rows"]] for start in range(0, len(sources), settings["rows"])]
    length = settings["longest"]
    served.answer(version=transformers.__version__, threads=threads, workers=1)
    for _ in served:
        tokens = 0
        for batch in batches:
            longest = max(map(len, batch))
            rows = torch.tensor([[*row, *[special["pad"]] * (longest - len(row))] for row in batch])
            found = model.generate(
                input_ids=rows,
                attention_mask=(rows != special["pad"]).long(),
                num_beams=settings["beam"],
                do_sample=False,
                min_new_tokens=length,
                max_new_tokens=length,
                forced_eos_token_id=None,
            )
            tokens += found[:, 1:].numel()
        served.answer(tokens=tokens)


if __name__ == "__main__":
    with torch.inference_mode():
        main(Path(sys.argv[1]), sys.argv[2])

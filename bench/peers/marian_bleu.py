"""Hugging Face's worker: MarianMTModel trained as in ``marian_transformers``, decoding a test set now and then.

python bench/peers/marian_bleu.py SETTINGS.json BATCHES.npz JOB.json OUTPUTS.json float32|bfloat16 sdpa|eager
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from bleu_work import Stretch
from marian_transformers import build, optimizer, read_batches, update
from serving import Served


def main(settings_path: Path, batches_path: Path, job: Path, outputs: Path, precision: str, attention: str) -> None:
    served = Served()
    settings = json.loads(settings_path.read_text())
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    batches = list(read_batches(batches_path))
    model = build(settings, attention)
    adam = optimizer(model, settings["train"])
    stretch = Stretch(served, job, outputs)
    served.answer(torch=torch.__version__, threads=torch.get_num_threads())
    done = 0
    for _ in served:
        stretch.begin()
        while True:
            _, loss = update(model, adam, batches[done], settings["train"], done + 1, precision)
            done += 1
            if stretch.updated(loss):
                break
        stretch.answer(lambda sources: decode(model.eval(), sources, settings["special"], stretch.longest))
        model.train()


@torch.inference_mode()
def decode(model: Any, sources: Sequence[Sequence[int]], special: dict[str, int], extra: int) -> list[list[int]]:
    longest = max(map(len, sources)) + 1
    padded = [[*source, special["end"], *[special["pad"]] * (longest - 1 - len(source))] for source in sources]
    rows = torch.tensor(padded)
    valid = (rows != special["pad"]).long()
    found = model.generate(
        input_ids=rows, attention_mask=valid, num_beams=1, do_sample=False, use_cache=True,
        max_new_tokens=longest + extra, suppress_tokens=[special["pad"], special["begin"]],
    )  # fmt: skip
    ends = (special["end"], special["pad"])
    outputs = [_until(row[1:], ends) for row in found.tolist()]
    return [output[: len(source) + extra] for output, source in zip(outputs, sources, strict=True)]


def _until(tokens: Sequence[int], ends: Sequence[int]) -> list[int]:
    stop = next((at for at, token in enumerate(tokens) if token in ends), len(tokens))
    return list(tokens[:stop])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]), *sys.argv[5:7])

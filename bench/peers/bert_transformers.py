"""Hugging Face's worker: BERT with a head for labels or for masked tokens, in a plain training loop.

    python bench/peers/bert_transformers.py SETTINGS.json BATCHES.npz labels|masked float32|bfloat16 sdpa|eager

bfloat16 is autocast, as training recipes have it: weights and AdamW stay float32, as they do in Regard. Batches are
read before the clock starts. AdamW is the fused one. BERT's logits of masked tokens are computed for every column, as
the model does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serving import Served
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

IGNORED = -100


def build(settings: dict[str, Any], head: str, attention: str) -> torch.nn.Module:
    config = BertConfig(
        vocab_size=settings["types"], hidden_size=settings["width"], num_hidden_layers=settings["layers"],
        num_attention_heads=settings["heads"], intermediate_size=settings["feed_forward"],
        hidden_dropout_prob=settings["dropout"], attention_probs_dropout_prob=settings["dropout"],
        max_position_embeddings=settings["longest"], num_labels=settings["classes"], attn_implementation=attention,
    )  # fmt: skip
    return (BertForSequenceClassification if head == "labels" else BertForMaskedLM)(config).train()


def read_batches(path: Path, head: str) -> list[dict[str, Any]]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    numbers = sorted({int(name.partition(".")[0]) for name in arrays})
    found = []
    for number in numbers:
        get = {name.partition(".")[2]: each for name, each in arrays.items() if name.startswith(f"{number}.")}
        if head == "labels":
            given = {"input_ids": get["tokens"], "labels": get["label"]}
            counted = len(get["label"])
        else:
            labels = get["target"].masked_fill(~get["chosen"], IGNORED)
            given, counted = {"input_ids": get["input"], "labels": labels}, int(get["chosen"].sum())
        found.append({"given": given | {"attention_mask": get["valid"].long()}, "counted": counted})
    return found


def main(settings_path: Path, batches_path: Path, head: str, precision: str, attention: str) -> None:
    served = Served()
    settings = json.loads(settings_path.read_text())
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    batches = read_batches(batches_path, head)
    model = build(settings, head, attention)
    adam = torch.optim.AdamW(model.parameters(), settings["rate"], betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    parameters = sum(each.numel() for each in model.parameters() if each.requires_grad)
    served.answer(torch=torch.__version__, threads=torch.get_num_threads(), parameters=parameters)
    done = 0
    for _ in served:
        counted, loss = 0, torch.zeros(())
        for _ in range(settings["block"]):
            batch = batches[done % len(batches)]
            done += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
                loss = model(**batch["given"]).loss
            loss.backward()
            adam.step()
            adam.zero_grad()
            counted += batch["counted"]
        served.answer(tokens=counted, loss=float(loss.detach()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])

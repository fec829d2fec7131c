"""Joey NMT's worker: its model, loss and optimizer in the order of its trainer's step.

    python bench/peers/joeynmt_train.py SETTINGS.json BATCHES.npz float32|bfloat16

bfloat16 is autocast, as its own training has for mixed precision. Batches are read before the clock starts; padding is
left out of the loss and of the token count, not of the logits, which it computes for every column.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch
from joeynmt.builders import build_optimizer
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from serving import Served
from torch import Tensor

UNKNOWN, PAD, BEGIN, END = 0, 1, 2, 3  # Joey NMT's own numbers


def vocabulary(types: int) -> Vocabulary:
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    numbers = {"unk_id": UNKNOWN, "pad_id": PAD, "bos_id": BEGIN, "eos_id": END}
    made = Vocabulary([], SimpleNamespace(**names, **numbers, lang_tags=[]))
    made._itos += [str(number) for number in range(4, types)]  # add_tokens looks for each among all
    return made


def build(settings: dict[str, Any]) -> torch.nn.Module:
    """The same shape: post-norm, sinusoids, √d_model, one matrix for both embeddings and the output, ReLU."""
    model, words = settings["model"], vocabulary(settings["types"])

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": model["heads"],
            "embeddings": {"embedding_dim": model["width"], "scale": True, "dropout": model["dropout"]},
            "hidden_size": model["width"],
            "ff_size": model["feed_forward"],
            "dropout": model["dropout"],
            "layer_norm": "post",
            "activation": "relu",
        }

    config = {
        "encoder": side(model["encoder_layers"]),
        "decoder": side(model["decoder_layers"]),
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
    }
    built = build_model(config, words, words)
    built.loss_function = ("crossentropy", settings["train"]["label_smoothing"])
    return built.train()


def renumbered(tokens: Tensor, settings: dict[str, Any]) -> Tensor:
    """Our numbers of the special symbols as theirs; all others are the same."""
    special = settings["special"]
    table = torch.arange(settings["types"])
    table[[special["pad"], special["unknown"], special["begin"], special["end"]]] = torch.tensor(
        [PAD, UNKNOWN, BEGIN, END]
    )
    return table[tokens]


def read_batches(path: Path, settings: dict[str, Any]) -> list[dict[str, Tensor]]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    batches = []
    while f"{len(batches)}.source" in arrays:
        each = {key: arrays[f"{len(batches)}.{key}"] for key in ("source", "source_valid", "target_output")}
        source, target = (renumbered(each[key], settings) for key in ("source", "target_output"))
        begin = torch.full((len(target), 1), BEGIN)
        batches.append({"src": source, "src_length": each["source_valid"].sum(1), "trg": torch.cat([begin, target], 1)})
    return batches


def main(settings_path: Path, batches_path: Path, precision: str) -> None:
    served = Served()
    settings = json.loads(settings_path.read_text())
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    batches = read_batches(batches_path, settings)
    model, train = build(settings), settings["train"]
    rate = {"optimizer": "adam", "learning_rate": train["learning_rate"], "adam_betas": train["betas"]}
    optimizer = build_optimizer(rate, model.parameters())
    served.answer(
        torch=torch.__version__,
        joeynmt=version("joeynmt"),
        threads=torch.get_num_threads(),
        parameters=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
    )
    for step, _ in enumerate(served, start=1):
        given = batches[(step - 1) % len(batches)]
        batch = Batch(
            **given, src_prompt_mask=None, trg_prompt_mask=None, indices=torch.arange(len(given["src"])),
            device=torch.device("cpu"), pad_index=PAD, eos_index=END,
        )  # fmt: skip
        for group in optimizer.param_groups:
            group["lr"] = train["learning_rate"] * min(1.0, step / train["warmup"])
        batch.sort_by_src_length()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            loss, _, _, correct = model(return_type="loss", **vars(batch))
        mean = batch.normalize(loss, normalization="tokens")
        mean.backward()
        batch.normalize(correct, "sum").item()
        optimizer.step()
        optimizer.zero_grad()
        served.answer(tokens=int(batch.ntokens), loss=mean.item())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

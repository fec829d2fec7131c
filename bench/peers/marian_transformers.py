"""Hugging Face's worker: MarianMTModel in a plain training loop, as its users write one.

    python bench/peers/marian_transformers.py SETTINGS.json BATCHES.npz float32|bfloat16 sdpa|eager

bfloat16 is autocast, as the model card recipes have it: weights and Adam stay float32, as they do in Regard. Batches
are read before the clock starts; padding is left out of the loss (-100) and of the token count, not of the logits,
which MarianMTModel computes for every column. Adam is the fused one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from serving import Served
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

IGNORED = -100


def build(settings: dict[str, Any], attention: str) -> MarianMTModel:
    """The same shape: post-norm, sinusoids, √d_model, one matrix for both embeddings and the output, ReLU."""
    model, special = settings["model"], settings["special"]
    config = MarianConfig(
        vocab_size=settings["types"],
        d_model=model["width"],
        encoder_layers=model["encoder_layers"],
        decoder_layers=model["decoder_layers"],
        encoder_ffn_dim=model["feed_forward"],
        decoder_ffn_dim=model["feed_forward"],
        encoder_attention_heads=model["heads"],
        decoder_attention_heads=model["heads"],
        dropout=model["dropout"],
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=special["pad"],
        eos_token_id=special["end"],
        forced_eos_token_id=special["end"],
        decoder_start_token_id=special["begin"],
        attn_implementation=attention,
    )
    return MarianMTModel(config).train()


def read_batches(path: Path) -> Iterator[dict[str, Tensor]]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    for number in count():
        prefix = f"{number}."
        batch = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if not batch:
            return
        yield batch


def optimizer(model: MarianMTModel, train: dict[str, Any]) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), betas=tuple(train["betas"]), eps=train["epsilon"], fused=True)


def update(
    model: MarianMTModel, adam: torch.optim.Adam, batch: dict[str, Tensor], train: dict[str, Any], step: int,
    precision: str,
) -> tuple[int, float]:  # fmt: skip
    """Target tokens and loss of one update; the rate climbs to its peak and stays, or falls as 1/√step."""
    labels = batch["target_output"].masked_fill(~batch["target_valid"], IGNORED)
    falls = (train["warmup"] / step) ** 0.5 if train["schedule"] == "inverse-sqrt" else 1.0
    for group in adam.param_groups:
        group["lr"] = train["learning_rate"] * min(falls, step / train["warmup"])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        logits = model(
            input_ids=batch["source"],
            attention_mask=batch["source_valid"].long(),
            decoder_input_ids=batch["target_input"],
        ).logits
        loss = cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            ignore_index=IGNORED,
            label_smoothing=train["label_smoothing"],
        )
    loss.backward()
    adam.step()
    adam.zero_grad()
    return int(batch["target_valid"].sum()), float(loss.detach())


def main(settings_path: Path, batches_path: Path, precision: str, attention: str) -> None:
    served = Served()
    settings = json.loads(settings_path.read_text())
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    batches = list(read_batches(batches_path))
    model = build(settings, attention)
    adam = optimizer(model, settings["train"])
    served.answer(
        torch=torch.__version__,
        transformers=transformers.__version__,
        threads=torch.get_num_threads(),
        parameters=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        attention=model.config._attn_implementation,
    )
    for step, _ in enumerate(served, start=1):
        batch = batches[(step - 1) % len(batches)]
        tokens, loss = update(model, adam, batch, settings["train"], step, precision)
        served.answer(tokens=tokens, loss=loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])

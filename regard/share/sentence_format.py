"""Export of an encoder as a folder of ``sentence-transformers``: its vectors equal those of ``Predictor.embed``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.core import atomic_files
from regard.core.export_forms import EncoderForm
from regard.core.wording import pluralize
from regard.runs.run_folder import RunFolder, environment
from regard.share.encoder_family import keys_that_fit
from regard.share.encoder_format import encoder_config, encoder_tensors, form_of, plain_tensors, tokenizer_reasons
from regard.share.encoder_head import HEADS
from regard.share.encoder_tokenizer import encoder_tokenizer_files
from regard.share.export_format import ExportFormat, lines_to_compare
from regard.tasks.load import load, load_net

POOLINGS = {"mean": "mean_tokens", "max": "max_tokens", "first": "cls_token", "last": "lasttoken"}
OF_OUTPUTS = {"model.pooling=first", "model.wide=false", "model.transform=none"}  # settings after the encoder
TOLERANCE = 1e-4  # maximum difference of a number, relative to the largest if that exceeds 1


def obstacles(config: Any) -> list[str]:
    """Return all reasons why no encoder of transformers can represent the encoder of a config."""
    form, encoder = form_of(config), config.model.encoder
    if encoder.kind != "transformer":
        reasons = [f"its encoder is {encoder.kind}"]
    else:
        reasons = [f"{reason} (--set {key})" if key else reason for reason, key in keys_that_fit(encoder)[1].items()]
    if form.head == "tokens":
        reasons.append("a tagger reads words, not sentences")
    reasons += [reason for reason, key in form.obstacles.items() if key not in OF_OUTPUTS]
    return [*reasons, *tokenizer_reasons(config)]


def write(form: EncoderForm, config: Any, net: nn.Module, tokenizer: Any, pooling: str, folder: Path) -> None:
    """Write the encoder into a folder, in float32. ``obstacles`` must be empty.

    Args:
        form: the form of the network.
        config: the config of the run.
        net: the network.
        tokenizer: the tokenizer of the run.
        pooling: a name of ``POOLINGS``.
        folder: the folder, which may exist.
    """
    family, _ = keys_that_fit(config.model.encoder)
    assert family is not None
    masks, width = HEADS[form.head].masks, config.model.encoder.width
    # transformers has a layer on top of the encoder, which the vectors do not read.
    pooler: dict[str, Tensor] = {"pooler.dense.weight": torch.eye(width), "pooler.dense.bias": torch.zeros(width)}
    own = encoder_tensors(family, form, config, net, norm=True)
    tensors = pooler | {name.removeprefix(family.prefix): tensor for name, tensor in own}
    files: dict[str, Any] = {
        "config.json": encoder_config(family, form, config, len(tokenizer) + masks, f"{family.classes}Model"),
        **encoder_tokenizer_files(tokenizer, columns=form.longest, mask=masks),
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
            for number, (path, name) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling")])
        ],
        "sentence_bert_config.json": {"max_seq_length": form.longest, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            **{f"pooling_mode_{name}": name == POOLINGS[pooling] for name in POOLINGS.values()},
            "include_prompt": True,
        },
    }
    (folder / "1_Pooling").mkdir(parents=True)
    saved = safetensors.torch.save(plain_tensors(tensors), metadata={"format": "pt"})
    atomic_files.write_bytes(folder / "model.safetensors", saved)
    for name, content in files.items():
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))


class VectorParity(NamedTuple):
    """Result of a comparison of vectors."""

    texts: int
    difference: float  # maximum over all numbers
    largest: float  # size of the largest number

    def __str__(self) -> str:
        same = self.difference <= TOLERANCE * max(self.largest, 1.0)
        warning = "" if same else "warning: the export differs: "
        return f"{warning}vectors of {pluralize(self.texts, 'text')} differ by at most {self.difference:.1e}"

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the folder of the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "float32"}
        atomic_files.write_json(folder / "parity.json", record | self._asdict() | {"environment": environment()})


@dataclass(frozen=True)
class SentenceExport:
    """A run opened for this format: see ``export_format.Export``."""

    run: RunFolder
    checkpoint: str | None
    net: nn.Module
    tokenizer: Any
    pooling: str = "mean"

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        """Return the texts that fit into the network; the export truncates longer ones."""
        form = form_of(self.run.config)
        pieces = HEADS[form.head].pieces
        texts = lines_to_compare(self.run, source, limit)
        return [text for text in texts if "\t" not in text and len(pieces(self.tokenizer, text)) <= form.longest]

    def write(self, folder: Path) -> None:
        config = self.run.config
        write(form_of(config), config, self.net, self.tokenizer, self.pooling, folder)

    def compare(self, inputs: Sequence[str], folder: Path) -> VectorParity | None:
        if not inputs:
            return None
        sentence_transformers: Any = importlib.import_module("sentence_transformers")
        model: Any = load(self.run.path, checkpoint=self.checkpoint, device="cpu")
        own = model.embed(list(inputs), pooling=self.pooling)
        other = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(list(inputs))
        return VectorParity(len(inputs), float(np.abs(own - other).max()), float(np.abs(own).max()))


def _open(run: RunFolder, checkpoint: str | None) -> SentenceExport:
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device="cpu")
    return SentenceExport(run, checkpoint, net.eval(), codecs.tokenizer)


FORMAT = ExportFormat(
    form=EncoderForm, open=_open, obstacles=obstacles, poolings=tuple(POOLINGS), compared_by="sentence_transformers"
)

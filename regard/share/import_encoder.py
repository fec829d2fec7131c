"""Import of an encoder of ``transformers`` as a run of a masked model.

A folder with a masked head becomes a run that fills gaps. A folder without one becomes a run from which other models
start (``model.encoder.from``).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config.settings import TrainConfig
from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError
from regard.runs import checkpoint
from regard.runs.model_card import write_import_card
from regard.runs.plan import Plan
from regard.runs.run_config import FORMAT
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import sketch
from regard.share.bert import BERT, DISTILBERT, ROBERTA
from regard.share.causal_family import Packing
from regard.share.encoder_vocabulary import EncoderVocabulary, read_encoder_vocabulary
from regard.share.esm import ESM
from regard.share.foreign_tensors import ForeignTensors, open_tensors
from regard.share.marian_folder import invalid_folder, json_of, validation_as_model_error
from regard.share.modernbert import MODERNBERT
from regard.share.pretrained_encoder import EncoderSettings, PretrainedEncoder
from regard.tasks.masked.config import MaskedConfig
from regard.tasks.masked.task import TASK

ENCODERS = {family.kind: family for family in (BERT, ROBERTA, DISTILBERT, MODERNBERT, ESM)}
SMALL = 1 << 20


def import_encoder(folder: Path, path: Path, kind: str) -> RunFolder:
    """Import the encoder of a folder as a run at ``path``, and return the run. A failure leaves nothing behind.

    Args:
        folder: the folder of the foreign model.
        path: the folder of the run.
        kind: a key of ENCODERS, the ``model_type`` of config.json.

    Raises:
        ModelError: the folder cannot be imported.
    """
    family, where = ENCODERS[kind], folder / "config.json"
    values = {key: value for key, value in json_of(where, SMALL).items() if value is not None}
    with validation_as_model_error(where):
        settings = family.settings.model_validate(values)
    if (reason := next((why for why, holds in settings.reasons().items() if holds), None)) is not None:
        raise ModelError(f"this {family.classes} model cannot be imported", where=str(where), why=reason)
    vocabulary = read_encoder_vocabulary(folder, family, settings)
    with open_tensors(folder, f"{family.classes}ForMaskedLM") as tensors:
        has_head = f"{family.transform[0]}.weight" in tensors.names
        with validation_as_model_error(where):
            config = _config(path.name, settings, vocabulary, has_head=has_head)
        model = _Source(folder, family, settings, config, vocabulary, tensors).load()
    _write(
        path, config, vocabulary, model, f"{family.classes}{'ForMaskedLM' if has_head else 'Model'} in {folder.name}"
    )
    return RunFolder.open(path)


def _write(path: Path, config: MaskedConfig, vocabulary: EncoderVocabulary, model: nn.Module, source: str) -> None:
    spec = {"types": len(vocabulary.tokenizer)}
    plan = Plan(
        precision="float32", steps=None, threads=torch.get_num_threads(), seconds_per_update={}, spec=spec
    )  # fmt: skip
    with atomic_files.publishing(path) as workshop:
        run = RunFolder.create(workshop, config)
        vocabulary.tokenizer.save(run.tokenizers, "text")
        run.write_plan(plan)
        checkpoint.save(run.checkpoints, 0, {"model": dict(model.named_parameters())}, {}, keep=1)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        write_import_card(run, parameters=parameters, source=source, path=path)


def _config(name: str, settings: EncoderSettings, vocabulary: EncoderVocabulary, *, has_head: bool) -> MaskedConfig:
    head = (
        {"transform": settings.transform, "output_bias": settings.output_bias}
        if has_head
        else {"head": False, "output_bias": False}
    )
    values: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "task": "masked",
        "data": {
            "train": [],
            "tokenizer": vocabulary.tokenizer.config.model_dump(exclude_defaults=True),
            "context": settings.positions,
        },
        "model": {
            "encoder": {"embedding_scale": 1.0} | settings.stack(),
            "share": "all" if settings.tie_word_embeddings or not has_head else "none",
            **head,
        },
        "train": {"batch_tokens": max(TrainConfig().batch_tokens, settings.positions)},
    }
    return MaskedConfig.model_validate(values)


class _Source:
    """The parts of a folder that determine a model."""

    def __init__(
        self,
        folder: Path,
        family: PretrainedEncoder,
        settings: EncoderSettings,
        config: MaskedConfig,
        vocabulary: EncoderVocabulary,
        tensors: ForeignTensors,
    ) -> None:
        self.folder, self.family, self.settings, self.tensors = folder, family, settings, tensors
        self.config, self.rows, self.has_head = config, vocabulary.rows, config.model.head
        has_prefix = any(name.startswith(family.prefix) for name in tensors.names)
        self.prefix = family.prefix if has_prefix else ""
        spec = {"types": len(vocabulary.tokenizer)}
        self.build = partial(TASK.build, config, spec)

    def load(self) -> nn.Module:
        """Return the model with the weights of the folder.

        Shapes are computed on the meta device and compared with the file before memory is allocated. A config that
        states a huge size therefore cannot exhaust memory.
        """
        encoder, tensors = self.config.model.encoder, self.tensors
        if encoder.depth > len(tensors.names):
            why = f"it has {pluralize(len(tensors.names), 'tensor')}; config.json states "
            raise invalid_folder(tensors.path, why + pluralize(encoder.depth, "layer"))
        packings = self._packings()
        tables = self._tables()
        expected = {packing.name: shape for packing, shape in zip(packings, self._shapes(packings), strict=True)}
        types, width = self.settings.vocab_size, encoder.embedding_width
        for parameter, name in tables.items():
            expected[name] = (types,) if parameter == "head.bias" else (types, width)
        tensors.require(expected)
        ignored = {name for name in tensors.names if re.fullmatch(self.family.ignored, name)}
        tensors.refuse_unknown({*expected, *self._copies(), *ignored})
        model = self.build()
        self._fill(model, packings, tables)
        return model

    def _packings(self) -> list[Packing]:
        encoder: Any = self.config.model.encoder
        packings = self.family.packings(self.settings, encoder)
        named = [packing._replace(name=self.prefix + packing.name) for packing in packings]
        return [*named, *(self.family.head(self.settings) if self.has_head else ())]

    def _tables(self) -> dict[str, str]:
        """Return the tensors with a row or a number for each type, by parameter."""
        tables = {"encoder.embedding.weight": self.prefix + self.family.table}
        if self.has_head:
            if self.settings.output_bias:
                tables["head.bias"] = self.tensors.first(list(self.family.bias))
            if self.config.model.share == "none":
                tables["head.weight"] = self.family.output
        return tables

    def _copies(self) -> set[str]:
        """Return names of tensors that files may contain in addition: copies of shared tensors."""
        return {self.family.output, *self.family.bias} if self.has_head else set()

    def _shapes(self, packings: list[Packing]) -> list[tuple[int, ...]]:
        try:
            outline = dict(sketch(self.build).named_parameters(remove_duplicate=False))
        except ConfigError as error:
            raise invalid_folder(self.folder / "config.json", error.why or error.what) from error
        with torch.device("meta"):
            return [
                tuple(packing.pack([outline[name].detach() for name in packing.parameters]).shape)
                for packing in packings
            ]

    @torch.no_grad()
    def _fill(self, model: nn.Module, packings: list[Packing], tables: dict[str, str]) -> None:
        """Copy the tensors of the folder. A bias that the folder lacks, as of the norms of ModernBERT, is 0."""
        filled = {*tables, *(name for packing in packings for name in packing.parameters)}
        for unfilled, bias in model.named_parameters():
            if unfilled not in filled:
                assert unfilled.endswith(".bias"), unfilled
                bias.zero_()
        for packing in packings:
            for name, part in zip(packing.parameters, packing.unpack(self.tensors[packing.name]), strict=True):
                model.get_parameter(name).copy_(part)
        for parameter, name in tables.items():
            model.get_parameter(parameter).copy_(self.tensors[name][self.rows])

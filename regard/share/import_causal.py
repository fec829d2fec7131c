"""Import of a language model of ``transformers`` as a run that generates, scores and can be fine-tuned.

Tensors are not changed: the config states rotary positions in halves of a head, and an embedding scale of 1.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.chat import ChatConfig
from regard.config.settings import TrainConfig
from regard.core import atomic_files
from regard.core.task import Report
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError
from regard.runs import checkpoint
from regard.runs.model_card import write_import_card
from regard.runs.plan import Plan
from regard.runs.run_config import FORMAT
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import sketch
from regard.share.causal_family import CausalFamily, CausalSettings, Packing
from regard.share.causal_vocabulary import CausalVocabulary, read_vocabulary
from regard.share.chat_template import read_chat
from regard.share.foreign_tensors import ForeignTensors, open_tensors
from regard.share.gpt2 import GPT2
from regard.share.gpt_neox import GPT_NEOX
from regard.share.llama import LLAMA, MISTRAL, QWEN2
from regard.share.marian_folder import invalid_folder, json_of, validation_as_model_error
from regard.tasks.language_model.config import LanguageModelConfig
from regard.tasks.language_model.task import TASK

FAMILIES = {family.kind: family for family in (LLAMA, MISTRAL, QWEN2, GPT2, GPT_NEOX)}
SMALL = 1 << 20


def import_causal(folder: Path, path: Path, kind: str, log: Report | None = None) -> RunFolder:
    """Import the model of a folder as a run at ``path``, and return the run. A failure leaves nothing behind.

    Args:
        folder: the folder of the foreign model.
        path: the folder of the run.
        kind: a key of FAMILIES, the ``model_type`` of config.json.
        log: reports a chat template that cannot be read.

    Raises:
        ModelError: the folder cannot be imported.
    """
    family, where = FAMILIES[kind], folder / "config.json"
    with validation_as_model_error(where):
        settings = family.settings.model_validate(json_of(where, SMALL))
    if (reason := next((why for why, holds in settings.reasons().items() if holds), None)) is not None:
        raise ModelError(f"this {family.architecture} cannot be imported", where=str(where), why=reason)
    vocabulary = read_vocabulary(folder, settings)
    chat = read_chat(folder, vocabulary.tokenizer)
    with validation_as_model_error(where):
        config = _config(path.name, settings, vocabulary, chat.config)
    with open_tensors(folder) as tensors:
        model = _load(folder, family, settings, config, vocabulary, tensors)
    spec = {"types": len(vocabulary.rows)}
    plan = Plan(
        precision="float32", steps=None, threads=torch.get_num_threads(), seconds_per_update={}, spec=spec
    )  # fmt: skip
    with atomic_files.publishing(path) as workshop:
        run = RunFolder.create(workshop, config)
        vocabulary.tokenizer.save(run.tokenizers, "text")
        run.write_plan(plan)
        checkpoint.save(run.checkpoints, 0, {"model": dict(model.named_parameters())}, {}, keep=1)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        write_import_card(run, parameters=parameters, source=f"{family.architecture} in {folder.name}", path=path)
    if chat.obstacle is not None and log is not None:
        log(f"chat template not read: {chat.obstacle}; to chat, write a section [chat] into {path}/config.toml")
    return RunFolder.open(path)


def _config(
    name: str, settings: CausalSettings, vocabulary: CausalVocabulary, chat: ChatConfig | None
) -> LanguageModelConfig:
    context = settings.context
    values: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "task": "language-model",
        "data": {
            "train": [],
            "tokenizer": {"kind": vocabulary.tokenizer.config.kind},
            "context": context,
        },
        "model": {
            "decoder": settings.stack() | {"norm": "pre", "embedding_scale": 1.0},
            "share": "all" if settings.shared else "none",
            "never_predicted": vocabulary.copies,
        },
        "train": {"batch_tokens": max(TrainConfig().batch_tokens, context)},
    }
    return LanguageModelConfig.model_validate(values | ({} if chat is None else {"chat": chat}))


def _load(
    folder: Path,
    family: CausalFamily,
    settings: CausalSettings,
    config: LanguageModelConfig,
    vocabulary: CausalVocabulary,
    tensors: ForeignTensors,
) -> nn.Module:
    """Return the model with the weights of the folder.

    Shapes are computed on the meta device and compared with the file before memory is allocated. A config that states a
    huge size therefore cannot exhaust memory.
    """
    spec = {"types": len(vocabulary.rows)}
    layers = config.model.decoder.layers
    if layers > len(tensors.names):
        raise invalid_folder(
            tensors.path,
            f"it has {pluralize(len(tensors.names), 'tensor')}; config.json states {pluralize(layers, 'layer')}",
        )
    try:
        outline = dict(sketch(partial(TASK.build, config, spec)).named_parameters(remove_duplicate=False))
    except ConfigError as error:
        raise invalid_folder(folder / "config.json", error.why or error.what) from error
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors.names) else ""
    packings = list(family.packings(config.model.decoder))
    expected = {prefix + packing.name: _shape(packing, outline) for packing in packings}
    tables = {"embedding.weight": prefix + family.table}
    if config.model.share == "none":
        tables["head.weight"] = tensors.first(list(family.outputs))
    width = config.model.decoder.width
    tensors.require(expected | dict.fromkeys(tables.values(), (settings.vocab_size, width)))
    unlearned = {name for name in tensors.names if re.fullmatch(family.unlearned, name)}
    tensors.refuse_unknown({*expected, *tables.values(), *family.outputs, *unlearned})
    model = TASK.build(config, spec)
    _fill(model, packings, tables, prefix, vocabulary.rows, tensors)
    return model


def _shape(packing: Packing, outline: dict[str, nn.Parameter]) -> tuple[int, ...]:
    with torch.device("meta"):
        return tuple(packing.pack([outline[name].detach() for name in packing.parameters]).shape)


@torch.no_grad()
def _fill(
    model: nn.Module,
    packings: list[Packing],
    tables: dict[str, str],
    prefix: str,
    rows: list[int],
    tensors: ForeignTensors,
) -> None:
    for packing in packings:
        for name, part in zip(packing.parameters, packing.unpack(tensors[prefix + packing.name]), strict=True):
            model.get_parameter(name).copy_(part)
    for parameter, name in tables.items():
        table: Tensor = tensors[name]
        model.get_parameter(parameter).copy_(table[rows])

"""Export of a language model as a folder of ``transformers``: a Llama, GPT-2 or GPT-NeoX that can represent it.

Only the layout differs, so the logits are equal. Regard's interleaved rotary pairs become halves of a head. Regard
multiplies embeddings by √width, and the export stores them multiplied. If they are also the output matrix, the last
norm is divided by √width.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from torch import Tensor

from regard.attention.positions.rotary import relayout
from regard.core import atomic_files
from regard.core.export_forms import CausalForm
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel
from regard.models.position_config import RotaryConfig
from regard.runs.run_folder import RunFolder
from regard.share.causal_family import CausalFamily
from regard.share.causal_tokenizer import tokenizer_files, tokenizer_obstacles
from regard.share.export_format import ExportFormat, lines_to_compare
from regard.share.gpt2 import GPT2
from regard.share.gpt_neox import GPT_NEOX
from regard.share.llama import LLAMA
from regard.share.logit_parity import CausalModel, LogitParity, compare_logits
from regard.tasks.load import load

FAMILIES = (LLAMA, GPT2, GPT_NEOX)  # the first that can represent a model writes it


def obstacles(config: Any) -> list[str]:
    """Return all reasons why no family can represent a model: those against all, and then those against each."""
    wide = ["no class interpolates a network with n-grams; train it with --set model.wide=false"] if config.wide else []
    by_family = {family.architecture: family.obstacles(config) for family in FAMILIES}
    if not all(by_family.values()):
        return wide
    shared = [reason for reason in by_family["LlamaForCausalLM"] if all(reason in own for own in by_family.values())]
    left = {name: [reason for reason in own if reason not in shared] for name, own in by_family.items()}
    single = [f"{name}: {', '.join(reasons)}" for name, reasons in left.items()] if all(left.values()) else []
    return [*wide, *shared, *single]


def family_of(config: Any) -> CausalFamily:
    """Return the first family that can represent a model; ``obstacles`` must be empty."""
    return next(family for family in FAMILIES if not family.obstacles(config))


def write(model: LanguageModel, config: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacles`` must be empty."""
    family = family_of(config)
    folder.mkdir(parents=True)
    tensors = safetensors.torch.save(_tensors(family, model, config), metadata={"format": "pt"})
    atomic_files.write_bytes(folder / "model.safetensors", tensors)
    symbols = {"pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}
    suppressed = sorted({PAD, UNKNOWN, BEGIN, *config.model.never_predicted})
    files: dict[str, Any] = {
        "config.json": {
            "architectures": [family.architecture],
            "model_type": family.kind,
            "vocab_size": len(tokenizer),
            **family.config(config),
            **symbols,
            "tie_word_embeddings": config.model.share == "all",
            "torch_dtype": "float32",
        },
        "generation_config.json": symbols | _generation(config) | {"suppress_tokens": suppressed},
        **tokenizer_files(tokenizer, context=config.data.context),
    }
    for name, content in files.items():
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))


def _generation(config: Any) -> dict[str, Any]:
    """Return the generation settings, with the sampling settings of the run."""
    own = config.generate
    values = {"max_new_tokens": own.length, "do_sample": True, "temperature": own.temperature or 1.0}
    limits = {"top_k": own.top_k or 0, "top_p": own.top_p or 1.0}
    return values | limits | ({} if own.min_p is None else {"min_p": own.min_p})


def own_tensors(model: LanguageModel, config: Any) -> dict[str, Tensor]:
    """Return the parameters by name in the layout of the families: rotary pairs in halves, embeddings multiplied."""
    stack, words = config.model.decoder, cast(TokenInput, model.embedding)
    own = {name: parameter.detach().float().cpu() for name, parameter in model.named_parameters(remove_duplicate=False)}
    if isinstance(stack.position, RotaryConfig) and stack.position.layout == "interleaved":
        heads = {"query": stack.heads, "key": stack.key_heads or stack.heads}
        for name in own:
            *_, kind, _ = name.split(".") if "." in name else ("", "", "")
            if ".mixer.attention." in name and kind in heads:
                own[name] = relayout(own[name], heads=heads[kind], to="half")
    own["embedding.weight"] = own["embedding.weight"] * words.scale
    if config.model.share == "all":
        for name in ("norm.weight", "norm.bias"):
            if name in own:
                own[name] = own[name] / words.scale
    return own


def _tensors(family: CausalFamily, model: LanguageModel, config: Any) -> dict[str, Tensor]:
    own = own_tensors(model, config)

    def find(name: str) -> Tensor:
        if name not in own and name.endswith(".bias"):  # a bias that the model lacks is 0 in transformers
            return torch.zeros(len(own[name.removesuffix("bias") + "weight"]))
        return own[name]

    tensors = {family.prefix + family.table: own["embedding.weight"]}
    for packing in family.packings(config.model.decoder):
        tensors[family.prefix + packing.name] = packing.pack([find(name) for name in packing.parameters])
    if config.model.share == "none":
        tensors[family.outputs[0]] = own["head.weight"]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


@dataclass(frozen=True)
class CausalExport:
    """A run opened for this format: see ``export_format.Export``."""

    run: RunFolder
    config: Any
    model: CausalModel

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        return lines_to_compare(self.run, source, limit)

    def write(self, folder: Path) -> None:
        write(self.model.model, self.config, self.model.tokenizer, folder)

    def compare(self, inputs: Sequence[str], folder: Path) -> LogitParity:
        transformers: Any = importlib.import_module("transformers")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        never = self.config.model.never_predicted
        return compare_logits(self.model, model, tokenizer, inputs, never=never)


def _open(run: RunFolder, checkpoint: str | None) -> CausalExport:
    model: Any = load(run.path, checkpoint=checkpoint, device="cpu")
    return CausalExport(run, run.config, model)


FORMAT = ExportFormat(
    form=CausalForm,
    open=_open,
    obstacles=lambda config: [*obstacles(config), *tokenizer_obstacles(config.data.tokenizer)],
    compared_by="transformers",
)

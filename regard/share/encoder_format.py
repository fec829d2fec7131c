"""Export of an encoder with an output layer as a folder of ``transformers``, for its AutoModel classes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from regard.attention.positions.absolute import sinusoids
from regard.attention.positions.rotary import relayout
from regard.core import atomic_files
from regard.core.export_forms import EncoderForm
from regard.core.task_table import locate
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.models.position_config import RotaryConfig
from regard.runs.run_folder import RunFolder
from regard.share.encoder_family import EncoderFamily, keys_that_fit
from regard.share.encoder_head import HEADS
from regard.share.encoder_parity import EncoderParity, compare_encoders
from regard.share.encoder_tokenizer import encoder_tokenizer_files, encoder_tokenizer_obstacles
from regard.share.export_format import ExportFormat, lines_to_compare
from regard.tasks.load import load_net

# Settings with which an encoder that is not a Transformer becomes one that transformers has.
TRANSFORMER = ["model.norm=pre", "model.position=rotary", "model.activation=gelu"]


def reasons_against(form: EncoderForm, config: Any) -> dict[str, str]:
    """Return all reasons why no class can represent a model, each with the setting that changes it, or ""."""
    reasons: dict[str, str] = {}
    encoder = config.model.encoder
    if encoder.kind != "transformer":
        reasons[f"its encoder is {encoder.kind}"] = "model.encoder.kind=transformer"
    else:
        _, reasons = keys_that_fit(encoder)
        reasons |= HEADS[form.head].obstacles(encoder)
    return reasons | dict(form.obstacles)


def obstacles(form: EncoderForm, config: Any) -> list[str]:
    """Return all reasons why no class can represent a model, with the settings that change them."""
    reasons = reasons_against(form, config)
    keys = [key for key in reasons.values() if key]
    needed = TRANSFORMER if config.model.encoder.kind != "transformer" else []
    advice = f"; train it with {' '.join(f'--set {key}' for key in (*keys, *needed))}" if keys else ""
    complete = advice if len(keys) == len(reasons) else ""
    return ["; ".join(reasons) + complete] if reasons else []


def write(form: EncoderForm, config: Any, net: nn.Module, codecs: Any, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacles`` must be empty.

    Args:
        form: the form of the network.
        config: the config of the run.
        net: the network.
        codecs: the codecs of the task.
        folder: the new folder.
    """
    family, _ = keys_that_fit(config.model.encoder)
    assert family is not None
    head = HEADS[form.head]
    types = len(codecs.tokenizer) + head.masks
    encoder = encoder_tensors(family, form, config, net, norm=not head.masks)
    tensors = plain_tensors(dict(encoder) | dict(head.tensors(family, config, net, codecs)))
    files: dict[str, Any] = {
        "config.json": {
            **encoder_config(family, form, config, types, family.classes + head.ending),
            "tie_word_embeddings": head.masks and config.model.share == "all",
            **head.labels(codecs, form.label_kind),
        },
        **encoder_tokenizer_files(codecs.tokenizer, columns=form.longest, mask=head.masks),
    }
    folder.mkdir(parents=True)
    saved = safetensors.torch.save(tensors, metadata={"format": "pt"})
    atomic_files.write_bytes(folder / "model.safetensors", saved)
    for name, content in files.items():
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))


def encoder_config(
    family: EncoderFamily, form: EncoderForm, config: Any, types: int, architecture: str
) -> dict[str, Any]:  # fmt: skip
    """Return the keys of config.json that describe the encoder.

    Args:
        family: the family of the encoder.
        form: the form of the network.
        config: the config of the run.
        types: the size of the vocabulary, with the mask.
        architecture: the name of the class.
    """
    return {
        "architectures": [architecture],
        "model_type": family.kind,
        "vocab_size": types,
        **family.config(config.model.encoder),
        "max_position_embeddings": family.first + form.longest,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "torch_dtype": "float32",
        **({"mask_token_id": types - 1} if HEADS[form.head].masks else {}),
    }


def plain_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in float32 that share no memory, as safetensors requires."""
    return {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in tensors.items()}


def encoder_tensors(
    family: EncoderFamily, form: EncoderForm, config: Any, net: nn.Module, *, norm: bool
) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
    """Yield the tensors up to the last norm; a bias that the model lacks is 0.

    Args:
        family: the family of the encoder.
        form: the form of the network.
        config: the config of the run.
        net: the network.
        norm: whether the last norm has its own weight and bias; otherwise they are 1 and 0, and the head has them.
    """
    encoder, own = config.model.encoder, dict[str, Tensor](net.named_parameters(remove_duplicate=False))
    scale = net.get_submodule("encoder.embedding").scale
    assert isinstance(scale, float)
    yield f"{family.prefix}embeddings.word_embeddings.weight", own["encoder.embedding.weight"] * scale
    yield from _positions(family, form, config, own)
    yield from family.extra(encoder).items()
    for number in range(encoder.layers):
        for foreign, name in family.layer(number):
            tensor = own.get(name)
            if tensor is None:
                tensor = torch.zeros(len(own[name.removesuffix("bias") + "weight"]))
            elif isinstance(encoder.position, RotaryConfig) and encoder.position.layout == "interleaved":
                if name.split(".")[-2] in ("query", "key"):
                    tensor = relayout(tensor.detach(), heads=encoder.heads, to="half")
            yield family.prefix + foreign, tensor
    for part, plain in (("weight", torch.ones(encoder.width)), ("bias", torch.zeros(encoder.width))):
        yield f"{family.prefix}{family.last}.{part}", own[f"encoder.norm.{part}"] if norm else plain


def _positions(
    family: EncoderFamily, form: EncoderForm, config: Any, own: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the table of positions: learned, the sinusoids, or 0 for a model without positions."""
    encoder, length = config.model.encoder, form.longest
    if encoder.position.kind == "rotary":
        return
    table = torch.zeros(family.first + length, encoder.width)
    if encoder.position.kind == "learned":
        table[family.first :] = own["encoder.embedding.position.table"][:length].detach()
    elif encoder.position.kind == "sinusoidal":
        table[family.first :] = sinusoids(torch.arange(length), encoder.width)
    yield f"{family.prefix}embeddings.position_embeddings.weight", table


@dataclass(frozen=True)
class EncoderExport:
    """A run opened for this format: see ``export_format.Export``."""

    run: RunFolder
    form: EncoderForm
    net: nn.Module
    codecs: Any

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        return lines_to_compare(self.run, source, limit)

    def write(self, folder: Path) -> None:
        write(self.form, self.run.config, self.net, self.codecs, folder)

    def compare(self, inputs: Sequence[str], folder: Path) -> EncoderParity:
        transformers: Any = importlib.import_module("transformers")
        kind = getattr(transformers, f"AutoModel{HEADS[self.form.head].ending}")
        model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        reader = transformers.AutoTokenizer.from_pretrained(folder)
        return compare_encoders(self.form, self.net, self.codecs, model, reader, inputs)


def form_of(config: Any) -> EncoderForm:
    """Return the form that the task of a config declares, which must be an encoder."""
    declared = locate(config.task.kind).task().export_form
    form = None if declared is None else declared(config)
    assert isinstance(form, EncoderForm)
    return form


def _open(run: RunFolder, checkpoint: str | None) -> EncoderExport:
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device="cpu")
    return EncoderExport(run, form_of(run.config), net.eval(), codecs)


def tokenizer_reasons(config: Any) -> list[str]:
    """Return all reasons why transformers cannot represent the tokenizer of a config."""
    tokenizer = getattr(config.data, "tokenizer", None)
    return encoder_tokenizer_obstacles(tokenizer) if tokenizer else []


def _obstacles(config: Any) -> list[str]:
    return [*obstacles(form_of(config), config), *tokenizer_reasons(config)]


FORMAT = ExportFormat(form=EncoderForm, open=_open, obstacles=_obstacles, compared_by="transformers")

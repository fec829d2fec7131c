"""Export of a classifier, a tagger or a masked model as a folder of ``transformers``, for its AutoModel classes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from regard.attention.positions.absolute import sinusoids
from regard.attention.positions.rotary import relayout
from regard.core import atomic_files
from regard.data.documents import Cut, read_documents
from regard.data.reading import read_lines
from regard.data.tokenizers.catalogue import BEGIN, END, PAD, load_tokenizer
from regard.models.position_config import RotaryConfig
from regard.runs.run_folder import RunFolder
from regard.share.encoder_family import LARGE_SLOPE, SMALL_SLOPE, EncoderFamily, keys_that_fit, shift_of
from regard.share.encoder_parity import compare_encoders
from regard.share.encoder_tokenizer import encoder_tokenizer_files, encoder_tokenizer_obstacle
from regard.share.export_format import PredictorFormat
from regard.tasks.classification.labelled_text import read_labelled
from regard.tasks.tagging.task import read_tagged

__all__ = ["CLASSES", "FORMAT", "obstacle", "write"]

CLASSES = {"classification": "ForSequenceClassification", "tagging": "ForTokenClassification", "masked": "ForMaskedLM"}
LARGEST_EPSILON = 1e-5  # of a masked model's norms
AUTO = {name: f"AutoModel{ending}" for name, ending in CLASSES.items()}


def obstacle(config: Any) -> str | None:
    """The reasons why no class can say a model, and the settings under which a training makes one that can be said."""
    reasons: dict[str, str] = {}
    model, side = config.model, config.model.encoder
    if side.kind != "transformer":
        reasons[f"its encoder is {side.kind}"] = "model.encoder.kind=transformer"
    else:
        _, reasons = keys_that_fit(side)
        if config.task.kind == "masked":
            reasons |= _masked_reasons(side)
    if config.task.kind == "classification" and model.pooling != "first":
        reasons[f"its pooling is {model.pooling}"] = "model.pooling=first"
    if config.task.kind == "classification" and model.pairs == "apart":
        reasons["it reads texts apart"] = "model.pairs=together"
    if config.task.kind == "classification" and config.data.input != "text":
        reasons[f"it reads {config.data.input}, and the model there reads tokens"] = ""
    if config.task.kind == "tagging" and model.affixes:
        reasons["it reads the affixes of words"] = "model.affixes=0"
    if not reasons:
        return None
    keys = [key for key in reasons.values() if key]
    wanted = ["model.norm=pre", "model.position=rotary", "model.activation=gelu"] if side.kind != "transformer" else []
    advice = f"; trained with {' '.join(f'--set {key}' for key in (*keys, *wanted))} it can" if keys else ""
    return "; ".join(reasons) + (advice if len(keys) == len(reasons) else "")


def _masked_reasons(side: Any) -> dict[str, str]:
    """Reasons why the head of a masked model there is none of ours."""
    reasons = {}
    if side.activation == "relu2":
        reasons["its activation is relu2, also that of the head there"] = "model.activation=gelu"
    if (side.normalisation_epsilon or 0) > LARGEST_EPSILON:
        reasons["the epsilon of its norms is large, and the head there loses it"] = "model.normalisation_epsilon=1e-5"
    return reasons


def write(config: Any, net: nn.Module, codec: Any, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacle`` must be None. ``codec``: the task's."""
    family, _ = keys_that_fit(config.model.encoder)
    assert family is not None
    task, types = config.task.kind, len(codec.tokenizer) + (config.task.kind == "masked")
    tensors = dict(_encoder(family, config, net, types)) | dict(_HEADS[task](family, config, net, codec))
    tensors = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in tensors.items()}
    longest = columns_of(config)
    files: dict[str, Any] = {
        "config.json": {
            "architectures": [family.classes + CLASSES[task]],
            "model_type": family.kind,
            "vocab_size": types,
            **family.config(config.model.encoder),
            "max_position_embeddings": family.first + longest,
            "pad_token_id": PAD,
            "bos_token_id": BEGIN,
            "eos_token_id": END,
            "tie_word_embeddings": task == "masked" and config.model.share == "all",
            "torch_dtype": "float32",
            **({"mask_token_id": types - 1} if task == "masked" else {}),
            **_labels(config, codec),
        },
        **encoder_tokenizer_files(codec.tokenizer, columns=longest, mask=task == "masked"),
    }
    folder.mkdir(parents=True)
    saved = safetensors.torch.save(tensors, metadata={"format": "pt"})
    atomic_files.write_bytes(folder / "model.safetensors", saved)
    for name, content in files.items():
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))


def columns_of(config: Any) -> int:
    """Columns that the encoder reads at most, with the symbols around a text."""
    return int(config.data.context if config.task.kind == "masked" else config.longest)


def _labels(config: Any, codec: Any) -> dict[str, Any]:
    """Names of the classes, and the kind of loss that training there would go on with."""
    if config.task.kind == "masked":
        return {}
    names = codec.answer.class_names or ("LABEL_0",)
    found: dict[str, Any] = {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
    problems = {"class": "single_label_classification", "several": "multi_label_classification", "number": "regression"}
    return found | ({"problem_type": problems[config.data.label_kind]} if config.task.kind == "classification" else {})


def _encoder(family: EncoderFamily, config: Any, net: nn.Module, types: int) -> Iterator[tuple[str, Tensor]]:
    """The tensors up to the last norm: none of ours that is missing is a bias of 0."""
    side, own = config.model.encoder, dict[str, Tensor](net.named_parameters(remove_duplicate=False))
    scale = net.get_submodule("encoder.embedding").scale
    assert isinstance(scale, float)
    yield f"{family.prefix}embeddings.word_embeddings.weight", own["encoder.embedding.weight"] * scale
    yield from _positions(family, config, own)
    yield from family.beside(side).items()
    for number in range(side.layers):
        for there, here in family.layer(number):
            tensor = own.get(here)
            if tensor is None:
                tensor = torch.zeros(len(own[here.removesuffix("bias") + "weight"]))
            elif isinstance(side.position, RotaryConfig) and side.position.layout == "interleaved":
                if here.split(".")[-2] in ("query", "key"):
                    tensor = relayout(tensor.detach(), heads=side.heads, to="half")
            yield family.prefix + there, tensor
    masked = config.task.kind == "masked"
    for part, plain in (("weight", torch.ones(side.width)), ("bias", torch.zeros(side.width))):
        yield f"{family.prefix}{family.last}.{part}", plain if masked else own[f"encoder.norm.{part}"]


def _positions(family: EncoderFamily, config: Any, own: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The table of positions; that of sinusoids is written out, and without positions it is 0."""
    side, columns = config.model.encoder, columns_of(config)
    if side.position.kind == "rotary":
        return
    table = torch.zeros(family.first + columns, side.width)
    if side.position.kind == "learned":
        table[family.first :] = own["encoder.embedding.position.table"][:columns].detach()
    elif side.position.kind == "sinusoidal":
        table[family.first :] = sinusoids(torch.arange(columns), side.width)
    yield f"{family.prefix}embeddings.position_embeddings.weight", table


def _tagging_head(family: EncoderFamily, config: Any, net: Any, codec: Any) -> Iterator[tuple[str, Tensor]]:
    yield "classifier.weight", net.output.weight
    yield "classifier.bias", net.output.bias


def _classification_head(family: EncoderFamily, config: Any, net: Any, codec: Any) -> Iterator[tuple[str, Tensor]]:
    """δ I before tanh and W / δ after it; logits over the temperature, and numbers in the unit of the labels."""
    below, above = family.classes_by
    width = net.output.in_features
    yield f"{below}.weight", SMALL_SLOPE * torch.eye(width)
    yield f"{below}.bias", torch.zeros(width)
    factor, shift = told_scale(config, codec)
    yield f"{above}.weight", net.output.weight * (factor / SMALL_SLOPE)
    yield f"{above}.bias", net.output.bias * factor + shift


def told_scale(config: Any, codec: Any) -> tuple[float, float]:
    """Factor and shift from the network's outputs to what is told of them: logits over the temperature, or numbers."""
    factor, shift = codec.answer.output_scale
    return factor, shift


def _masked_head(family: EncoderFamily, config: Any, net: Any, codec: Any) -> Iterator[tuple[str, Tensor]]:
    """I and a shift before activation and norm, and our last norm in that one's place."""
    dense, norm, output, bias = family.masked
    own, scale = net.head, net.encoder.embedding.scale
    shared = config.model.share == "all"
    yield f"{dense}.weight", LARGE_SLOPE * torch.eye(net.encoder.width)
    yield f"{dense}.bias", shift_of(net.encoder.width)
    for part in ("weight", "bias"):
        yield f"{norm}.{part}", getattr(net.encoder.norm, part) / (scale if shared else 1.0)
    yield f"{output}.weight", own.weight * (scale if shared else 1.0)
    yield bias, torch.zeros(len(own.weight)) if own.bias is None else own.bias
    if family.kind == "megatron-bert":
        yield "cls.predictions.bias", torch.zeros(len(own.weight)) if own.bias is None else own.bias


_HEADS: dict[str, Any] = {
    "classification": _classification_head,
    "tagging": _tagging_head,
    "masked": _masked_head,
}


def _run_obstacle(run: RunFolder) -> str | None:
    return obstacle(run.config) or encoder_tokenizer_obstacle(load_tokenizer(run.tokenizers, "text"))


def _texts(run: RunFolder, source: Path | None, most: int) -> list[str]:
    """Lines to compare on, of a file or of the run's own data: texts of an example with a tab between."""
    if source is not None:
        return list(islice((line for line in read_lines(source) if line.strip()), most))
    data: Any = run.config.data
    task = run.config.task.kind
    corpora = (data.valid or data.train)[:1]
    if task == "classification":
        return ["\t".join(each.texts) for each in islice(read_labelled(corpora, data), most)]
    if task == "tagging":
        return [" ".join(each.tokens) for each in islice(read_tagged(corpora, data), most)]
    documents = (each.text for text in corpora for each in read_documents(text, Cut(data.documents, data.separator)))
    return list(islice(documents, most))


def _load(task: str, folder: Path) -> tuple[Any, Any]:
    transformers: Any = importlib.import_module("transformers")
    model = getattr(transformers, AUTO[task]).from_pretrained(folder, dtype=torch.float32).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def _compare(run: RunFolder, predictor: Any, texts: list[str], folder: Path) -> Any:
    theirs, reader = _load(run.config.task.kind, folder)
    codec = _codec(run, predictor)
    factor = (1.0, 0.0) if run.config.task.kind == "masked" else told_scale(run.config, codec)
    return compare_encoders(run.config, _net(predictor), codec, theirs, reader, texts, told=factor)


def _net(predictor: Any) -> nn.Module:
    net: nn.Module = predictor.model if hasattr(predictor, "model") else predictor.net
    return net


def _codec(run: RunFolder, predictor: Any) -> Any:
    return predictor if run.config.task.kind == "masked" else predictor.codec


FORMAT = PredictorFormat(
    write=lambda run, predictor, folder: write(run.config, _net(predictor), _codec(run, predictor), folder),
    compare=_compare,
    texts=_texts,
    obstacle=_run_obstacle,
    compared_by="transformers",
)

"""Export of a classifier, tagger or masked model to ONNX: one graph from the ids of pieces to logits."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.core import atomic_files
from regard.core.export_forms import EncoderForm
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.runs.run_folder import RunFolder
from regard.share.encoder_head import HEADS
from regard.share.encoder_parity import MAX_TOKENS, ROWS, EncoderParity
from regard.share.export_format import ExportFormat, lines_to_compare
from regard.share.onnx import traceable
from regard.share.onnx_trace import SIZES, GraphNames, data_free, graph
from regard.tasks.load import load_net

FILE = "model.onnx"
NAMES = GraphNames(["tokens", "valid"], ["logits"])


class NetPart(nn.Module):
    """The logits of a network, times a factor and plus a shift."""

    def __init__(self, form: EncoderForm, net: nn.Module, scale: tuple[float, float]) -> None:
        super().__init__()
        self.net, self.head, self.scale = net, HEADS[form.head], scale

    def forward(self, tokens: Tensor, valid: Tensor) -> Tensor:
        with data_free() if torch.compiler.is_exporting() else nullcontext():
            return self.logits(tokens, valid)

    def logits(self, tokens: Tensor, valid: Tensor) -> Tensor:
        factor, shift = self.scale
        return self.head.logits(self.net, self.net(tokens, Span.of(valid))) * factor + shift


def obstacles(form: EncoderForm, config: Any) -> list[str]:
    """Return all reasons, known from the config, why this model cannot be exported to ONNX."""
    data, model = config.data, config.model
    reasons = {
        "a baseline is added to its outputs; train it with --set model.wide=false": bool(getattr(model, "wide", False)),
        "it uses the affixes of words; train it with --set model.affixes=0": bool(getattr(model, "affixes", 0)),
        "it encodes texts separately; train it with --set model.pairs=together": getattr(model, "pairs", "") == "apart",
        "it reads long texts in windows; train it with --set data.long_texts=cropped": getattr(data, "window", None)
        is not None,
        f"its input is {getattr(data, 'input', 'text')}, and only text is supported": getattr(data, "input", "text")
        != "text",
        "it has no masked head": form.head == "mask" and not model.head,
    }
    return [reason for reason, holds in reasons.items() if holds]


def write(form: EncoderForm, net: nn.Module, codecs: Any, folder: Path) -> None:
    """Write the network into a new folder, in float32.

    Raises:
        ConfigError: torch cannot export the network; nothing is written.
    """
    head = HEADS[form.head]
    examples = [_example(number) for number in (0, 1)]
    part = NetPart(form, traceable(net), head.scale(codecs)).eval()
    program = graph(part, (examples[0], examples[1]), NAMES)
    config = {
        "format": "regard-onnx", "version": 1, "head": form.head, "longest": form.longest, "pad": PAD,
        "unknown": UNKNOWN, "begin": BEGIN, "end": END, "types": len(codecs.tokenizer) + head.masks,
        **NAMES._asdict(), **({"mask": len(codecs.tokenizer)} if head.masks else {}),
        **head.labels(codecs, form.label_kind),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    program.save(folder / FILE)
    pieces = codecs.tokenizer.pieces(range(len(codecs.tokenizer)))
    for name, content in (("config.json", config), ("pieces.json", pieces)):
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))


def _example(number: int) -> tuple[Tensor, Tensor]:
    shape = SIZES["batch"][number], SIZES["source"][number]
    return torch.full(shape, UNKNOWN), torch.ones(shape, dtype=torch.bool)


@dataclass(frozen=True)
class NetExport:
    """A run opened for this format: see ``export_format.Export``."""

    run: RunFolder
    form: EncoderForm
    net: nn.Module
    codecs: Any

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        return lines_to_compare(self.run, source, limit)

    def write(self, folder: Path) -> None:
        write(self.form, self.net, self.codecs, folder)
        shutil.copytree(self.run.tokenizers, folder / "tokenizer")

    def compare(self, inputs: Sequence[str], folder: Path) -> EncoderParity:
        return compare(self.form, self.net, self.codecs, folder, inputs)


@torch.no_grad()
def compare(form: EncoderForm, net: nn.Module, codecs: Any, folder: Path, texts: Sequence[str]) -> EncoderParity:
    """Compare a network with its export on random rows, two of them padded, and on texts, by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / FILE), providers=["CPUExecutionProvider"])
    part = NetPart(form, net.float(), HEADS[form.head].scale(codecs)).eval()
    length = max(1, min(form.longest, MAX_TOKENS))
    tokens = torch.randint(4, len(codecs.tokenizer), (ROWS, length), generator=torch.Generator().manual_seed(0))
    valid = torch.ones_like(tokens, dtype=torch.bool)
    valid[:2, -(length // 2) or length :] = False
    encoded = [HEADS[form.head].pieces(codecs.tokenizer, text) for text in texts]
    rows = [torch.tensor([row]) for row in encoded if 0 < len(row) <= form.longest]
    batches = [(torch.where(valid, tokens, PAD), valid), *((row, torch.ones_like(row).bool()) for row in rows)]
    difference = largest = 0.0
    for batch, mask in batches:
        own = part(batch, mask)
        other = torch.from_numpy(session.run(None, {"tokens": batch.numpy(), "valid": mask.numpy()})[0])
        if own.dim() == 3:  # only at valid positions
            own, other = own[mask], other[mask]
        difference = max(difference, float((own - other).abs().max()))
        largest = max(largest, float(own.abs().max()))
    return EncoderParity(sum(len(batch) for batch, _ in batches), difference, largest, len(rows), len(rows))


def _open(run: RunFolder, checkpoint: str | None) -> NetExport:
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device="cpu")
    form = FORMAT.form_of(run.config)
    assert isinstance(form, EncoderForm)
    return NetExport(run, form, net.eval(), codecs)


def _obstacles(config: Any) -> list[str]:
    form = FORMAT.form_of(config)
    assert isinstance(form, EncoderForm)
    return obstacles(form, config)


FORMAT = ExportFormat(
    form=EncoderForm, open=_open, obstacles=_obstacles, libraries=("onnx", "onnxscript"), compared_by="onnxruntime"
)

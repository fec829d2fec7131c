"""Export of a network with a fixed forward pass to ONNX: one graph from raw inputs to outputs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core import atomic_files
from regard.core.export_forms import EncoderForm, ForwardForm
from regard.core.wording import pluralize
from regard.errors import ConfigError
from regard.fields.frames import Frames
from regard.fields.graphs import Graphs
from regard.fields.image import Images
from regard.fields.items import Items
from regard.fields.series import SeriesWindows
from regard.fields.sound import Sounds
from regard.fields.text import Text
from regard.fields.tokens import Tokens
from regard.runs.run_folder import RunFolder, environment
from regard.share.encoder_head import PROBLEMS
from regard.share.encoder_parity import TOLERANCE
from regard.share.export_format import ExportFormat, lines_to_compare
from regard.share.onnx import traceable
from regard.share.onnx_inputs import (
    FieldPart,
    ForwardPart,
    FramePart,
    ItemPart,
    MaskPart,
    PixelPart,
    SoundPart,
    TokenPart,
)
from regard.share.onnx_tables import GraphPart, LinkPart, NodePart, SeriesPart
from regard.share.onnx_trace import SIZES, graph
from regard.tasks.load import load_net

FILE = "model.onnx"
PARTS: Mapping[type[Any], type[FieldPart]] = {
    Text: TokenPart, Tokens: TokenPart, Items: ItemPart, Frames: FramePart, Sounds: SoundPart, Images: PixelPart,
    SeriesWindows: SeriesPart, Graphs: GraphPart,
}  # fmt: skip


def part_of(form: ForwardForm, net: nn.Module, codecs: Any) -> ForwardPart:
    """Return the network with the steps that its graph computes. Raises ConfigError if its field has no such steps."""
    if isinstance(form, EncoderForm) and form.head == "mask":
        return MaskPart(net, codecs, longest=form.longest).eval()
    if form.input != "field":
        return (LinkPart if form.input == "ends" else NodePart)(net, codecs).eval()
    fields = tuple(codecs.fields.values())
    parts = [part for kind, part in PARTS.items() if isinstance(fields[0], kind)]
    if len(fields) > 1 or not parts:
        names = ", ".join(type(field).__name__ for field in fields)
        why = f"its inputs are {names}; ONNX graphs have one of {', '.join(kind.__name__ for kind in PARTS)}"
        raise ConfigError("this model cannot be exported to onnx", where="--to onnx", why=why, help="--to hub")
    return parts[0](net, codecs).eval()


def obstacles(form: ForwardForm, config: Any) -> list[str]:
    """Return all reasons, known from the config, why this model cannot be exported to ONNX."""
    model = config.model
    masked = isinstance(form, EncoderForm) and form.head == "mask"
    reasons = {
        "a baseline is added to its outputs; train it with --set model.wide=false": bool(getattr(model, "wide", False)),
        "it uses the affixes of words; train it with --set model.affixes=0": bool(getattr(model, "affixes", 0)),
        "it has no masked head": masked and not model.head,
    }
    return [reason for reason, holds in reasons.items() if holds]


def write(form: ForwardForm, net: nn.Module, codecs: Any, folder: Path) -> None:
    """Write the network into a new folder, in float32.

    Raises:
        ConfigError: torch cannot export the network; nothing is written.
    """
    part = part_of(form, traceable(net), codecs)
    examples = part.example(0), part.example(1)
    program = graph(part, examples, part.names, path=part.path, lengths=part.lengths)
    config = {
        "format": "regard-onnx", "version": 1, **_encoder_facts(form), **part.names._asdict(),
        "shapes": dict(zip(part.names.inputs, map(_shape, *examples), strict=True)), **part.facts(),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    program.save(folder / FILE)
    atomic_files.write_bytes(folder / "config.json", atomic_files.json_bytes(config))
    if part.tokenizer is not None:
        pieces = part.tokenizer.pieces(range(len(part.tokenizer)))
        atomic_files.write_bytes(folder / "pieces.json", atomic_files.json_bytes(pieces))


def _encoder_facts(form: ForwardForm) -> dict[str, Any]:
    """Return the entries of ``config.json`` about an encoder of tokens."""
    if not isinstance(form, EncoderForm):
        return {}
    kind = {} if form.label_kind is None else {"problem_type": PROBLEMS[form.label_kind]}
    return {"head": form.head, "longest": form.longest, **kind}


def _shape(one: Tensor, other: Tensor) -> list[str | int]:
    """Return the sizes of an input; dynamic ones by name."""
    names = {sizes: name for name, sizes in SIZES.items()}
    pairs = zip(one.shape, other.shape, strict=True)
    return [pair[0] if pair[0] == pair[1] else names.get(pair, "source") for pair in pairs]


class OutputParity(NamedTuple):
    """Result of a comparison of outputs."""

    rows: int
    difference: float  # maximum over all outputs
    largest: float  # size of the largest output

    @property
    def same(self) -> bool:
        """Return whether all differences are within rounding."""
        return self.difference <= TOLERANCE * max(self.largest, 1.0)

    def __str__(self) -> str:
        warning = "" if self.same else "warning: the export differs: "
        return f"{warning}outputs of {pluralize(self.rows, 'row')} differ by at most {self.difference:.1e}"

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the folder of the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "float32"}
        atomic_files.write_json(folder / "parity.json", record | self._asdict() | {"environment": environment()})


@dataclass(frozen=True)
class NetExport:
    """A run opened for this format: see ``export_format.Export``."""

    run: RunFolder
    form: ForwardForm
    net: nn.Module
    codecs: Any

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        return lines_to_compare(self.run, source, limit)

    def write(self, folder: Path) -> None:
        write(self.form, self.net, self.codecs, folder)
        if self.run.tokenizers.is_dir():
            shutil.copytree(self.run.tokenizers, folder / "tokenizer")

    def compare(self, inputs: Sequence[str], folder: Path) -> OutputParity | None:
        return compare(self.form, self.net, self.codecs, folder, inputs)


@torch.no_grad()
def compare(form: ForwardForm, net: nn.Module, codecs: Any, folder: Path, lines: Sequence[str]) -> OutputParity | None:
    """Compare a network with its export by onnxruntime, on lines and random inputs; None without inputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / FILE), providers=["CPUExecutionProvider"])
    part, rows, difference, largest = part_of(form, net.float(), codecs), 0, 0.0, 0.0
    for inputs, expected, answered in part.comparisons(lines):
        read = dict(zip(part.names.inputs, (tensor.numpy() for tensor in inputs), strict=True))
        outputs = torch.from_numpy(session.run(None, read)[0])
        outputs = outputs if answered is None else outputs[answered]
        rows += len(expected)
        difference = max(difference, float((expected - outputs).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    return OutputParity(rows, difference, largest) if rows else None


def _open(run: RunFolder, checkpoint: str | None) -> NetExport:
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device="cpu")
    form = FORMAT.form_of(run.config)
    assert isinstance(form, ForwardForm)
    part_of(form, net, codecs)  # raises the error of an unsupported field before the folder exists
    return NetExport(run, form, net.eval(), codecs)


def _obstacles(config: Any) -> list[str]:
    form = FORMAT.form_of(config)
    assert isinstance(form, ForwardForm)
    return obstacles(form, config)


FORMAT = ExportFormat(
    form=ForwardForm, open=_open, obstacles=_obstacles, libraries=("onnx", "onnxscript"), compared_by="onnxruntime"
)

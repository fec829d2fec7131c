"""Export of any translation model to ONNX: an encoder, and a decoder step with its state as named tensors."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.attention.positions.absolute import SinusoidalPosition, max_positions
from regard.attention.span import Span
from regard.core import atomic_files
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent.cells import Cell
from regard.share.export_format import Decode
from regard.share.onnx_cells import traced_run
from regard.share.onnx_parts import DecoderStart, EncoderPart, StepPart, filled, named
from regard.share.onnx_trace import SIZES, GraphNames, data_free, graph
from regard.share.pair_export import PairExport, pair_format

Net = TypeVar("Net", bound=nn.Module)
ROWS = 32  # sentences in a batch; sorted by length, since a batch runs until its last sentence has ended


def write(model: EncoderDecoder, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    """Write the model into a new folder, in float32.

    Raises:
        ConfigError: torch cannot export the model; nothing is written.
    """
    model = traceable(model)
    sources, starts = [_source(example) for example in (0, 1)], [_start(model, example) for example in (0, 1)]
    memory, state = (list(named(tree, name)) for name, tree in zip(DecoderStart._fields, starts[0], strict=True))
    steps = [
        (torch.full((len(valid),), BEGIN), valid, *named(start, "").values())
        for (_, valid), start in zip(sources, starts, strict=True)
    ]
    encoder = GraphNames(["source", "valid"], [*memory, *state])
    decoder = GraphNames(
        ["tokens", "valid", *memory, *state], ["log_probabilities", *(f"new.{name}" for name in state)]
    )
    graphs = {  # the decoder first: it is more often the one that cannot be exported
        "decoder": graph(StepPart(model, starts[0]), (steps[0], steps[1]), decoder),
        "encoder": graph(EncoderPart(model), (sources[0], sources[1]), encoder),
    }
    config = {
        "format": "regard-onnx",
        "version": 1,
        "pad": PAD,
        "unknown": UNKNOWN,
        "begin": BEGIN,
        "end": END,
        "never": [PAD, BEGIN],
        "source_types": len(source),
        "target_types": len(target),
        "longest": max_positions(model),
        "encoder": encoder._asdict(),
        "decoder": decoder._asdict() | {"state": state},
    }
    folder.mkdir(parents=True)
    for name, program in graphs.items():
        program.save(folder / f"{name}.onnx")
    for name, tokenizer in (("source", source), ("target", target)):
        pieces = tokenizer.pieces(range(len(tokenizer)))
        atomic_files.write_bytes(folder / f"{name}_pieces.json", atomic_files.json_bytes(pieces))
    atomic_files.write_bytes(folder / "config.json", atomic_files.json_bytes(config))
    atomic_files.write_bytes(folder / "README.md", _readme().encode())


def traceable(model: Net) -> Net:
    """Return a copy in float32 that a trace can follow: without loops over positions and tables of fixed length."""
    model = copy.deepcopy(model).float().cpu().eval()
    for module in model.modules():
        if isinstance(module, SinusoidalPosition):
            module.table = module.table[:0]  # an empty table: every position is computed
        elif isinstance(module, Cell):
            cast(Any, module).run = traced_run(module)
    return model


def _source(example: int) -> tuple[Tensor, Tensor]:
    """Return a source and its mask in the sizes of example 0 or 1."""
    shape = SIZES["batch"][example], SIZES["source"][example]
    return torch.full(shape, END), torch.ones(shape, dtype=torch.bool)


@torch.no_grad()
def _start(model: EncoderDecoder, example: int) -> DecoderStart:
    """Return memory and state after the past of example 0 or 1, as zeros. Fake tensors compute only their shapes."""
    with FakeTensorMode(allow_non_fake_inputs=True), data_free():
        source, valid = _source(example)
        start = DecoderStart.of(model.session(source, Span.of(valid)))
        tokens = torch.full((len(source), SIZES["past"][example]), BEGIN)
        _, session = model.step(tokens, start.session(valid))
        final = start.after(session)
    zeros: DecoderStart = filled(
        final, (torch.zeros(leaf.shape, dtype=leaf.dtype) for leaf in named(final, "").values())
    )
    return zeros


def _readme() -> str:
    example = files("regard.share").joinpath("onnx_example.py").read_text(encoding="utf-8")
    _, _, code = example.partition('"""\n\n')
    return README.format(code=code)


def decoder(folder: Path) -> Decode:
    """Return a greedy decoder over an export, by onnxruntime."""
    from regard.share.onnx_example import Exported

    exported = Exported(str(folder))

    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        outputs, limit = dict[int, list[int]](), min(max_length, exported.config["longest"] or max_length)
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        for first in range(0, len(order), ROWS):
            batch = order[first : first + ROWS]
            outputs |= zip(batch, exported.greedy([list(sources[number]) for number in batch], limit), strict=True)
        return [outputs[number][: max_length - 1] for number in range(len(sources))]

    return decode


README = """\
# A model in ONNX

Exported by Regard. `encoder.onnx` encodes sources once, and `decoder.onnx` computes one step. All numbers are float32;
batch, source and past may have any size.

| | inputs | outputs |
|---|---|---|
| encoder | `source` (batch, source): ids of pieces, each row ended by `end` and padded with `pad`; `valid`: False for padding | `memory.…`, and the first `state.…` |
| decoder | `tokens` (batch), in the first step `begin`; `valid`; `memory.…`; `state.…` | `log_probabilities` (batch, types) of the next piece; `new.state.…`, the state of the next step |

`config.json` has the names of inputs and outputs in order, and the ids of special pieces. No output may contain the
pieces in `never`. If `longest` is a number, it is the maximum length of source and output. The id of a piece is its index
in `source_pieces.json` or `target_pieces.json`; the tokenizers are in `tokenizer/`. Row i reads sentence i: a beam
repeats rows of memory and `valid`, and reorders rows of the state.

Greedy decoding with only onnxruntime and NumPy:

```python
{code}```

`Exported(".").greedy([[7, 5, 9]])` returns the ids of the output of each source.
"""  # noqa: E501


def _export(export: PairExport, folder: Path) -> None:
    write(export.model.model, export.model.source, export.model.target, folder)
    shutil.copytree(export.run.tokenizers, folder / "tokenizer")


def obstacles(config: ModelConfig) -> list[str]:
    """Return all reasons, known from the config, why this model cannot be exported to ONNX."""
    decoder = config.decoder
    forgets = decoder.kind == "transformer" and decoder.position.kind == "forgetting"
    reasons = {
        "its outputs copy from the source": config.copying,
        "its positions are forgetting: the exported state has keys and values, but no sums of gates": forgets,
    }
    return [reason for reason, holds in reasons.items() if holds]


FORMAT = pair_format(
    _export,
    lambda model, folder: decoder(folder),
    obstacles=lambda config: obstacles(config.model),
    libraries=("onnx", "onnxscript"),
    compared_by="onnxruntime",
)

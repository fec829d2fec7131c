"""Any model in ONNX: an encoder, and one step of its decoder with all that it remembers as named tensors."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.attention.positions.absolute import LearnedPosition, SinusoidalPosition
from regard.core import atomic_files
from regard.data.tokenizers.catalogue import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent.cells import Cell
from regard.share.onnx_cells import runner
from regard.share.onnx_parts import Opened, OpeningPart, SteppingPart, filled, named
from regard.share.onnx_trace import SIZES, Names, answered, graph
from regard.share.parity import Decode

__all__ = ["absent_library", "decoder", "write"]

ROWS = 32  # that are decoded together, alike in length, since all go on until the last has ended


def write(model: EncoderDecoder, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    """Write the model into a new folder, in float32. ConfigError, and no folder, where torch cannot export it."""
    model = _traceable(model)
    sources, opened = [_source(number) for number in (0, 1)], [_opened(model, number) for number in (0, 1)]
    memory, state = (list(named(tree, name)) for name, tree in zip(Opened._fields, opened[0], strict=True))
    steps = [
        (torch.full((len(valid),), BEGIN), valid, *named(before, "").values())
        for (_, valid), before in zip(sources, opened, strict=True)
    ]
    encoder = Names(["source", "valid"], [*memory, *state])
    decoder = Names(["tokens", "valid", *memory, *state], ["log_probabilities", *(f"new.{name}" for name in state)])
    graphs = {
        "encoder": graph(OpeningPart(model), (sources[0], sources[1]), encoder),
        "decoder": graph(SteppingPart(model, opened[0]), (steps[0], steps[1]), decoder),
    }
    tables = [len(part.table) for part in model.modules() if isinstance(part, LearnedPosition)]
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
        "longest": min(tables, default=None),
        "encoder": encoder._asdict(),
        "decoder": decoder._asdict() | {"state": state},
    }
    folder.mkdir(parents=True)
    for name, made in graphs.items():
        made.save(folder / f"{name}.onnx")
    for name, tokenizer in (("source", source), ("target", target)):
        pieces = tokenizer.pieces(range(len(tokenizer)))
        atomic_files.write_bytes(folder / f"{name}_pieces.json", atomic_files.json_bytes(pieces))
    atomic_files.write_bytes(folder / "config.json", atomic_files.json_bytes(config))
    atomic_files.write_bytes(folder / "README.md", _readme().encode())


def _traceable(model: EncoderDecoder) -> EncoderDecoder:
    """A copy in float32 without what a trace cannot follow: loops over columns, and a table that ends somewhere."""
    model = copy.deepcopy(model).float().cpu().eval()
    for part in model.modules():
        if isinstance(part, SinusoidalPosition):
            part.table = part.table[:0]  # so that each is computed
        elif isinstance(part, Cell):
            cast(Any, part).run = runner(part)
    return model


def _source(number: int) -> tuple[Tensor, Tensor]:
    """Any source in the sizes of that example."""
    shape = SIZES["batch"][number], SIZES["source"][number]
    return torch.full(shape, END), torch.ones(shape, dtype=torch.bool)


@torch.no_grad()
def _opened(model: EncoderDecoder, number: int) -> Opened:
    """What is remembered after the past of that example, as zeros: found without computing anything."""
    with FakeTensorMode(allow_non_fake_inputs=True), answered():
        source, valid = _source(number)
        opened = Opened.of(model.session(source, valid), valid)
        tokens = torch.full((len(source), SIZES["past"][number]), BEGIN)
        _, session = model.step(tokens, opened.session(valid))
        reached = opened.after(session)
    zeros: Opened = filled(reached, (torch.zeros(leaf.shape, dtype=leaf.dtype) for leaf in named(reached, "").values()))
    return zeros


def _readme() -> str:
    example = files("regard.share").joinpath("onnx_example.py").read_text(encoding="utf-8")
    _, _, code = example.partition('"""\n\n')
    return README.format(code=code)


def absent_library() -> str | None:
    """Why what was written cannot be compared here; None if it can."""
    return None if importlib.util.find_spec("onnxruntime") else "onnxruntime is not installed"


def decoder(folder: Path) -> Decode:
    """What an export says, greedily, of and as piece numbers. Needs onnxruntime."""
    from regard.share.onnx_example import Exported

    theirs = Exported(str(folder))

    def decode(sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        outputs, most = dict[int, list[int]](), min(longest, theirs.config["longest"] or longest)
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        for first in range(0, len(order), ROWS):
            batch = order[first : first + ROWS]
            outputs |= zip(batch, theirs.greedy([list(sources[number]) for number in batch], most), strict=True)
        return [outputs[number][: longest - 1] for number in range(len(sources))]

    return decode


README = """\
# A model in ONNX

Exported by Regard. `encoder.onnx` reads sources once, and `decoder.onnx` makes one step. All numbers are float32; batch,
source and past are of any size.

| | takes | gives |
|---|---|---|
| encoder | `source` (batch, source): numbers of pieces, each row ended by `end` and filled up by `pad`; `valid`: False for what fills up | `memory.…`, and the first `state.…` |
| decoder | `tokens` (batch), `begin` at first; `valid`; `memory.…`; `state.…` | `log_probabilities` (batch, types) of the next piece; `new.state.…`, which it takes next |

Names and their order are in `config.json`, as are the numbers of special pieces. `never` are pieces that no output has;
where `longest` is a number, neither source nor output may be longer. The piece of a number is its place in
`source_pieces.json` or `target_pieces.json`; the tokenizers are in `tokenizer/`. Row i reads sentence i: a beam repeats
rows of memory and `valid`, and reorders rows of the state.

Greedy decoding, with onnxruntime and numpy alone:

```python
{code}```

`Exported(".").greedy([[7, 5, 9]])` gives the numbers of an output's pieces for those of a source.
"""  # noqa: E501

"""A stack of a Transformer's layers as a program: from tokens to normalized features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, SelfAttention
from regard.attention.positions.absolute import NoPosition, Position, max_positions
from regard.attention.positions.rotary import Rotary
from regard.engine.native_layer import Attention, NativeFrame, Scratch, add_norm, feed_forward_layer, known_activation
from regard.models.input import TokenInput
from regard.models.transformer.layer import TransformerLayer
from regard.native.library import Library, Operation
from regard.native.program import Format, Program, filled

MIN_POSITIONS = 256  # of a table that is looked up


def native_obstacle(layer: TransformerLayer) -> str | None:
    """Return the reason why the kernels cannot compute a layer that has a fast implementation, or None."""
    if not known_activation(layer.feed_forward):
        return "the kernels do not support its activation"
    norms = [frame.norm for name, frame in layer.named_children() if name.startswith("around_")]
    if not all(isinstance(norm, (nn.LayerNorm, nn.RMSNorm, nn.Identity)) for norm in norms):
        return "the kernels do not support its normalization"
    return None


class NativeStack:
    """A stack of layers as a program.

    ``own_cells``: self-attention reads and writes tables; otherwise it is that of an encoder, over the rows of a call.
    """

    def __init__(
        self, library: Library, format: Format, embedding: TokenInput, layers: Iterable[TransformerLayer],
        norm: nn.Module, *, own_cells: bool,
    ) -> None:  # fmt: skip
        self.program = program = Program(library, format)
        stack = list(layers)
        self.scratch = scratch = Scratch.of(program, stack, embedding.width)
        self.lookups: list[tuple[Operation, Position | Rotary]] = []
        self.positions = 0
        self.width = embedding.width
        program.embed(embedding.weight.detach() * embedding.scale, scratch.x)
        if type(embedding.position) is not NoPosition:
            no_positions = torch.zeros(0, scratch.x.width)
            self.lookups.append((program.position(no_positions, scratch.x), embedding.position))
        if any(layer.start_mix is not None for layer in stack):
            program.copy(scratch.x, scratch.embedded)
        for number, layer in enumerate(stack):
            self._add(layer, number if own_cells else None)
        self.features = scratch.x if isinstance(norm, nn.Identity) else scratch.normed
        add_norm(program, norm, scratch.x, self.features)

    def _add(self, layer: TransformerLayer, number: int | None) -> None:
        program, scratch, mixer = self.program, self.scratch, cast(SelfAttention, layer.mixer)
        if layer.start_mix is not None:
            program.mix(scratch.x, scratch.embedded, scratch.x, *layer.start_mix.detach().tolist())
        frame = NativeFrame(program, layer.around_mixer, scratch)
        angles = None if mixer.rotary is None else torch.zeros(0, mixer.rotary.width // 2)
        rotations = Attention(mixer.attention, mixer.rotary).add_own(program, scratch, frame.source, number, angles)
        self.lookups += [(rotation, cast(Rotary, mixer.rotary)) for rotation in rotations]
        frame.close()
        if isinstance(layer.reader, AttentionReader):
            assert number is not None
            frame = NativeFrame(program, layer.around_reader, scratch)
            Attention(layer.reader.attention).add_reading(program, scratch, frame.source, number)
            frame.close()
        frame = NativeFrame(program, layer.around_feed_forward, scratch)
        feed_forward_layer(program, scratch, layer.feed_forward, frame.source)
        frame.close()

    def grow(self, positions: int) -> bool:
        """Extend lookup tables to at least ``positions`` positions; return True if operations changed."""
        if not self.lookups or positions <= self.positions:
            return False
        limits = [limit for _, encoding in self.lookups if (limit := max_positions(encoding)) is not None]
        capacity = max(positions, min([MIN_POSITIONS, *limits]), min([2 * self.positions, *limits]))
        tables: dict[int, Tensor] = {}
        for operation, encoding in self.lookups:
            if id(encoding) not in tables:
                tables[id(encoding)] = _lookup_table(encoding, capacity, self.width)
            self.program.set_table(operation, tables[id(encoding)])
        self.positions = capacity
        return True


def _lookup_table(encoding: Position | Rotary, positions: int, width: int) -> Float[Tensor, "positions width"]:
    position = torch.arange(positions)[None]
    if isinstance(encoding, Rotary):
        angle = encoding.angles(position)[0]
        return torch.stack([angle.cos(), angle.sin()], -1).flatten(1)
    table: Tensor = encoding(torch.zeros(1, positions, width), position)[0]
    return torch.nn.functional.pad(table, (0, filled(width) - width))

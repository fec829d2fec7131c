"""The pointer of a model that copies source tokens as operations of a native program."""

from __future__ import annotations

from torch import Tensor

from regard.engine.packed import PackedMatrix, stacked
from regard.engine.pointer import PointerMatrices
from regard.models.copying import Copying
from regard.native.program import LANES, FilledHeads, Program, Region, fill, filled, filled_heads


class NativePointer:
    """A ``Copying`` whose table of the source is that of one more layer; see ``engine.pointer`` for its values."""

    def __init__(self, copying: Copying) -> None:
        self.matrices = PointerMatrices(*(matrix.map(_filled_head) for matrix in PointerMatrices.of(copying)))
        self.sizes = FilledHeads(1, 1, filled(copying.query.out_features), LANES)

    def add(self, program: Program, features: Region, layer: int) -> Region:
        """Add the pointer of each row; return the region of the gate."""
        projected = program.allocate(self.sizes.width + LANES)
        query, gate = projected.part(0, self.sizes.width), projected.part(self.sizes.width, LANES)
        context = program.allocate(LANES)
        self._product(program, features, projected, self.matrices.query, self.matrices.gate)
        program.point(query, context, self.sizes, layer)
        program.mix(gate, context, gate, 1, 1)
        return gate

    def add_source(self, program: Program, states: Region, out: Region, layer: int) -> None:
        """Add the keys and values of a source row, which are written into the tables of a layer."""
        self._product(program, states, out, self.matrices.key, self.matrices.value)
        value = out.part(self.sizes.width, LANES)
        program.keep(out.part(0, self.sizes.width), value, self.sizes, layer, source=True)

    def _product(self, program: Program, x: Region, out: Region, *matrices: PackedMatrix) -> None:
        whole = stacked(*matrices)
        program.product(x, out, fill(whole.weight), whole.bias)


def _filled_head(x: Tensor) -> Tensor:
    return filled_heads(x, 1)

"""Networks as lists of operations over rows, written once and run by one call a step.

Each row has a **record**, in which every operation reads and writes places (``Region``: the first of so many features).
Widths are filled up to multiples of 16 with zeros, heads one by one; ``filled`` and ``Heads`` say how weights follow.
"""

from __future__ import annotations

import ctypes
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from regard.native.checks import expect, require
from regard.native.library import Library, NativeMatrix, Operation
from regard.native.memory import MatrixMemory

LANES, STRIPE = 16, 64
PAGE, SPREAD = 64, 5  # lines of the cache in 4096 bytes, and by how many the records of neighboring rows differ
Format = Literal["float32", "int8"]
FORMATS = ("float32", "int8")
# Types in which keys and values are kept. 16 bits round far finer than products in 8, and take half the time to read.
KEPT: dict[Format, torch.dtype] = {"float32": torch.float32, "int8": torch.float16}
KINDS = (
    "embed", "position", "norm", "product", "glu", "turn", "keep", "attend-cells", "attend-source", "attend-rows",
    "gate", "mix", "copy", "head", "keep-source",
)  # fmt: skip
ACTIVATIONS = ("none", "relu", "relu2", "gelu", "gelu-tanh", "swish", "sigmoid")
Activation = Literal["none", "relu", "relu2", "gelu", "gelu-tanh", "swish", "sigmoid"]
NEVER = -1e30  # the bias of types that there are not
MOST_INPUTS = 2**17  # of a product in 8 bits, whose sums fit into 32


def filled(width: int) -> int:
    """A width with its filling."""
    return width + -width % LANES


def fill(x: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape filled"]:
    """``x`` with zeros for the filling of its last dimension."""
    return pad(x, (0, filled(x.shape[-1]) - x.shape[-1]))


def filled_heads(x: Float[Tensor, "features *rest"], heads: int) -> Float[Tensor, "filled *rest"]:
    """Features of heads that lie one after the other, each head filled up."""
    by_head = x.unflatten(0, (heads, -1)).movedim(1, -1)
    return fill(by_head).movedim(-1, 1).flatten(0, 1)


class Region(NamedTuple):
    """So many features of a record from ``first`` on, the filling included."""

    first: int
    width: int

    def part(self, first: int, width: int) -> Region:
        return Region(self.first + first, width)


class FilledHeads(NamedTuple):
    """Heads of queries and of keys, and the filled widths of a query and of a value."""

    heads: int
    key_heads: int
    width: int
    value_width: int


class Program:
    """Operations in order; each method adds one. Weights are packed here, and kept."""

    def __init__(self, library: Library, format: Format) -> None:
        require(format in FORMATS, f"the kernels know no format {format!r}, only {', '.join(FORMATS)}")
        self.library, self.format = library, format
        self.features, self.bytes = 0, 0  # features of a record; bytes of all matrices
        self.types = 0
        self._operations: list[Operation] = []
        self._kept: list[object] = []
        self._memory = MatrixMemory()
        self.looked_up: dict[int, int] = {}  # rows of an operation's table, by its number

    def place(self, width: int) -> Region:
        """New room in the record."""
        region = Region(self.features, filled(width))
        self.features += region.width
        return region

    @property
    def stride(self) -> int:
        """Features from record to record: such that those of neighboring rows share no lines of the cache.

        With a distance of 4096 bytes, or of an even part of that, all rows of a tile would compete for few lines.
        """
        lines = self.features // LANES
        return LANES * (lines + (SPREAD - lines) % PAGE)

    @property
    def operations(self) -> ctypes.Array[Operation]:
        return (Operation * len(self._operations))(*self._operations)

    def embed(self, table: Float[Tensor, "types width"], out: Region) -> None:
        """out = table[token]."""
        expect(out.width, filled(table.shape[1]), "the width of embedded tokens")
        self._inside(out)
        self.looked_up[len(self._operations)] = len(table)
        self._add("embed", out=out.first, width=out.width, first=self._vector(fill(table)))

    def position(self, table: Float[Tensor, "positions width"], out: Region) -> Operation:
        """out += table[column]."""
        expect(out.width, filled(table.shape[1]), "the width of positions")
        self._inside(out)
        return self._table_of(self._add("position", out=out.first, width=out.width), fill(table))

    def norm(
        self, x: Region, out: Region, gains: Float[Tensor, "width"], bias: Float[Tensor, "width"] | None,
        epsilon: float, *, groups: int = 1,
    ) -> None:  # fmt: skip
        """LayerNorm where there is a bias, RMSNorm otherwise, of each group of features."""
        for each in (x, out):
            expect(each.width, groups * filled(len(gains)), "the width of what is normed")
        expect(gains.shape if bias is None else bias.shape, (len(gains),), "the shape of gains and bias")
        self._inside(x, out)
        self._add(
            "norm", source=x.first, out=out.first, width=filled(len(gains)), real=len(gains), groups=groups,
            a=epsilon, activation=1 if bias is None else 0, first=self._vector(fill(gains)),
            second=None if bias is None else self._vector(fill(bias)),
        )  # fmt: skip

    def product(
        self, x: Region, out: Region, weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None = None, *, activation: Activation = "none", add: bool = False,
    ) -> None:  # fmt: skip
        """out = act(x Wᵀ + b), or out += it."""
        require(activation in ACTIVATIONS, f"the kernels know no activation {activation!r}")
        matrix = self._matrix(weight, bias)
        expect(x.width, matrix.inputs, "the width of a product's inputs")
        require(out.width >= matrix.outputs, f"{out} has no room for {matrix.outputs} outputs")
        self._inside(x, out)
        self._apart(x, Region(out.first, matrix.outputs))
        self._add(
            "product", source=x.first, out=out.first, activation=ACTIVATIONS.index(activation), add=add, matrix=matrix
        )

    def glu(self, gate: Region, x: Region, out: Region, activation: Activation) -> None:
        """out = act(gate) ∘ x."""
        expect((gate.width, out.width), (x.width, x.width), "the width of a gate, and of its result")
        self._inside(gate, x, out)
        require(activation in ACTIVATIONS, f"the kernels know no activation {activation!r}")
        activate = ACTIVATIONS.index(activation)
        self._add("glu", source=gate.first, other=x.first, out=out.first, width=x.width, activation=activate)

    def turn(self, x: Region, angles: Float[Tensor, "positions half"], heads: int) -> Operation:
        """Rotary positions in place: pairs side by side, turned by the angles of the row's column."""
        width, real = x.width // heads, 2 * angles.shape[1]
        require(x.width % heads == 0 and real <= width, f"{x} is not {heads} heads of {real} features that are turned")
        self._inside(x)
        operation = self._add("turn", source=x.first, width=width, real=real, groups=heads)
        return self._table_of(operation, torch.stack([angles.cos(), angles.sin()], -1).flatten(1))

    def retable(self, operation: Operation, table: Float[Tensor, "positions width"]) -> None:
        """Another table for an operation that looks up the row's column."""
        if not any(each is operation for each in self._operations) or KINDS[operation.kind] not in ("position", "turn"):
            raise ValueError("no operation of this program that looks up columns")
        self._table_of(operation, table)

    def keep(self, key: Region, value: Region, sizes: FilledHeads, layer: int, *, source: bool = False) -> None:
        """Write keys and values into the tables of a layer."""
        self._inside(Region(key.first, sizes.key_heads * sizes.width))
        self._inside(Region(value.first, sizes.key_heads * sizes.value_width))
        self._heads("keep-source" if source else "keep", sizes, layer, source=key.first, other=value.first)

    def attend(self, query: Region, out: Region, sizes: FilledHeads, layer: int, *, source: bool = False) -> None:
        """Attend to the cells of a layer, or to its source."""
        self._attends(query, out, sizes)
        self._heads("attend-source" if source else "attend-cells", sizes, layer, source=query.first, out=out.first)

    def attend_rows(self, query: Region, key: Region, out: Region, sizes: FilledHeads) -> None:
        """Attend to all rows of a row's own sequence; values follow keys in the record."""
        self._attends(query, out, sizes)
        own = Region(key.first, sizes.key_heads * (sizes.width + sizes.value_width))
        self._inside(own)
        self._apart(own, Region(out.first, sizes.heads * sizes.value_width))
        self._heads("attend-rows", sizes, 0, source=query.first, other=key.first, out=out.first)

    def gate(self, gate: Region, out: Region) -> None:
        """out *= σ(gate)."""
        self._inside(Region(gate.first, out.width), out)
        self._add("gate", source=gate.first, out=out.first, width=out.width)

    def mix(self, x: Region, other: Region, out: Region, a: float, b: float) -> None:
        """out = a x + b other."""
        self._inside(*(Region(each.first, out.width) for each in (x, other, out)))
        self._add("mix", source=x.first, other=other.first, out=out.first, width=out.width, a=a, b=b)

    def copy(self, x: Region, out: Region) -> None:
        """out = x."""
        self._inside(Region(x.first, out.width), out)
        self._add("copy", source=x.first, out=out.first, width=out.width)

    def head(self, x: Region, weight: Float[Tensor, "types width"], bias: Float[Tensor, "types"] | None) -> None:
        """Log-probabilities of the types, or the best of them."""
        self.types = len(weight)
        matrix = self._matrix(weight, bias, beyond=NEVER)
        expect(x.width, matrix.inputs, "the width of a head's inputs")
        require(self.types > 0, "a head of no types")
        self._inside(x)
        self._add("head", source=x.first, real=self.types, matrix=matrix)

    def _inside(self, *regions: Region) -> None:
        for first, width in regions:
            if first < 0 or width < 0 or width % LANES or first + width > self.features:
                raise ValueError(
                    f"features {first} to {first + width} of a record of {self.features}, or no whole vectors"
                )

    def _apart(self, x: Region, out: Region) -> None:
        if x.first < out.first + out.width and out.first < x.first + x.width:
            raise ValueError(f"{out} is written while {x} is read")

    def _attends(self, query: Region, out: Region, sizes: FilledHeads) -> None:
        queries = Region(query.first, sizes.heads * sizes.width)
        context = Region(out.first, sizes.heads * sizes.value_width)
        self._inside(queries, context)
        self._apart(queries, context)

    def _table_of(self, operation: Operation, table: Float[Tensor, "positions width"]) -> Operation:
        expect(table.shape[1], operation.real or operation.width, "the width of a table that is looked up in")
        operation.first = self._vector(table)
        number = next(number for number, each in enumerate(self._operations) if each is operation)
        self.looked_up[number] = len(table)
        return operation

    def _heads(
        self, kind: str, sizes: FilledHeads, layer: int, *, source: int, other: int = 0, out: int = 0
    ) -> None:  # fmt: skip
        if min(sizes) < 1 or sizes.heads % sizes.key_heads or sizes.width % LANES or sizes.value_width % LANES:
            raise ValueError(f"no whole heads: {sizes}")
        require(layer >= 0, f"there is no layer {layer}")
        self._add(
            kind, source=source, other=other, out=out, width=sizes.width, value_width=sizes.value_width,
            groups=sizes.heads, key_groups=sizes.key_heads, layer=layer,
        )  # fmt: skip

    def _add(self, kind: str, *, matrix: NativeMatrix | None = None, **fields: int | float | None) -> Operation:
        operation = Operation(kind=KINDS.index(kind), **fields)
        if matrix is not None:
            operation.matrix = ctypes.pointer(matrix)
        self._operations.append(operation)
        return operation

    def _vector(self, x: Float[Tensor, "*shape"]) -> int:
        kept = x.detach().float().cpu().contiguous().clone()
        self._kept.append(kept)
        return kept.data_ptr()

    def _matrix(
        self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None, beyond: float = 0.0
    ) -> NativeMatrix:
        weight = weight.detach().float().cpu().contiguous()
        outputs, inputs = weight.shape
        if self.format == "int8" and filled(inputs) > MOST_INPUTS:
            raise ValueError(f"a product in 8 bits of {inputs} inputs, more than {MOST_INPUTS}")
        expect(weight.shape if bias is None else (len(bias), inputs), (outputs, inputs), "the shape of weight and bias")
        stripes = -(-outputs // STRIPE)
        size = stripes * STRIPE * filled(inputs)
        packed = self._memory.zeros(size if self.format == "int8" else 4 * size)
        scale, shift = torch.zeros(2, stripes * STRIPE)
        shift[outputs:] = beyond
        if bias is not None:
            shift[:outputs] = bias.detach().float()
        matrix = NativeMatrix(
            outputs=filled(outputs), inputs=filled(inputs), format=FORMATS.index(self.format),
            weight=packed.data_ptr(), scale=scale.data_ptr(), bias=shift.data_ptr(),
        )  # fmt: skip
        self.library.pack(
            weight.data_ptr(), outputs, inputs, matrix.inputs, matrix.format, packed.data_ptr(), scale.data_ptr()
        )
        self._kept += [packed, scale, shift, matrix]
        self.bytes += len(packed)
        return matrix

"""Networks as lists of operations over rows, written once and run by one call per step.

Each row has a **record** with the features that operations read and write (``Region``: a range of features). Widths are
padded with zeros to multiples of 16, each head separately; ``filled``, ``fill`` and ``filled_heads`` pad weights
accordingly.
"""

from __future__ import annotations

import ctypes
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from regard.native.checks import require, require_equal
from regard.native.library import Library, NativeMatrix, Operation
from regard.native.memory import MatrixMemory

LANES, STRIPE = 16, 64
PAGE, SPREAD = 64, 5  # cache lines in 4096 bytes, and the distance in lines between records of neighboring rows
Format = Literal["float32", "int8"]
FORMATS = ("float32", "int8")
# Types of cached keys and values. 16 bits are far more precise than products in 8, and take half the time to read.
CACHE_TYPES: dict[Format, torch.dtype] = {"float32": torch.float32, "int8": torch.float16}
KINDS = (
    "embed", "position", "norm", "product", "glu", "rotate", "keep", "attend-cells", "attend-source", "attend-rows",
    "gate", "mix", "copy", "head", "keep-source", "point",
)  # fmt: skip
ACTIVATIONS = ("none", "relu", "relu2", "gelu", "gelu-tanh", "swish", "sigmoid")
Activation = Literal["none", "relu", "relu2", "gelu", "gelu-tanh", "swish", "sigmoid"]
PADDING_BIAS = -1e30  # of the outputs that pad the types
MAX_INPUTS = 2**17  # of a product in 8 bits, whose sums fit into 32 bits


def filled(width: int) -> int:
    """Return a width, padded to a multiple of 16."""
    return width + -width % LANES


def fill(x: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape filled"]:
    """Pad the last dimension of ``x`` with zeros."""
    return pad(x, (0, filled(x.shape[-1]) - x.shape[-1]))


def filled_heads(x: Float[Tensor, "features *rest"], heads: int) -> Float[Tensor, "filled *rest"]:
    """Pad the features of each of several consecutive heads with zeros."""
    by_head = x.unflatten(0, (heads, -1)).movedim(1, -1)
    return fill(by_head).movedim(-1, 1).flatten(0, 1)


class Region(NamedTuple):
    """``width`` features of a record from ``first`` on, padding included."""

    first: int
    width: int

    def part(self, first: int, width: int) -> Region:
        return Region(self.first + first, width)


class FilledHeads(NamedTuple):
    """Numbers of query heads and key heads, and the padded widths of a query and of a value."""

    heads: int
    key_heads: int
    width: int
    value_width: int


class Program:
    """Operations in order; each method appends one. Weights are packed and stored here."""

    def __init__(self, library: Library, format: Format) -> None:
        require(format in FORMATS, f"unknown format {format!r} of the kernels: choose one of {', '.join(FORMATS)}")
        self.library, self.format = library, format
        self.features, self.bytes = 0, 0  # of a record; of all matrices
        self.types = 0
        self.pointer: int | None = None  # layer of the sources whose tokens the head copies
        self._operations: list[Operation] = []
        self._owned: list[object] = []
        self._memory = MatrixMemory()
        self.table_rows: dict[int, int] = {}  # number of rows of an operation's lookup table, by its index

    def allocate(self, width: int) -> Region:
        """Return a new region of the record."""
        region = Region(self.features, filled(width))
        self.features += region.width
        return region

    @property
    def stride(self) -> int:
        """Number of features from record to record, with which neighboring rows share no cache lines.

        At a distance of 4096 bytes, or an even part of that, all rows of a tile would compete for a few lines.
        """
        lines = self.features // LANES
        return LANES * (lines + (SPREAD - lines) % PAGE)

    @property
    def operations(self) -> ctypes.Array[Operation]:
        return (Operation * len(self._operations))(*self._operations)

    def embed(self, table: Float[Tensor, "types width"], out: Region) -> None:
        """Add out = table[token]."""
        require_equal(out.width, filled(table.shape[1]), "the width of embeddings")
        self._require_inside(out)
        self.table_rows[len(self._operations)] = len(table)
        self._add("embed", out=out.first, width=out.width, first=self._vector(fill(table)))

    def position(self, table: Float[Tensor, "positions width"], out: Region) -> Operation:
        """Add out += table[position]."""
        require_equal(out.width, filled(table.shape[1]), "the width of positions")
        self._require_inside(out)
        return self._table_of(self._add("position", out=out.first, width=out.width), fill(table))

    def norm(
        self, x: Region, out: Region, gains: Float[Tensor, "width"], bias: Float[Tensor, "width"] | None,
        epsilon: float, *, groups: int = 1,
    ) -> None:  # fmt: skip
        """Add a LayerNorm if there is a bias, else an RMSNorm, of each group of features."""
        for region in (x, out):
            require_equal(region.width, groups * filled(len(gains)), "the width of a norm's input and output")
        require_equal(gains.shape if bias is None else bias.shape, (len(gains),), "the shape of gains and bias")
        self._require_inside(x, out)
        self._add(
            "norm", source=x.first, out=out.first, width=filled(len(gains)), real=len(gains), groups=groups,
            a=epsilon, activation=1 if bias is None else 0, first=self._vector(fill(gains)),
            second=None if bias is None else self._vector(fill(bias)),
        )  # fmt: skip

    def product(
        self, x: Region, out: Region, weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, "outputs"] | None = None, *, activation: Activation = "none", add: bool = False,
    ) -> None:  # fmt: skip
        """Add out = act(x Wᵀ + b), or out += the same if ``add``."""
        require(activation in ACTIVATIONS, f"the kernels do not support activation {activation!r}")
        matrix = self._matrix(weight, bias)
        require_equal(x.width, matrix.inputs, "the width of a product's inputs")
        require(out.width >= matrix.outputs, f"{out} is too small for {matrix.outputs} outputs")
        self._require_inside(x, out)
        self._require_disjoint(x, Region(out.first, matrix.outputs))
        self._add(
            "product", source=x.first, out=out.first, activation=ACTIVATIONS.index(activation), add=add, matrix=matrix
        )

    def glu(self, gate: Region, x: Region, out: Region, activation: Activation) -> None:
        """Add out = act(gate) ∘ x."""
        require_equal((gate.width, out.width), (x.width, x.width), "the widths of a gate and of its result")
        self._require_inside(gate, x, out)
        require(activation in ACTIVATIONS, f"the kernels do not support activation {activation!r}")
        activate = ACTIVATIONS.index(activation)
        self._add("glu", source=gate.first, other=x.first, out=out.first, width=x.width, activation=activate)

    def rotate(self, x: Region, angles: Float[Tensor, "positions half"], heads: int) -> Operation:
        """Add a rotation of adjacent pairs, in place, by the angles of the row's position (rotary positions)."""
        width, real = x.width // heads, 2 * angles.shape[1]
        require(
            x.width % heads == 0 and real <= width, f"{x} does not consist of {heads} heads of {real} rotary features"
        )
        self._require_inside(x)
        operation = self._add("rotate", source=x.first, width=width, real=real, groups=heads)
        return self._table_of(operation, torch.stack([angles.cos(), angles.sin()], -1).flatten(1))

    def set_table(self, operation: Operation, table: Float[Tensor, "positions width"]) -> None:
        """Replace the lookup table of an operation that reads the row's position."""
        is_own = any(own is operation for own in self._operations)
        if not is_own or KINDS[operation.kind] not in ("position", "rotate"):
            raise ValueError("the operation is not of this program, or has no lookup table by position")
        self._table_of(operation, table)

    def keep(self, key: Region, value: Region, sizes: FilledHeads, layer: int, *, source: bool = False) -> None:
        """Add the writing of keys and values into the tables of a layer."""
        self._require_inside(Region(key.first, sizes.key_heads * sizes.width))
        self._require_inside(Region(value.first, sizes.key_heads * sizes.value_width))
        self._heads("keep-source" if source else "keep", sizes, layer, source=key.first, other=value.first)

    def attend(self, query: Region, out: Region, sizes: FilledHeads, layer: int, *, source: bool = False) -> None:
        """Add attention to the cells of a layer, or to its source."""
        self._attends(query, out, sizes)
        self._heads("attend-source" if source else "attend-cells", sizes, layer, source=query.first, out=out.first)

    def point(self, query: Region, out: Region, sizes: FilledHeads, layer: int) -> None:
        """Add attention with one head to the source of a layer; a head with a ``gate`` reads its weights."""
        require_equal(sizes[:2], (1, 1), "the numbers of heads and key heads of a pointer")
        require(self.pointer is None, "a program has at most one pointer")
        self._attends(query, out, sizes)
        self._heads("point", sizes, layer, source=query.first, out=out.first)
        self.pointer = layer

    def attend_rows(self, query: Region, key: Region, out: Region, sizes: FilledHeads) -> None:
        """Add attention to all rows of a row's own sequence; values follow keys in the record."""
        self._attends(query, out, sizes)
        own = Region(key.first, sizes.key_heads * (sizes.width + sizes.value_width))
        self._require_inside(own)
        self._require_disjoint(own, Region(out.first, sizes.heads * sizes.value_width))
        self._heads("attend-rows", sizes, 0, source=query.first, other=key.first, out=out.first)

    def gate(self, gate: Region, out: Region) -> None:
        """Add out *= σ(gate)."""
        self._require_inside(Region(gate.first, out.width), out)
        self._add("gate", source=gate.first, out=out.first, width=out.width)

    def mix(self, x: Region, other: Region, out: Region, a: float, b: float) -> None:
        """Add out = a x + b other."""
        self._require_inside(*(Region(region.first, out.width) for region in (x, other, out)))
        self._add("mix", source=x.first, other=other.first, out=out.first, width=out.width, a=a, b=b)

    def copy(self, x: Region, out: Region) -> None:
        """Add out = x."""
        self._require_inside(Region(x.first, out.width), out)
        self._add("copy", source=x.first, out=out.first, width=out.width)

    def head(
        self, x: Region, weight: Float[Tensor, "types width"], bias: Float[Tensor, "types"] | None,
        gate: Region | None = None,
    ) -> None:  # fmt: skip
        """Add the log-probabilities of the types, or the best of them.

        ``gate``: a region whose first feature is the logit of generating, instead of copying a token to which the
        pointer of the program attends; None for a head that does not copy.
        """
        require((gate is None) == (self.pointer is None), "a head has a gate exactly if the program has a pointer")
        self.types = len(weight)
        matrix = self._matrix(weight, bias, beyond=PADDING_BIAS)
        require_equal(x.width, matrix.inputs, "the width of a head's inputs")
        require(self.types > 0, "a head needs at least one type")
        self._require_inside(x, *([gate] if gate else []))
        self._add(
            "head", source=x.first, other=gate.first if gate else 0, real=self.types, layer=self.pointer or 0,
            add=gate is not None, matrix=matrix,
        )  # fmt: skip

    def _require_inside(self, *regions: Region) -> None:
        for first, width in regions:
            if first < 0 or width < 0 or width % LANES or first + width > self.features:
                raise ValueError(
                    f"features {first} to {first + width} must be whole vectors within a record of {self.features}"
                )

    def _require_disjoint(self, x: Region, out: Region) -> None:
        if x.first < out.first + out.width and out.first < x.first + x.width:
            raise ValueError(f"{out} is written while {x} is read: the regions must not overlap")

    def _attends(self, query: Region, out: Region, sizes: FilledHeads) -> None:
        queries = Region(query.first, sizes.heads * sizes.width)
        context = Region(out.first, sizes.heads * sizes.value_width)
        self._require_inside(queries, context)
        self._require_disjoint(queries, context)

    def _table_of(self, operation: Operation, table: Float[Tensor, "positions width"]) -> Operation:
        require_equal(table.shape[1], operation.real or operation.width, "the width of a lookup table")
        operation.first = self._vector(table)
        number = next(number for number, own in enumerate(self._operations) if own is operation)
        self.table_rows[number] = len(table)
        return operation

    def _heads(
        self, kind: str, sizes: FilledHeads, layer: int, *, source: int, other: int = 0, out: int = 0
    ) -> None:  # fmt: skip
        if min(sizes) < 1 or sizes.heads % sizes.key_heads or sizes.width % LANES or sizes.value_width % LANES:
            raise ValueError(f"heads must be whole vectors and groups of key heads, got {sizes}")
        require(layer >= 0, f"layer must not be negative, got {layer}")
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
        vector = x.detach().float().cpu().contiguous().clone()
        self._owned.append(vector)
        return vector.data_ptr()

    def _matrix(
        self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None, beyond: float = 0.0
    ) -> NativeMatrix:
        weight = weight.detach().float().cpu().contiguous()
        outputs, inputs = weight.shape
        if self.format == "int8" and filled(inputs) > MAX_INPUTS:
            raise ValueError(f"a product in 8 bits has at most {MAX_INPUTS} inputs, got {inputs}")
        require_equal(
            weight.shape if bias is None else (len(bias), inputs), (outputs, inputs), "the shape of weight and bias"
        )
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
        self._owned += [packed, scale, shift, matrix]
        self.bytes += len(packed)
        return matrix

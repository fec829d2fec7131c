"""Language models with the kernels: the next tokens of all rows in a single C call."""

from __future__ import annotations

from copy import deepcopy
from threading import Lock
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.heads import SelfAttention
from regard.attention.mask import Window
from regard.attention.mechanisms.dot import Dot
from regard.engine.causal_layer import ByDistance, bias_by_distance
from regard.engine.causal_state import CausalState, CausalTable
from regard.engine.language_model import obstacle as fast_obstacle
from regard.engine.native_head import NativeHead
from regard.engine.native_layer import Attention
from regard.engine.native_stack import NativeStack, native_obstacle
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel
from regard.native.call import Tables
from regard.native.library import library
from regard.native.program import CACHE_TYPES, Format
from regard.native.runner import Runner, int32
from regard.search.contract import Reduce

PIECE = 64  # tokens that are processed in one call
MIN_DISTANCES = 512  # of a table of biases


def obstacle(model: LanguageModel) -> str | None:
    """Return the reason why the kernels cannot compute this language model, or None."""
    return fast_obstacle(model) or next(filter(None, map(native_obstacle, model.stack)), None)


class NativeLanguageModel:
    """Model with the ``start`` and ``step`` of LanguageModel and a CausalState as the state.

    It computes in float32 or with 8-bit products. A row's result does not depend on the other rows, to the bit.

    Args:
        model: the language model.
        format: ``float32``, or ``int8`` for products in 8 bits.
        threads: threads of the kernels; default: the number of torch's threads.

    Raises:
        ValueError: the model has an ``obstacle``, or the kernels are missing.
    """

    def __init__(self, model: LanguageModel, *, format: Format = "float32", threads: int | None = None) -> None:
        kernels = library()
        if kernels is None or (reason := obstacle(model)) is not None:
            raise ValueError(f"the kernels cannot compute this model: {reason if kernels else 'they are missing'}")
        model = deepcopy(model).eval().float()
        self.stack = NativeStack(
            kernels, format, cast(TokenInput, model.embedding), model.stack, model.norm, own_cells=True
        )
        self.stack.program.head(self.stack.features, model.head.weight, model.head.bias)
        self.runner = Runner(self.stack.program, threads or torch.get_num_threads())
        self.head = NativeHead(self.runner, len(model.head.weight))
        self._layers = [_Layer(cast(SelfAttention, layer.mixer)) for layer in model.stack]
        self._lock = Lock()

    @torch.no_grad()
    def start(self, rows: int) -> CausalState:
        """Return the state before the first token of each row."""
        type = CACHE_TYPES[self.stack.program.format]
        return CausalState([layer.empty_table(rows, type) for layer in self._layers], [0] * rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState
    ) -> tuple[Float[Tensor, "rows length types"], CausalState]:
        """Return log-probabilities after each token, and the state after the last one."""
        pieces = []
        for piece in tokens.split(PIECE, 1):
            (log_p,), state = self._read(piece, state, lambda log_p, rows: (log_p,), every=1)
            pieces.append(log_p.unflatten(0, piece.shape))
        return torch.cat(pieces, 1), state

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], CausalState]:
        """Compute a ``ChunkedStep`` after the last of these tokens."""
        *before, last = tokens.split(PIECE, 1)
        for piece in before:
            _, state = self._read(piece, state, lambda log_p, rows: (), every=PIECE)
        return self._read(last, state, reduce, every=last.shape[1])

    def _read(
        self, tokens: Int[Tensor, "rows length"], state: CausalState, reduce: Reduce, *, every: int
    ) -> tuple[tuple[Tensor, ...], CausalState]:
        with self._lock:
            rows, length = tokens.shape
            longest = max(state.time, default=0) + length
            state = CausalState([table.reserve(longest) for table in state.tables], state.time)
            if self.stack.grow(longest):
                self.runner.refresh()
            batch = self.runner.batch
            token, time = tokens.int().flatten(), int32(state.time)[:, None] + torch.arange(length, dtype=torch.int32)
            slot = torch.arange(rows, dtype=torch.int32).repeat_interleave(length)
            batch.token, batch.time, batch.slot = token, time.flatten(), slot
            batch.cells = self._cells(state, longest)
            cuts = None if length == 1 else range(0, rows * length + 1, length)
            reduced = self.head.run(reduce, rows * length, longest, every=every, cuts=cuts)
            return reduced, CausalState(state.tables, [time + length for time in state.time])

    def _cells(self, state: CausalState, longest: int) -> Tables:
        cells = Tables([(table.key, table.value) for table in state.tables])
        for layer, table, cell in zip(self._layers, state.tables, cells.array, strict=True):
            if table.slot_limit is not None:
                cell.window, cell.ring = cast(int, table.window), table.slot_limit
            if layer.bias is not None:
                bias = layer.biases(longest)
                cell.bias, cell.distances = bias.data_ptr(), bias.shape[1]
        return cells


class _Layer:
    """The tables of one layer, and its bias by distance."""

    def __init__(self, mixer: SelfAttention) -> None:
        self.sizes = Attention(mixer.attention).sizes
        self.window = next((part.radius for part in mixer.mask.conjuncts() if isinstance(part, Window)), None)
        self.bias: ByDistance | None = bias_by_distance(
            cast(Dot, mixer.attention.mechanism).bias, mixer.attention.heads
        )
        self._biases = torch.zeros(self.sizes.heads, 0)

    def empty_table(self, rows: int, type: torch.dtype) -> CausalTable:
        """Return a table of ``rows`` rows before their first token."""
        shape = rows, self.sizes.key_heads, 0
        key, value = (torch.zeros(*shape, width, dtype=type) for width in (self.sizes.width, self.sizes.value_width))
        return CausalTable(key, value, self.window, 0 if self.window is None else PIECE - 1)

    def biases(self, distances: int) -> Float[Tensor, "heads distances"]:
        """Return the bias of each head by distance, in positions back."""
        assert self.bias is not None
        if self._biases.shape[1] < distances:
            back = -torch.arange(max(MIN_DISTANCES, 2 * distances))
            self._biases = self.bias(back[None, None])[0, :, 0].float().contiguous()
        return self._biases

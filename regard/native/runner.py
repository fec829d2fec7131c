"""One call of a program: rows, their tables, threads, and what is asked of the head."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from regard.native.beam import MOST_BEST
from regard.native.call import Call, CallSizes
from regard.native.library import Pool, RowBatch
from regard.native.needs import Needs
from regard.native.program import Program, filled

PARTIAL = 128 + 8 * MOST_BEST  # bytes
# Bytes of matrices from which on threads share the few rows of a step. Below, one alone is nearly as quick, and waits
# for no other on a busy core.
SHARED = 8 * 2**20
SPARE_ROWS = 32  # room behind the quantized rows, which tiles read in vain
ROWS_EACH = 4  # rows of a thread from which on each has rows of its own


def int32(numbers: Sequence[int]) -> Int32[Tensor, "numbers"]:
    return torch.tensor(numbers, dtype=torch.int32)


class Runner:
    """Runs a program with so many threads; keeps the room that it needs from call to call.

    Not for several threads at a time.
    """

    def __init__(self, program: Program, threads: int) -> None:
        self.program, self.library = program, program.library
        self.refresh()
        self._pool: Pool | None = program.library.pool(threads)
        self.threads = self._pool.threads if self._pool else 1
        self._record = torch.zeros(0)
        self._scratch = torch.zeros(0, dtype=torch.uint8)
        self._partial = torch.zeros(0, dtype=torch.uint8)
        self.batch = Call()
        self._addresses = RowBatch(stride=program.stride)

    def run(
        self, rows: int, longest: int, cuts: Sequence[int] | None = None, *, ahead: int = 1, end: int = -1
    ) -> int:  # fmt: skip
        """Run the program on the rows of ``batch``, which attend to ``longest`` columns at most; it is empty then.

        ``cuts``: rows at which sequences begin, and their number, where rows of one are to stay with one thread.
        ``ahead``: steps to run, each row fed with its best type until one is ``end``, or as a ``beam`` until one of the
        best is; returns the number done.
        """
        given, self.batch = self.batch, Call()
        if not rows:
            return 1
        program, batch, pool = self.program, self._addresses, self._pool
        sizes = CallSizes(rows, longest, ahead, program.types, filled(program.types))
        given.fill(batch, self.library, self._needs, sizes)
        alone = rows < ROWS_EACH * self.threads or (cuts is not None and len(cuts) <= self.threads)
        few = rows < ROWS_EACH * self.threads and program.bytes < SHARED
        if pool is not None and (few or not pool.alive):
            pool = None
        threads = pool.threads if pool else 1
        batch.cut = None
        if pool is None or not alone:
            dealt = _dealt(rows, threads, cuts)
            self._check_cut(given, dealt, rows)
            cut = (ctypes.c_int64 * (threads + 1))(*dealt)
            batch.cut = ctypes.addressof(cut)
        self._reserve(rows, longest, threads)
        if ahead > 1 and given.beam is not None:
            beam = given.beam.filled(rows, ahead)
            return self.library.run_beam(self._operations, self._count, batch, pool, ahead, end, beam)
        if ahead > 1:
            return self.library.run_ahead(self._operations, self._count, batch, pool, ahead, end)
        self.library.run(self._operations, self._count, batch, pool)
        return 1

    def refresh(self) -> None:
        """Take over operations that were changed."""
        self._operations = self.program.operations
        self._count, self._needs = len(self._operations), Needs.of(self._operations, self.program.looked_up)

    def _check_cut(self, given: Call, dealt: list[int], rows: int) -> None:
        """Sequences whose rows attend to each other are not dealt out to several threads."""
        inner = [row for row in dealt[1:-1] if row != 0 and row != rows]
        if inner and "attend-rows" in self._needs.kinds:
            begin = given.begin
            assert begin is not None
            if any(row < 0 or int(begin[row]) != row for row in inner):
                raise ValueError(f"threads share a sequence: none begins at each of the rows {inner}")

    def prepare(self, rows: int) -> Float[Tensor, "rows stride"]:
        """The records of the rows of the next call, to be filled."""
        if len(self._record) < rows * self.program.stride:
            self._record = torch.zeros(rows * self.program.stride)
        return self._record[: rows * self.program.stride].view(rows, -1)

    def _reserve(self, rows: int, longest: int, threads: int) -> None:
        batch, stride = self._addresses, self.program.stride
        each = SPARE_ROWS * stride + rows * (stride + 4 * 64 + 12) + 4 * (longest + 32)
        each += -each % 64
        if len(self._record) < rows * stride:
            self._record = torch.zeros(rows * stride)
        if len(self._scratch) < threads * each:
            self._scratch = torch.zeros(threads * each, dtype=torch.uint8)
        if len(self._partial) < threads * rows * PARTIAL:
            self._partial = torch.zeros(threads * rows * PARTIAL, dtype=torch.uint8)
        batch.record, batch.scratch = self._record.data_ptr(), self._scratch.data_ptr()
        batch.scratch_bytes, batch.partial = each, self._partial.data_ptr()


def _dealt(rows: int, threads: int, cuts: Sequence[int] | None) -> list[int]:
    """Bounds of each thread's rows, of about the same number; at ``cuts`` alone where they are given."""
    bounds = [rows * thread // threads for thread in range(threads + 1)]
    if cuts is None:
        return bounds
    return [0, *(max((cut for cut in cuts if cut <= bound), default=0) for bound in bounds[1:-1]), rows]

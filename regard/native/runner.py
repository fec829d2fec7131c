"""One call of a program: rows, their tables, threads, and the requested results of the head."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from regard.native.beam import MAX_BEST
from regard.native.call import Call, CallSizes, Needs
from regard.native.library import Pool, RowBatch
from regard.native.program import Program, filled

PARTIAL = 128 + 8 * MAX_BEST  # bytes
# Bytes of matrices from which threads share the few rows of a step. With fewer, a single thread is nearly as fast and
# does not wait for threads on busy cores.
MIN_SHARED_BYTES = 8 * 2**20
SPARE_ROWS = 32  # after the quantized rows, because tiles read beyond them
ROWS_PER_THREAD = 4  # minimum number of rows per thread for splitting by rows


def int32(numbers: Sequence[int]) -> Int32[Tensor, "numbers"]:
    return torch.tensor(numbers, dtype=torch.int32)


class Runner:
    """Runs a program with ``threads`` threads; reuses its buffers from call to call.

    Not thread-safe.
    """

    def __init__(self, program: Program, threads: int) -> None:
        self.program, self.library = program, program.library
        self.refresh()
        self._pool: Pool | None = program.library.pool(threads)
        self.threads = self._pool.threads if self._pool else 1
        self._record = torch.zeros(0)
        self._scratch = torch.zeros(0, dtype=torch.uint8)
        self._partial = torch.zeros(0, dtype=torch.uint8)
        self._pointed, self._logits, self._copied = (torch.zeros(0) for _ in range(3))
        self.batch = Call()
        self._addresses = RowBatch(stride=program.stride)

    def run(
        self, rows: int, longest: int, cuts: Sequence[int] | None = None, *, ahead: int = 1, end: int = -1
    ) -> int:  # fmt: skip
        """Run the program on the rows of ``batch``, which attend to at most ``longest`` keys; then reset ``batch``.

        ``cuts``: first row of each sequence, and the number of rows, if the rows of a sequence must stay in one thread.
        ``ahead``: number of steps to run, each with the previous best types as input, until one is ``end``. With a
        ``beam``, until one of the best is. Returns the number of steps done.
        """
        call, self.batch = self.batch, Call()
        if not rows:
            return 1
        program, batch, pool = self.program, self._addresses, self._pool
        sizes = CallSizes(rows, longest, ahead, program.types, filled(program.types))
        call.fill(batch, self.library, self._needs, sizes)
        alone = rows < ROWS_PER_THREAD * self.threads or (cuts is not None and len(cuts) <= self.threads)
        few = rows < ROWS_PER_THREAD * self.threads and program.bytes < MIN_SHARED_BYTES
        if pool is not None and (few or not pool.alive):
            pool = None
        threads = pool.threads if pool else 1
        batch.cut = None
        if pool is None or not alone:
            bounds = _row_bounds(rows, threads, cuts)
            self._check_cut(call, bounds, rows)
            cut = (ctypes.c_int64 * (threads + 1))(*bounds)
            batch.cut = ctypes.addressof(cut)
        self._reserve(rows, longest, threads)
        if program.pointer is not None:
            self._reserve_pointer(rows, filled(longest), threads)
        if ahead > 1 and call.beam is not None:
            beam = call.beam.filled(rows, ahead)
            return self.library.run_beam(self._operations, self._count, batch, pool, ahead, end, beam)
        if ahead > 1:
            return self.library.run_ahead(self._operations, self._count, batch, pool, ahead, end)
        self.library.run(self._operations, self._count, batch, pool)
        return 1

    def refresh(self) -> None:
        """Apply changes of operations."""
        self._operations = self.program.operations
        self._count, self._needs = len(self._operations), Needs.of(self._operations, self.program.table_rows)

    def _check_cut(self, call: Call, bounds: list[int], rows: int) -> None:
        """Raise ValueError if the rows of a sequence, which attend to each other, are split between threads."""
        inner = [row for row in bounds[1:-1] if row != 0 and row != rows]
        if inner and "attend-rows" in self._needs.kinds:
            begin = call.begin
            assert begin is not None
            if any(row < 0 or int(begin[row]) != row for row in inner):
                raise ValueError(f"threads share a sequence: a sequence must begin at each of the rows {inner}")

    def prepare(self, rows: int) -> Float[Tensor, "rows stride"]:
        """Return the records of the rows of the next call, to be filled."""
        if len(self._record) < rows * self.program.stride:
            self._record = torch.zeros(rows * self.program.stride)
        return self._record[: rows * self.program.stride].view(rows, -1)

    def _reserve(self, rows: int, longest: int, threads: int) -> None:
        batch, stride = self._addresses, self.program.stride
        thread_bytes = SPARE_ROWS * stride + rows * (stride + 4 * 64 + 12) + 4 * (longest + 32)
        thread_bytes += -thread_bytes % 64
        if len(self._record) < rows * stride:
            self._record = torch.zeros(rows * stride)
        if len(self._scratch) < threads * thread_bytes:
            self._scratch = torch.zeros(threads * thread_bytes, dtype=torch.uint8)
        if len(self._partial) < threads * rows * PARTIAL:
            self._partial = torch.zeros(threads * rows * PARTIAL, dtype=torch.uint8)
        batch.record, batch.scratch = self._record.data_ptr(), self._scratch.data_ptr()
        batch.scratch_bytes, batch.partial = thread_bytes, self._partial.data_ptr()

    def _reserve_pointer(self, rows: int, positions: int, threads: int) -> None:
        """Reserve the buffers of a head that copies, for sources of at most ``positions`` positions."""
        batch, types = self._addresses, filled(self.program.types)
        if len(self._pointed) < rows * positions:
            self._pointed = torch.zeros(rows * positions)
        if len(self._logits) < rows * types:
            self._logits = torch.zeros(rows * types)
        if len(self._copied) < threads * types:
            self._copied = torch.zeros(threads * types)
        batch.pointed, batch.pointed_step = self._pointed.data_ptr(), positions
        batch.logits, batch.copied = self._logits.data_ptr(), self._copied.data_ptr()


def _row_bounds(rows: int, threads: int, cuts: Sequence[int] | None) -> list[int]:
    """Return bounds of each thread's rows, with nearly equal numbers of rows; only at ``cuts`` if given."""
    bounds = [rows * thread // threads for thread in range(threads + 1)]
    if cuts is None:
        return bounds
    return [0, *(max((cut for cut in cuts if cut <= bound), default=0) for bound in bounds[1:-1]), rows]

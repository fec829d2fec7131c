"""The compiled kernels, if they were built and the processor has the required instructions.

``REGARD_NATIVE`` selects an instruction set (``amx``, ``avx512-vnni``, ``avx2``, ``plain``) instead of the fastest;
``off`` disables the kernels.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from regard.native.build import LIBRARY

ABI = 11
CHOICE = "REGARD_NATIVE"


class NativeMatrix(Structure):
    _fields_ = [
        ("outputs", c_int64), ("inputs", c_int64), ("format", c_int64), ("weight", c_void_p), ("scale", c_void_p),
        ("bias", c_void_p),
    ]  # fmt: skip


class Operation(Structure):
    _fields_ = [
        *((name, c_int32) for name in (
            "kind", "source", "other", "out", "width", "real", "groups", "key_groups", "value_width", "layer",
            "activation", "add",
        )),
        ("a", c_float), ("b", c_float), ("first", c_void_p), ("second", c_void_p), ("matrix", POINTER(NativeMatrix)),
    ]  # fmt: skip


class Table(Structure):
    _fields_ = [
        ("key", c_void_p), ("value", c_void_p), ("columns", c_int32), ("places", c_int32), ("ring", c_int32),
        ("window", c_int32), ("bias", c_void_p), ("distances", c_int64), ("half", c_int64), ("token", c_void_p),
    ]  # fmt: skip


class RowBatch(Structure):
    _fields_ = [
        ("rows", c_int64), ("stride", c_int64),
        *((name, c_void_p) for name in ("record", "token", "time", "slot", "place", "history")),
        ("times", c_int64), ("places", c_int64),
        *((name, c_void_p) for name in ("begin", "end", "length", "cells", "sources", "cut", "scratch")),
        ("scratch_bytes", c_int64), ("every", c_int64), ("best", c_int64), ("suppressed", c_void_p),
        ("suppressed_count", c_int64),
        *((name, c_void_p) for name in ("requested", "value", "best_type", "requested_value", "log_p", "pointed")),
        ("pointed_step", c_int64), ("logits", c_void_p), ("copied", c_void_p), ("partial", c_void_p),
        ("observed", c_void_p), ("observed_layer", c_int64), ("observed_heads", c_int64), ("observed_step", c_int64),
    ]  # fmt: skip


class Beam(Structure):
    _fields_ = [
        ("sentences", c_int64), ("width", c_int64),
        *((name, c_void_p) for name in ("total", "least", "parent", "chosen", "gain")),
    ]  # fmt: skip


class Pass(Structure):
    tensors: tuple[object, ...] = ()  # keeps their memory alive during the pass
    _fields_ = [
        *((name, c_int32) for name in ("kind", "format", "activation", "threshold", "halves")),
        ("scale", c_float), ("epsilon", c_float),
        *((name, c_int64) for name in ("rows", "heads", "places", "width")),
        ("x", c_void_p), ("g", c_void_p), ("y", c_void_p),
        *((name, c_int64 * 3) for name in ("x_step", "g_step", "y_step")),
        ("other", c_void_p), ("first", c_void_p), ("second", c_void_p), ("table_batch", c_int64), ("kept", c_void_p),
        ("part", c_void_p), ("target", c_void_p), ("scratch", c_void_p), ("room", c_int64), ("draw", c_void_p),
        ("attention", c_void_p),
    ]  # fmt: skip


class ShortAttention(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("batch", "heads", "queries", "keys", "width", "value_width")),
        ("scale", c_float), ("dropped", c_float), ("threshold", c_int32), ("wide", c_int32),
        *((name, c_void_p) for name in (
            "query", "key", "value", "upstream", "context", "to_query", "to_key", "to_value",
        )),
        *((f"{name}_step", c_int64 * 3) for name in (
            "query", "key", "value", "upstream", "context", "to_query", "to_key", "to_value",
        )),
        ("added", c_void_p), ("added_step", c_int64 * 3), ("empty", c_void_p), ("empty_step", c_int64 * 2),
        ("draw", c_void_p), ("weights", c_void_p), ("scratch", c_void_p), ("room", c_int64),
    ]  # fmt: skip


class LoadResult(NamedTuple):
    """The library, or the reason why it is unavailable."""

    library: Library | None
    reason: str | None


class Library:
    """The kernels for one instruction set.

    They use addresses unchecked: ``Program`` and ``Runner`` check the memory at these addresses.
    """

    def __init__(self, loaded: Any, name: str, sets: Sequence[str]) -> None:
        self._loaded, self.set, self.sets = loaded, name, tuple(sets)  # of this processor, the fastest first
        self._name = name.encode()

    def run(self, program: Any, count: int, batch: RowBatch, pool: Pool | None) -> None:
        """Run ``count`` operations of a program on the rows of a batch."""
        if not self._loaded.regard_run(self._name, program, count, byref(batch), pool and pool.handle):
            raise RuntimeError(f"the kernels for {self.set} cannot run in this process")

    def run_ahead(
        self, program: Any, count: int, batch: RowBatch, pool: Pool | None, steps: int, end: int
    ) -> int:  # fmt: skip
        """Run up to ``steps`` steps, each fed with the previous best types, until one is ``end``; return the count."""
        handle = pool and pool.handle
        done: int = self._loaded.regard_run_ahead(
            self._name, program, count, byref(batch), handle, batch.token, batch.time, steps, end
        )
        if not done:
            raise RuntimeError(f"the kernels for {self.set} cannot run in this process")
        return done

    def run_beam(
        self, program: Any, count: int, batch: RowBatch, pool: Pool | None, steps: int, end: int, beam: Beam
    ) -> int:  # fmt: skip
        """Run up to ``steps`` steps of a beam search, until one requires a decision; return their number."""
        done: int = self._loaded.regard_run_beam(
            self._name, program, count, byref(batch), pool and pool.handle, batch.token, batch.time, steps, end,
            byref(beam),
        )  # fmt: skip
        if not done:
            raise RuntimeError(f"the kernels for {self.set} cannot run in this process")
        return done

    def run_pass(self, call: Pass, threads: int = 1, team: int | None = None) -> None:
        """Run one training pass with ``threads`` threads of ``team``, the address of OpenMP's ``GOMP_parallel``."""
        if not self._loaded.regard_pass(self._name, byref(call), threads, team):
            raise RuntimeError(f"the kernels for {self.set} cannot run in this process")

    def pack(self, weight: int, outputs: int, inputs: int, filled: int, format: int, to: int, scale: int) -> None:
        """Pack a float32 matrix into the memory at address ``to``."""
        if not self._loaded.regard_pack(self._name, weight, outputs, inputs, filled, format, to, scale):
            raise RuntimeError(f"the kernels for {self.set} cannot run in this process")

    def out_of_range(self, batch: RowBatch, ends: ctypes.Array[c_int64], slots: int) -> tuple[int, int] | None:
        """Return the list and the index of the first number of a batch that is out of range, or None."""
        position: int = self._loaded.regard_wrong(byref(batch), ends, slots)
        return None if position < 0 else divmod(position, 2**32)

    def pool(self, threads: int) -> Pool | None:
        """Return threads that wait for work; None for a single thread, or if threads cannot be created."""
        handle = self._loaded.regard_new_pool(threads) if threads > 1 else None
        return Pool(self._loaded, handle, threads) if handle else None


class Pool:
    """Threads of the library, which end with this object."""

    def __init__(self, loaded: Any, handle: int, threads: int) -> None:
        self.handle, self.threads, self._process = handle, threads, os.getpid()
        weakref.finalize(self, loaded.regard_free_pool, handle)

    @property
    def alive(self) -> bool:
        """False in a forked process, where these threads do not exist."""
        return self._process == os.getpid()


@cache
def find(path: Path = LIBRARY, choice: str | None = None) -> LoadResult:
    """Load the kernels for the fastest instruction set of this processor, or for ``choice``.

    A process keeps the library that it loaded first, because threads and packed matrices belong to it.
    """
    choice = os.environ.get(CHOICE) if choice is None else choice
    if choice == "off":
        return LoadResult(None, f"{CHOICE} is off")
    if not path.is_file():
        return LoadResult(None, "not built: python -m regard.native.build")
    try:
        loaded = _declared(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        return LoadResult(None, f"{path} cannot be loaded: {error}")
    sizes = [loaded.regard_size(number) for number in range(7)]
    if loaded.regard_abi() != ABI or sizes != [
        ctypes.sizeof(structure) for structure in (NativeMatrix, Operation, Table, RowBatch, Beam, Pass, ShortAttention)
    ]:
        return LoadResult(None, f"{path} has another version: python -m regard.native.build")
    sets: list[str] = []
    while (name := loaded.regard_set(len(sets))) is not None:
        sets.append(name.decode())
    if choice and choice not in sets:
        return LoadResult(None, f"{CHOICE} is {choice}, but this processor supports {', '.join(sets)}")
    return LoadResult(Library(loaded, choice or sets[0], sets), None)


def library() -> Library | None:
    """Return the kernels, or None if they are unavailable."""
    return find().library


def _declared(loaded: Any) -> Any:
    for name, result, arguments in (
        ("abi", c_int, []), ("size", c_int64, [c_int]), ("set", c_char_p, [c_int]),
        ("new_pool", c_void_p, [c_int]), ("free_pool", None, [c_void_p]),
        ("run", c_int, [c_char_p, c_void_p, c_int64, c_void_p, c_void_p]),
        ("run_ahead", c_int, [c_char_p, c_void_p, c_int64, *[c_void_p] * 4, c_int, c_int32]),
        ("run_beam", c_int, [c_char_p, c_void_p, c_int64, *[c_void_p] * 4, c_int, c_int32, c_void_p]),
        ("pass", c_int, [c_char_p, c_void_p, c_int, c_void_p]),
        ("pack", c_int, [c_char_p, c_void_p, *[c_int64] * 4, c_void_p, c_void_p]),
        ("wrong", c_int64, [c_void_p, c_void_p, c_int64]),
    ):  # fmt: skip
        function = getattr(loaded, f"regard_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded

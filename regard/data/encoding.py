"""Tokenization of lines by several processes: the same tokens as with one process, in order, in bounded memory.

One process reads and writes; the others tokenize chunks of lines and are started for large texts only. A worker loads
the tokenizers from files and communicates through its pipes. It ends with its parent process, even if that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, BinaryIO, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from regard.core.processor import usable_cores
from regard.data.ragged import Ragged
from regard.data.tokenizers import subword
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError, RegardError

LARGE = 1 << 26  # bytes of text; below, starting processes costs more time than it saves
AHEAD = 2  # chunks read ahead for each process
START = "from regard.data.encoding import serve; serve()"
Item = TypeVar("Item")


def processes_for(files: Iterable[Path], requested: int | None = None) -> int:
    """Return the number of processes that tokenize these files.

    Args:
        files: the files to tokenize.
        requested: this number; if None, one process for each core if the text is large, otherwise one.
    """
    if requested is not None:
        return requested
    size = sum(path.stat().st_size for path in files if path.is_file())
    return usable_cores() if size >= LARGE and sys.executable else 1


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of ``size``; the last list may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def encode_chunks(
    tokenizers: Sequence[Tokenizer], chunks: Iterable[tuple[Item, Sequence[Sequence[str]]]], processes: int = 1
) -> Iterator[tuple[Item, list[Ragged]]]:
    """Yield the item of each chunk and the tokens of its lines, in the order of the chunks.

    Args:
        tokenizers: the k-th tokenizer encodes the k-th list of lines of each chunk.
        chunks: an item to pass through, and one list of lines for each tokenizer.
        processes: number of worker processes; 1 uses this process only.

    Raises:
        DataError: a worker process died. Exceptions of the tokenizers are passed on.
    """
    if processes <= 1:
        yield from ((item, _encoded(tokenizers, lines)) for item, lines in chunks)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number, tokenizer in enumerate(tokenizers):
            tokenizer.save(folder, str(number))
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(processes):
            idle.put(stack.enter_context(closing(_Worker(folder, len(tokenizers)))))
        threads = ThreadPoolExecutor(processes)
        stack.callback(threads.shutdown, cancel_futures=True)

        def encode(lines: Sequence[Sequence[str]]) -> list[Ragged]:
            worker = idle.get()
            try:
                encoded = worker.encode(lines)
            finally:
                idle.put(worker)
            return _encoded(tokenizers, lines) if encoded is None else encoded  # raises the same error as in the worker

        waiting: deque[tuple[Item, Future[list[Ragged]]]] = deque()
        for item, lines in chunks:
            waiting.append((item, threads.submit(encode, lines)))
            if len(waiting) > AHEAD * processes:
                item_done, future = waiting.popleft()
                yield item_done, future.result()
        yield from ((item, future.result()) for item, future in waiting)


class _Worker:
    """A process that tokenizes lines."""

    def __init__(self, folder: Path, tokenizers: int) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(folder), str(tokenizers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip

    def encode(self, lines: Sequence[Sequence[str]]) -> list[Ragged] | None:
        """Return the tokens of the lines; None if a tokenizer raised an exception."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(lines).encode() + b"\n")
            self._process.stdin.flush()
            return _receive(self._process.stdout)
        except (OSError, EOFError) as error:
            raise DataError(
                "a tokenization process died",
                where=f"process {self._process.pid}",
                why=f"it exited with status {self._process.wait()}; −9 usually means out of memory",
                help="use a single process: --set data.processes=1",
            ) from error

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # unsent data is lost anyway
                pass
        self._process.wait()


def serve() -> None:
    """Run a worker: read chunks from standard input and write tokens to standard output, until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent process handles these signals
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to standard error: standard output carries tokens
    subword.THREADS = 1
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    tokenizers = [load_tokenizer(folder, str(number)) for number in range(count)]
    for lines in sys.stdin.buffer:
        try:
            encoded: list[Ragged] | None = _encoded(tokenizers, json.loads(lines))
        except (RegardError, RuntimeError, TypeError, ValueError):  # the parent raises it again and reports it
            encoded = None
        try:
            _send(answers, encoded)
        except BrokenPipeError:  # the parent has exited
            os._exit(0)


def _send(file: BinaryIO, encoded: list[Ragged] | None) -> None:
    sizes = None if encoded is None else [[len(array.offsets), len(array.values)] for array in encoded]
    file.write(json.dumps(sizes).encode() + b"\n")
    for array in encoded or []:
        file.write(array.offsets.tobytes() + array.values.tobytes())
    file.flush()


def _receive(file: IO[bytes]) -> list[Ragged] | None:
    head = file.readline()
    sizes: list[list[int]] | None = json.loads(head) if head.endswith(b"\n") else _ended()
    if sizes is None:
        return None
    return [
        Ragged(offsets=_array(file, np.dtype(np.int64), rows), values=_array(file, np.dtype(np.uint32), positions))
        for rows, positions in sizes
    ]


def _array(file: IO[bytes], dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    data = file.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype) if len(data) == count * dtype.itemsize else _ended()


def _ended() -> NoReturn:
    raise EOFError("the worker process has ended")


def _encoded(tokenizers: Sequence[Tokenizer], lines: Sequence[Sequence[str]]) -> list[Ragged]:
    return [_flat(tokenizer.encode_lines(texts)) for tokenizer, texts in zip(tokenizers, lines, strict=True)]


def _flat(numbers: Sequence[Sequence[int]]) -> Ragged:
    lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))
    return Ragged.of_lengths(np.fromiter(chain.from_iterable(numbers), np.uint32, int(lengths.sum())), lengths)

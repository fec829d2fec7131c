"""Lines to numbers by several processes, in the order of the lines: the same numbers as by one, in bounded memory.

One process reads and writes; the others, started only for large texts, cut chunks of lines. A process that is started
knows the tokenizers by their files and speaks over its pipes; it ends with the one that started it, however that ends.
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

from regard.core.cores import usable_cores
from regard.data.ragged import Ragged
from regard.data.tokenizers import subword
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError, RegardError

LARGE = 1 << 26  # bytes of text, below which starting processes takes longer than they save
AHEAD = 2  # chunks read ahead for each process
START = "from regard.data.encoding import serve; serve()"
Kept = TypeVar("Kept")


def processes_for(files: Iterable[Path], wanted: int | None = None) -> int:
    """Count the processes that are to cut these files: as many as ``wanted``, or as cores where the text is large."""
    if wanted is not None:
        return wanted
    size = sum(path.stat().st_size for path in files if path.is_file())
    return usable_cores() if size >= LARGE and sys.executable else 1


def in_chunks(items: Iterable[Kept], size: int) -> Iterator[list[Kept]]:
    """Yield the items in lists of ``size``; the last one may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def encode_chunks(
    tokenizers: Sequence[Tokenizer], chunks: Iterable[tuple[Kept, Sequence[Sequence[str]]]], processes: int = 1
) -> Iterator[tuple[Kept, list[Ragged]]]:
    """Yield of each chunk what is to be kept, and the numbers of its lines: of the k-th lines by the k-th tokenizer.

    Chunks come in their order. Raises what a tokenizer raises, and DataError where a process dies.
    """
    if processes <= 1:
        yield from ((kept, _encoded(tokenizers, lines)) for kept, lines in chunks)
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
                found = worker.encode(lines)
            finally:
                idle.put(worker)
            return _encoded(tokenizers, lines) if found is None else found  # fails here as it did there

        waiting: deque[tuple[Kept, Future[list[Ragged]]]] = deque()
        for kept, lines in chunks:
            waiting.append((kept, threads.submit(encode, lines)))
            if len(waiting) > AHEAD * processes:
                first, found = waiting.popleft()
                yield first, found.result()
        yield from ((kept, found.result()) for kept, found in waiting)


class _Worker:
    """A process that cuts lines."""

    def __init__(self, folder: Path, tokenizers: int) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(folder), str(tokenizers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip

    def encode(self, lines: Sequence[Sequence[str]]) -> list[Ragged] | None:
        """The numbers; None where a tokenizer raised something."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(lines).encode() + b"\n")
            self._process.stdin.flush()
            return _receive(self._process.stdout)
        except (OSError, EOFError) as error:
            raise DataError(
                "a process that was tokenizing has died",
                where=f"process {self._process.pid}",
                why=f"it ended with status {self._process.wait()}; out of memory, it would be −9",
                help="--set data.processes=1 tokenizes in this process alone",
            ) from error

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not sent yet cannot be
                pass
        self._process.wait()


def serve() -> None:
    """The work of a process: chunks from standard input to standard output, until there are no more."""
    for each in (signal.SIGINT, signal.SIGTERM):  # for the process that started this one
        signal.signal(each, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes elsewhere
    subword.THREADS = 1
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    tokenizers = [load_tokenizer(folder, str(each)) for each in range(number)]
    for lines in sys.stdin.buffer:
        try:
            encoded: list[Ragged] | None = _encoded(tokenizers, json.loads(lines))
        except (RegardError, RuntimeError, TypeError, ValueError):  # told by the other process, which meets it again
            encoded = None
        try:
            _send(answers, encoded)
        except BrokenPipeError:  # nobody waits any more
            os._exit(0)


def _send(file: BinaryIO, encoded: list[Ragged] | None) -> None:
    sizes = None if encoded is None else [[len(each.offsets), len(each.values)] for each in encoded]
    file.write(json.dumps(sizes).encode() + b"\n")
    for each in encoded or []:
        file.write(each.offsets.tobytes() + each.values.tobytes())
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
    found = file.read(count * dtype.itemsize)
    return np.frombuffer(found, dtype) if len(found) == count * dtype.itemsize else _ended()


def _ended() -> NoReturn:
    raise EOFError("a process has ended")


def _encoded(tokenizers: Sequence[Tokenizer], lines: Sequence[Sequence[str]]) -> list[Ragged]:
    return [_flat(tokenizer.encode_lines(each)) for tokenizer, each in zip(tokenizers, lines, strict=True)]


def _flat(numbers: Sequence[Sequence[int]]) -> Ragged:
    lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))
    return Ragged.of_lengths(np.fromiter(chain.from_iterable(numbers), np.uint32, int(lengths.sum())), lengths)

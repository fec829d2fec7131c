"""From pairs of lines to a prepared corpus, in constant memory; written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.atomic_files import commit_folder, explain_os_errors, hidden_sibling
from regard.core.contents import require_unchanged
from regard.core.wording import counted
from regard.data.corpus import FORMAT, Corpus, Report
from regard.data.encoding import EncodedLines, encode_chunks, processes_for
from regard.data.reading import CorpusConfig, PairReader, read_pairs
from regard.data.tokenizers.tokenizer import UNKNOWN, Tokenizer
from regard.errors import DataError, StorageError

__all__ = ["fingerprint", "open_or_prepare", "prepare"]

CHUNK = 4096  # pairs cut and written at a time
NAMED_LINES = 20
WHOLE = (0.0, 1.0)
Pair = tuple[int, str, str]


def prepare(
    pairs: Iterable[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    folder: Path,
    *,
    max_length: int,
    crop: bool = False,
    name: str | None = None,
    fingerprint: str = "",
    content: str = "",
    processes: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Cut ``pairs`` into ``folder`` and open it; a corpus that is there already is replaced.

    A pair with more than ``max_length`` pieces on either side is left out and reported with its line in
    ``Corpus.report``; with ``crop`` a longer source keeps its first ``max_length`` pieces. ``name`` is what messages
    call the corpus; ``progress`` is told the pairs read so far; ``content`` is what ``Corpus.content`` must be; so many
    ``processes`` cut the lines, into the same bytes. About 0.5 µs a piece (BPE), memory constant. Raises the reader's
    DataErrors, DataError when no pair is left or the content is another, and StorageError, also when ``folder`` holds
    something else; then nothing has changed in ``folder``.
    """
    name = name or (pairs.config.name if isinstance(pairs, PairReader) else "pair")
    _refuse_foreign(folder)
    with explain_os_errors(folder):
        temporary = _emptied(folder)
    try:
        tokenizers = source_tokenizer, target_tokenizer
        with explain_os_errors(folder), _Writer(temporary, *tokenizers, max_length, crop=crop) as writer:
            chunks = ((chunk, [[pair[1] for pair in chunk], [pair[2] for pair in chunk]]) for chunk in _chunks(pairs))
            for chunk, sides in encode_chunks(tokenizers, chunks, processes):
                writer.write(chunk, *sides)
                if progress is not None:
                    progress(writer.read)
        report = writer.report(pairs.blank if isinstance(pairs, PairReader) else 0)
        if report.pairs == 0:
            raise _nothing_left(report, name, pairs.config.share if isinstance(pairs, PairReader) else WHOLE)
        require_unchanged("corpus", writer.content.hexdigest(), content, where=name)
        files = pairs.files if isinstance(pairs, PairReader) else []
        head = {**FORMAT, "name": name, "fingerprint": fingerprint, **writer.head(), "report": report._asdict()}
        with explain_os_errors(folder):
            _write_files(temporary, files)
            (temporary / "corpus.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
            commit_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Corpus.open(folder)


def _emptied(folder: Path) -> Path:
    """A new folder beside ``folder``, to be written into, without what a kill left there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = hidden_sibling(folder, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    return temporary


def _write_files(folder: Path, files: list[tuple[str, int]]) -> None:
    """Note where each of several files begins, for messages that name a line."""
    if len(files) > 1:
        told = {"names": [file for file, _ in files], "before": [before for _, before in files]}
        (folder / "files.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def open_or_prepare(
    config: CorpusConfig,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    folder: Path,
    *,
    max_length: int,
    crop: bool = False,
    content: str = "",
    processes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Open ``folder`` when it was made of these very files, tokenizers and length; prepare it otherwise.

    With ``content``, the ``Corpus.content`` of before, files that were copied or touched will do, other text will
    not: a DataError. ``processes``: see ``encoding.processes_for``.
    """
    wanted = fingerprint(config, source_tokenizer, target_tokenizer, max_length=max_length, crop=crop)
    try:
        corpus = Corpus.open(folder)
        if corpus.fingerprint == wanted:
            corpus.require_types(len(source_tokenizer), len(target_tokenizer))
            return corpus
    except DataError:
        pass  # missing or damaged: it is made anew from the text
    return prepare(
        read_pairs(config),
        source_tokenizer,
        target_tokenizer,
        folder,
        max_length=max_length,
        crop=crop,
        fingerprint=wanted,
        content=content,
        processes=processes_for(_files(config), processes),
        progress=progress,
    )


def fingerprint(
    config: CorpusConfig, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, *, max_length: int,
    crop: bool = False,
) -> str:  # fmt: skip
    """A sha256 over all that decides the prepared numbers. A file counts by path, size and time of change."""
    files = []
    for path in _files(config):
        if path.exists():
            status = path.stat()
            files.append([str(path.resolve()), status.st_size, status.st_mtime_ns])
    what = {
        **FORMAT,
        "files": files,
        "keys": [config.source_key, config.target_key],
        "share": list(config.share),
        "tokenizers": [source_tokenizer.digest(), target_tokenizer.digest()],
        "max_length": max_length,
        **({"crop": True} if crop else {}),
        **({"header": True} if config.header else {}),
        **({"part": list(config.part)} if config.part is not None else {}),
    }
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _files(config: CorpusConfig) -> list[Path]:
    return [path for part in config.each_file() for path in (part.source, part.target) if path is not None]


class _Side:
    """One side's files, open for writing."""

    def __init__(self, folder: Path, name: str) -> None:
        self.tokens = self.unknown = 0
        self.token_file = (folder / f"{name}.tokens").open("wb")
        self.offset_file = (folder / f"{name}.offsets").open("wb")
        self.offset_file.write(np.zeros(1, np.int64).tobytes())

    def write(self, sentences: EncodedLines, keep: npt.NDArray[np.bool_], dtype: np.dtype[Any]) -> None:
        lengths = sentences.lengths[keep]
        flat = sentences.numbers[np.repeat(keep, sentences.lengths)].astype(dtype)
        self.unknown += int((flat == UNKNOWN).sum())
        self.token_file.write(flat.tobytes())
        self.offset_file.write((self.tokens + np.cumsum(lengths)).tobytes())
        self.tokens += len(flat)

    def close(self) -> None:
        self.token_file.close()
        self.offset_file.close()


class _Writer:
    def __init__(self, folder: Path, source: Tokenizer, target: Tokenizer, max_length: int, *, crop: bool) -> None:
        self.max_length, self.crop = max_length, crop
        self.dtype = np.dtype("<u2" if max(len(source), len(target)) <= 1 << 16 else "<u4")
        self.sides = (_Side(folder, "source"), _Side(folder, "target"))
        self.lines = (folder / "lines").open("wb")
        self.content = hashlib.sha256()
        self.read = self.kept = self.long = self.cropped = 0
        self.long_lines: list[int] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (*self.sides, self.lines):
            file.close()

    def write(self, chunk: list[Pair], source: EncodedLines, target: EncodedLines) -> None:
        for _, *sides in chunk:
            self.content.update(json.dumps(sides).encode())
        if self.crop:
            self.cropped += int(((source.lengths > self.max_length) & (target.lengths <= self.max_length)).sum())
            source = _cropped(source, self.max_length)
        keep = np.maximum(source.lengths, target.lengths) <= self.max_length
        lines = np.fromiter((pair[0] for pair in chunk), np.int64, len(chunk))
        self.long += int((~keep).sum())
        self.long_lines += lines[~keep][: NAMED_LINES - len(self.long_lines)].tolist()
        self.sides[0].write(source, keep, self.dtype)
        self.sides[1].write(target, keep, self.dtype)
        self.lines.write(lines[keep].tobytes())
        self.read += len(chunk)
        self.kept += int(keep.sum())

    def head(self) -> dict[str, Any]:
        """The sizes and types that a reader needs; call it when the files are closed."""
        return {
            "content": self.content.hexdigest(),
            "dtype": self.dtype.str,
            "source_tokens": self.sides[0].tokens,
            "target_tokens": self.sides[1].tokens,
        }

    def report(self, blank: int) -> Report:
        return Report(
            pairs=self.kept,
            blank=blank,
            long=self.long,
            long_lines=self.long_lines,
            source_unknown=self.sides[0].unknown,
            target_unknown=self.sides[1].unknown,
            max_length=self.max_length,
            cropped=self.cropped,
        )


def _cropped(lines: EncodedLines, most: int) -> EncodedLines:
    """The first ``most`` pieces of each line."""
    begins = np.cumsum(lines.lengths) - lines.lengths
    place = np.arange(len(lines.numbers)) - np.repeat(begins, lines.lengths)
    return lines._replace(numbers=lines.numbers[place < most], lengths=np.minimum(lines.lengths, most))


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    rest = iter(pairs)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _refuse_foreign(folder: Path) -> None:
    """Replacing deletes what was there, so that must be a prepared corpus."""
    with explain_os_errors(folder):
        occupied = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
    if occupied and not (folder / "corpus.json").exists():
        raise StorageError(
            "the folder for the prepared corpus holds something else",
            where=str(folder),
            help="name another folder, or empty this one",
        )


def _nothing_left(report: Report, name: str, share: tuple[float, float]) -> DataError:
    if report.long:
        most = counted(report.max_length, "piece")
        why = f"left out for its length: {counted(report.long, 'pair')} of more than {most}"
        return DataError("no pair of the corpus is left", where=name, why=why, help="raise data.max_length")
    if share != WHOLE:
        return DataError(
            "no pair of the corpus falls into its share",
            where=name,
            why=f"share = [{share[0]:g}, {share[1]:g}] is {share[1] - share[0]:.2%} of the pairs",
            help="widen the share, or validate on a corpus of its own: data.valid, --valid",
        )
    return DataError("the corpus holds no sentence: every line is blank", where=name)

"""From pairs of lines to a prepared corpus, in constant memory; written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.atomic_files import explain_os_errors
from regard.core.contents import require_unchanged
from regard.core.wording import counted
from regard.data.corpus import FORMAT, SIDES, Corpus, CorpusHead, Report
from regard.data.encoding import encode_chunks, processes_for
from regard.data.prepared import file_version, replacing_folder, token_type
from regard.data.ragged import Ragged, RaggedWriter
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
    reader = pairs if isinstance(pairs, PairReader) else None
    with replacing_folder(folder) as temporary:
        tokenizers = source_tokenizer, target_tokenizer
        with _Writer(temporary, *tokenizers, max_length, crop=crop) as writer:
            chunks = ((chunk, [[pair[1] for pair in chunk], [pair[2] for pair in chunk]]) for chunk in _chunks(pairs))
            for chunk, sides in encode_chunks(tokenizers, chunks, processes):
                writer.write(chunk, *sides)
                if progress is not None:
                    progress(writer.read)
        head = writer.head(name, fingerprint, reader.blank if reader else 0)
        if head.report.pairs == 0:
            raise _nothing_left(head.report, name, reader.config.share if reader else WHOLE)
        require_unchanged("corpus", head.content, content, where=name)
        _write_files(temporary, reader.files if reader else [])
        Corpus.write_head(temporary, head)
    return Corpus.open(folder)


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
    if corpus := Corpus.reopen(folder, wanted, len(source_tokenizer), len(target_tokenizer)):
        return corpus
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
    what = {
        **FORMAT,
        "files": [file_version(path) for path in _files(config) if path.exists()],
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


class _Writer:
    """The arrays of a corpus, open for writing, and the counts of its report."""

    def __init__(self, folder: Path, source: Tokenizer, target: Tokenizer, max_length: int, *, crop: bool) -> None:
        self.max_length, self.crop = max_length, crop
        dtype = token_type(len(source), len(target))
        self.sides = {
            side: RaggedWriter(folder / f"{side}.tokens", folder / f"{side}.offsets", dtype) for side in SIDES
        }
        self.lines = RaggedWriter(folder / "lines", None, "<i8")
        self.unknown = dict.fromkeys(SIDES, 0)
        self.content = hashlib.sha256()
        self.read = self.long = self.cropped = 0
        self.long_lines: list[int] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in (*self.sides.values(), self.lines):
            writer.__exit__(*error)

    def write(self, chunk: list[Pair], source: Ragged, target: Ragged) -> None:
        for _, *texts in chunk:
            self.content.update(json.dumps(texts).encode())
        if self.crop:
            self.cropped += int(((source.lengths > self.max_length) & (target.lengths <= self.max_length)).sum())
            source = source.truncate(self.max_length)
        keep = np.maximum(source.lengths, target.lengths) <= self.max_length
        lines = np.fromiter((pair[0] for pair in chunk), np.int64, len(chunk))
        self.long += int((~keep).sum())
        self.long_lines += lines[~keep][: NAMED_LINES - len(self.long_lines)].tolist()
        for side, rows in zip(SIDES, (source, target), strict=True):
            kept = rows.select(keep)
            self.unknown[side] += int((kept.values == UNKNOWN).sum())
            self.sides[side].append(kept)
        self.lines.append_values(lines[keep])
        self.read += len(chunk)

    def head(self, name: str, fingerprint: str, blank: int) -> CorpusHead:
        """The head of what was written; ``blank``: the lines that the reader left out."""
        return CorpusHead(
            name=name,
            fingerprint=fingerprint,
            content=self.content.hexdigest(),
            arrays={"lines": self.lines.head, **{side: writer.head for side, writer in self.sides.items()}},
            report=Report(
                pairs=self.lines.head.positions,
                blank=blank,
                long=self.long,
                long_lines=self.long_lines,
                source_unknown=self.unknown["source"],
                target_unknown=self.unknown["target"],
                max_length=self.max_length,
                cropped=self.cropped,
            ),
        )


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

"""Preparation of a corpus from pairs of lines, in constant memory; the result is written completely or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from regard.core.atomic_files import explain_os_errors
from regard.core.contents import require_unchanged
from regard.core.wording import pluralize
from regard.data.corpus import FORMAT, Corpus, CorpusHead, Report
from regard.data.encoding import encode_chunks, in_chunks, processes_for
from regard.data.prepared import file_version, replacing_folder, token_type
from regard.data.ragged import RaggedWriter
from regard.data.reading import CorpusConfig, PairReader, read_pairs
from regard.data.tokenizers.tokenizer import UNKNOWN, Tokenizer
from regard.errors import DataError, StorageError

CHUNK = 4096  # pairs tokenized and written at a time
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
    """Tokenize ``pairs`` into ``folder`` and open it; an existing corpus is replaced.

    A pair with more than ``max_length`` tokens on either side is left out and reported in ``Corpus.report``. About 0.5
    µs per token (BPE), in constant memory.

    Args:
        pairs: line number, source and target of each pair.
        source_tokenizer: encodes the sources.
        target_tokenizer: encodes the targets.
        folder: the prepared folder.
        max_length: maximum number of tokens of each side.
        crop: whether to truncate longer sources instead of leaving the pair out.
        name: name of the corpus in messages.
        fingerprint: digest that identifies the inputs, see ``fingerprint``.
        content: required ``Corpus.content``; "" accepts any.
        processes: number of processes that tokenize; the result does not depend on it.
        progress: called with the number of pairs read.

    Raises:
        DataError: no pair is left, the content differs, or the reader fails.
        StorageError: ``folder`` cannot be written, or holds something else. After any error, ``folder`` is unchanged.
    """
    reader = pairs if isinstance(pairs, PairReader) else None
    name = name or (reader.config.name if reader else "pair")
    _refuse_foreign(folder)
    with replacing_folder(folder) as temporary:
        tokenizers = source_tokenizer, target_tokenizer
        head = _write(pairs, tokenizers, temporary, max_length, crop=crop, processes=processes, progress=progress)
        report = head.report.model_copy(update={"blank": reader.blank if reader else 0})
        if report.pairs == 0:
            raise _nothing_left(report, name, reader.config.share if reader else WHOLE)
        require_unchanged("corpus", head.content, content, where=name)
        _write_files(temporary, reader.files if reader else [])
        facts = {"name": name, "fingerprint": fingerprint, "report": report}
        Corpus.write_head(temporary, head.model_copy(update=facts))
    return Corpus.open(folder)


def _write_files(folder: Path, files: list[tuple[str, int]]) -> None:
    """Save the number of lines before each of several files, for messages that name a line."""
    if len(files) > 1:
        starts = {"names": [file for file, _ in files], "before": [before for _, before in files]}
        (folder / "files.json").write_text(json.dumps(starts) + "\n", encoding="utf-8")


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
    """Open ``folder`` if it was prepared from these files, tokenizers and length; otherwise prepare it.

    With ``content``, an earlier ``Corpus.content``, copied or touched files are accepted; other text is a DataError.
    ``processes``: see ``encoding.processes_for``.
    """
    expected = fingerprint(config, source_tokenizer, target_tokenizer, max_length=max_length, crop=crop)
    if corpus := Corpus.reopen(folder, expected, len(source_tokenizer), len(target_tokenizer)):
        return corpus
    return prepare(
        read_pairs(config),
        source_tokenizer,
        target_tokenizer,
        folder,
        max_length=max_length,
        crop=crop,
        fingerprint=expected,
        content=content,
        processes=processes_for(_files(config), processes),
        progress=progress,
    )


def fingerprint(
    config: CorpusConfig, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer, *, max_length: int,
    crop: bool = False,
) -> str:  # fmt: skip
    """Return a sha256 of everything that determines the prepared tokens. Files count by path, size and change time."""
    facts = {
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
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _files(config: CorpusConfig) -> list[Path]:
    return [path for part in config.each_file() for path in (part.source, part.target) if path is not None]


def _write(
    pairs: Iterable[Pair], tokenizers: tuple[Tokenizer, Tokenizer], folder: Path, max_length: int, *, crop: bool,
    processes: int, progress: Callable[[int], None] | None,
) -> CorpusHead:  # fmt: skip
    dtype, content, read, long_lines = token_type(*map(len, tokenizers)), hashlib.sha256(), 0, list[int]()
    counts = {"long": 0, "cropped": 0, "source_unknown": 0, "target_unknown": 0}
    with (
        RaggedWriter(folder / "source.tokens", folder / "source.offsets", dtype) as source_writer,
        RaggedWriter(folder / "target.tokens", folder / "target.offsets", dtype) as target_writer,
        RaggedWriter(folder / "lines", None, "<i8") as line_writer,
    ):
        writers = {"source": source_writer, "target": target_writer, "lines": line_writer}
        chunks = ((part, [[pair[1] for pair in part], [pair[2] for pair in part]]) for part in in_chunks(pairs, CHUNK))
        for chunk, (source, target) in encode_chunks(tokenizers, chunks, processes):
            for _, *texts in chunk:
                content.update(json.dumps(texts).encode())
            if crop:
                counts["cropped"] += int(((source.lengths > max_length) & (target.lengths <= max_length)).sum())
                source = source.truncate(max_length)
            keep = np.maximum(source.lengths, target.lengths) <= max_length
            lines = np.fromiter((pair[0] for pair in chunk), np.int64, len(chunk))
            counts["long"] += int((~keep).sum())
            long_lines += lines[~keep][: NAMED_LINES - len(long_lines)].tolist()
            for side, rows in (("source", source.select(keep)), ("target", target.select(keep))):
                counts[f"{side}_unknown"] += int((rows.values == UNKNOWN).sum())
                writers[side].append(rows)
            line_writer.append_values(lines[keep])
            read += len(chunk)
            if progress is not None:
                progress(read)
    arrays = {name: writer.head for name, writer in writers.items()}
    report = Report(pairs=line_writer.positions, blank=0, long_lines=long_lines, max_length=max_length, **counts)
    return CorpusHead(name="", fingerprint="", content=content.hexdigest(), arrays=arrays, report=report)


def _refuse_foreign(folder: Path) -> None:
    """Raise StorageError unless ``folder`` is missing, empty or a prepared corpus, since replacing deletes it."""
    with explain_os_errors(folder):
        occupied = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
    if occupied and not (folder / "corpus.json").exists():
        raise StorageError(
            "the folder for the prepared corpus contains other files",
            where=str(folder),
            help="choose another folder, or empty this one",
        )


def _nothing_left(report: Report, name: str, share: tuple[float, float]) -> DataError:
    if report.long:
        limit = pluralize(report.max_length, "token")
        why = f"{pluralize(report.long, 'pair')} with more than {limit} left out"
        return DataError("no pair of the corpus is left", where=name, why=why, help="raise data.max_length")
    if share != WHOLE:
        return DataError(
            "the share of the corpus contains no pairs",
            where=name,
            why=f"share = [{share[0]:g}, {share[1]:g}] is {share[1] - share[0]:.2%} of the pairs",
            help="widen the share, or validate on a separate corpus: data.valid, --valid",
        )
    return DataError("the corpus has no sentences: all lines are blank", where=name)

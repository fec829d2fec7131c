"""DNA, RNA and proteins: FASTA records and reverse complements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.file_names import has_ending
from regard.data.text_files import read_lines
from regard.errors import DataError

FASTA = (".fasta", ".fa", ".fna", ".faa", ".ffn")
# Nucleotides and IUPAC ambiguity codes; other characters are unchanged.
COMPLEMENT = str.maketrans("ACGTURYKMBDHVacgturykmbdhv", "TGCAAYRMKVHDBtgcaayrmkvhdb")


class FastaRecord(NamedTuple):
    """A sequence, the words of its header line, and the place of that line."""

    words: tuple[str, ...]
    sequence: str
    where: str


def is_fasta(path: Path) -> bool:
    """Return whether the name is that of a FASTA file, ``.gz`` or not."""
    return has_ending(path, FASTA)


def read_fasta(path: Path) -> Iterator[FastaRecord]:
    """Yield the records of a FASTA file. DataError, with the line, for a sequence without a header or vice versa."""
    words: tuple[str, ...] | None = None
    where, lines = "", list[str]()
    for number, line in enumerate(read_lines(path), start=1):
        text = line.strip()
        if text.startswith(">"):
            if words is not None:
                yield _record(words, lines, where)
            words, where, lines = tuple(text[1:].split()), f"{path}:{number}", []
        elif text and words is None:
            what = "the sequence has no header line"
            raise DataError(what, where=f"{path}:{number}", why="a record begins with > and a name")
        elif text and not text.startswith(";"):
            if len(text.split()) > 1:
                raise DataError("the sequence contains a space", where=f"{path}:{number}")
            lines.append(text)
    if words is not None:
        yield _record(words, lines, where)


def _record(words: tuple[str, ...], lines: list[str], where: str) -> FastaRecord:
    if not lines:
        raise DataError("the record has no sequence", where=where)
    return FastaRecord(words, "".join(lines), where)


def reverse_complement(sequence: str) -> str:
    """Return the reverse complement: ``AACG`` → ``CGTT``; U counts as T."""
    return sequence.translate(COMPLEMENT)[::-1]

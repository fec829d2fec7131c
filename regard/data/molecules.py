"""DNA, RNA and proteins: records of FASTA files, and the other strand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.file_names import has_ending
from regard.data.text_files import read_lines
from regard.errors import DataError

FASTA = (".fasta", ".fa", ".fna", ".faa", ".ffn")
# Of nucleotides and of the letters for several of them (IUPAC); others, and marks, stay.
COMPLEMENT = str.maketrans("ACGTURYKMBDHVacgturykmbdhv", "TGCAAYRMKVHDBtgcaayrmkvhdb")


class FastaRecord(NamedTuple):
    """A sequence, the words of the line above it, and where that line stands."""

    words: tuple[str, ...]
    sequence: str
    where: str


def is_fasta(path: Path) -> bool:
    """Return whether the name is that of a FASTA file, ``.gz`` or not."""
    return has_ending(path, FASTA)


def read_fasta(path: Path) -> Iterator[FastaRecord]:
    """The records of a FASTA file. DataError, with file and line, for a sequence without a line above or none below."""
    words: tuple[str, ...] | None = None
    where, lines = "", list[str]()
    for number, line in enumerate(read_lines(path), start=1):
        text = line.strip()
        if text.startswith(">"):
            if words is not None:
                yield _record(words, lines, where)
            words, where, lines = tuple(text[1:].split()), f"{path}:{number}", []
        elif text and words is None:
            what = "the sequence has no line above it"
            raise DataError(what, where=f"{path}:{number}", why="a record begins with > and its name")
        elif text and not text.startswith(";"):
            if len(text.split()) > 1:
                raise DataError("there is a space in the sequence", where=f"{path}:{number}")
            lines.append(text)
    if words is not None:
        yield _record(words, lines, where)


def _record(words: tuple[str, ...], lines: list[str], where: str) -> FastaRecord:
    if not lines:
        raise DataError("there is no sequence below this line", where=where)
    return FastaRecord(words, "".join(lines), where)


def reverse_complement(sequence: str) -> str:
    """The other strand, read in its own direction: ``AACG`` is ``CGTT``; U is taken for T."""
    return sequence.translate(COMPLEMENT)[::-1]

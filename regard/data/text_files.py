"""Lines of text files, plain or gzipped, with strict checks and exact error messages."""

from __future__ import annotations

import codecs
import io
import shlex
from collections.abc import Iterator
from pathlib import Path

from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors, unreadable
from regard.data.packed_files import is_gzipped, longest_line, open_unpacked
from regard.errors import DataError, RegardError

CHUNK = 1 << 16  # bytes
DAMAGED = "a gzip file is truncated or damaged"
SIGNATURE = 1 << 12  # bytes at the start of a file that identify its type
ZEROS = 16  # files with this many zero bytes among them are not text

# Signatures of files that are not UTF-8 text: their type, and a command that converts them to text.
UTF_16, UTF_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
PACKED = {
    b"\x1f\x8b": ("gzip", "gzip -dc {file} > {stem}"),
    b"\xfd7zXZ\x00": ("xz", "xz -dc {file} > {stem}"),
    b"BZh91AY&SY": ("bzip2", "bzip2 -dc {file} > {stem}"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "zstd -dc {file} > {stem}"),
}
ARCHIVE, PDF, OFFICE, MIDI = b"PK\x03\x04", b"%PDF-", b"\xd0\xcf\x11\xe0", b"MThd"
OTHERS = {
    PDF: "a PDF", b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture",
    OFFICE: "an Office document", b"PAR1": "Parquet, whose name ends in .parquet",
    b"\x93NUMPY": "a NumPy array, whose name ends in .npy", MIDI: "MIDI",
    b"RIFF": "a recording", b"ID3": "a recording", b"fLaC": "a recording", b"OggS": "a recording",
    b"SQLite format 3": "a database", b"\x7fELF": "a program",
}  # fmt: skip
ARRAYS = "`regard train` and `regard evaluate` read graphs (edges, y, x) or series (frames, offsets, label)"


def refuse_pipe(path: Path) -> None:
    """Raise DataError for a path that is neither a file nor a folder; a missing path is accepted."""
    try:
        is_special = path.exists() and not path.is_file() and not path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise unreadable(path, error) from error
    if is_special:
        raise DataError(
            "a pipe or device cannot be a corpus",
            where=str(path),
            why="it can be read only once",
            help="save it to a file first, plain or gzipped",
        )


def require_content(path: Path) -> None:
    """Raise DataError for a file, ``.gz`` or not, that is empty or blank; reads up to the first character."""
    read = 0
    try:
        with foreign_errors("the file is damaged", path), open_unpacked(path) as file:
            while chunk := file.read(CHUNK):
                if chunk.removeprefix(codecs.BOM_UTF8).strip():
                    return
                read += len(chunk)
    except RegardError:  # reported by the next reader
        return
    raise DataError(
        "the file has no content",
        where=str(path),
        why="all of its lines are blank" if read else "it is empty",
        help="omit or restore it; regard train --help lists the supported files",
    )


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, ``.gz`` or not, without their ends; only a line feed ends a line.

    Raises:
        DataError: for bytes that are not UTF-8 (a byte-order mark at the start is dropped), with file and line; for a
            file whose first bytes are not text; for a missing file (with the nearest name), a folder, damaged gzip, and
            an empty file.
    """
    number = 0
    for number, raw in enumerate(read_raw_lines(path), start=1):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                "the line is not valid UTF-8",
                where=f"{path}:{number}",
                why=f"byte {error.start + 1} of the line is 0x{error.object[error.start]:02x}: {error.reason}",
                help=f"{_recode(path, 'WINDOWS-1252')}, if that is its encoding",
            ) from error
    if number == 0:
        raise DataError("the file is empty", where=str(path))


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a text file, unpacked. DataError if it cannot be read or is not text."""
    with foreign_errors(DAMAGED, path, line=lambda: 1), open_bytes(path) as file:
        return file.peek(SIGNATURE).removeprefix(codecs.BOM_UTF8)


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines like ``read_lines``, but undecoded; an empty file has no lines."""
    number = 0
    with foreign_errors(DAMAGED, path, line=lambda: number + 1), open_bytes(path) as file:
        limit = longest_line(path)
        for number, raw in enumerate(file, start=1):
            if len(raw) > limit:
                what, help = f"the line has more than {limit:,} bytes", f"gunzip {path}, then use the unpacked file"
                raise DataError(what, where=f"{path}:{number}", help=help)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a text file, unpacked if its name ends in ``.gz``; read within ``foreign_errors``.

    DataError if its first bytes are not text.
    """
    file = open_unpacked(path)
    try:
        _refuse_other_kinds(path, file.peek(SIGNATURE))
    except BaseException:
        file.close()
        raise
    return file


def _refuse_other_kinds(path: Path, first: bytes) -> None:
    """Raise DataError if the first bytes are those of a packed file, another encoding, or a binary file."""
    stem = path.with_suffix("") if path.suffix else path.with_name(f"{path.name}.txt")
    names = {"file": shlex.quote(str(path)), "stem": shlex.quote(str(stem))}
    if first.startswith(UTF_32 + UTF_16):
        kind = "UTF-32" if first.startswith(UTF_32) else "UTF-16"
        raise DataError(f"the file is {kind}; text must be UTF-8", where=str(path), help=_recode(path, kind))
    for mark, (kind, command) in PACKED.items():
        if first.startswith(mark):
            rename = kind == "gzip" and not is_gzipped(path)
            help = "rename it to .gz: gzipped text is supported" if rename else command.format_map(names)
            raise DataError(f"the file is compressed with {kind}", where=str(path), help=help)
    if first.startswith(ARCHIVE) and path.suffix.lower() == ".npz":
        raise DataError("the file is an archive of NumPy arrays, not text", where=str(path), help=ARRAYS)
    if first.startswith(ARCHIVE):
        office = b"xl/" in first or path.suffix.lower() in (".xlsx", ".xlsm")
        what, help = ("a spreadsheet", "save it as CSV") if office else ("a zip archive", f"unzip {names['file']}")
        raise DataError(f"the file is {what}, not text", where=str(path), help=help)
    for mark, what in OTHERS.items():
        if first.startswith(mark) and (b"\0" in first or mark == PDF or not _is_utf8(first)):
            raise DataError(f"the file is {what}, not text", where=str(path), help=_help_with(mark, names["file"]))
    if first.count(b"\0") >= ZEROS:
        wide = max(first[0::2].count(0), first[1::2].count(0)) > len(first) // 4
        command = _recode(path, f"UTF-16{'BE' if first[0] == 0 else 'LE'}")
        why = f"{first.count(bytes(1)):,} of its first {pluralize(len(first), 'byte')} are zero"
        raise DataError("the file is not text", where=str(path), why=why, help=command if wide else None)
    if b"\n" not in first and first.count(b"\r") > 1:
        raise DataError(
            "lines end in carriage returns; line feeds are expected",
            where=f"{path}:1",
            help=filter_command("tr '\\r' '\\n'", path, f"lf-{path.name}"),
        )


def _help_with(mark: bytes, file: str) -> str | None:
    """Return the remedy that converts another type of file to text; None if it cannot be converted."""
    return {MIDI: f"regard data notes {file} -o music.jsonl", OFFICE: "save it as CSV or as plain text"}.get(mark)


def _recode(path: Path, encoding: str) -> str:
    return filter_command(f"iconv -f {encoding} -t UTF-8", path, f"utf8-{path.name}")


def filter_command(command: str, path: Path, name: str) -> str:
    """Return the shell command that runs ``command`` on a file, unpacked, and writes ``name`` in the same folder."""
    file, output = shlex.quote(str(path)), path.with_name(name)
    if is_gzipped(path):
        output = output.with_suffix("") if is_gzipped(output) else output
        return f"gzip -dc {file} | {command} > {shlex.quote(str(output))}"
    return f"{command} < {file} > {shlex.quote(str(output))}"


def _is_utf8(first: bytes) -> bool:
    """Return whether the beginning of a file is UTF-8; its last character may be truncated."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeDecodeError:
        return False
    return True

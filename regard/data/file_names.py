"""Files by name, by a list or by a pattern such as ``part-*.en``: the many files of one corpus, in their order."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from regard.core.wording import pluralize
from regard.errors import DataError

FileNames = Path | tuple[Path, ...]  # each may be a pattern; one that is the name of a file is that file


JSON_LINES, CONLL_U = (".jsonl", ".ndjson"), (".conllu",)


def has_ending(path: Path, endings: Sequence[str]) -> bool:
    """Return whether a name ends in one of ``endings``, in any case; a ``.gz`` after it does not count."""
    return path.name.lower().removesuffix(".gz").endswith(tuple(endings))


def named_files(names: FileNames) -> list[Path]:
    """The files in the order of a list, those of a pattern sorted by name. DataError for a pattern of none.

    A name without a pattern is given back, whether there is such a file or not.
    """
    return [file for name in _each(names) for file in (_matches(name) if _is_pattern(name) else [name])]


def first_file(names: FileNames) -> Path | None:
    """The first of the files, where there is one."""
    try:
        return next(iter(named_files(names)), None)
    except DataError:
        return None


def paired_files(source: FileNames, target: FileNames | None) -> list[tuple[Path, Path | None]]:
    """Source and target files in turn. DataError where they are not as many, or where patterns match other parts."""
    sources = named_files(source)
    if target is None:
        return [(file, None) for file in sources]
    targets = named_files(target)
    if len(sources) != len(targets):
        raise DataError(
            f"there are {len(sources):,} source and {pluralize(len(targets), 'target file')}",
            where=spelled(source),
            why=f"they are pairs in the order of names, {sources[0]} and {targets[0]} the first",
            help="ls both patterns: a part is missing, or a file too much matches",
        )
    if isinstance(source, Path) and isinstance(target, Path) and _is_pattern(source) and _is_pattern(target):
        for one, other in zip(sources, targets, strict=True):
            if _varying(source, one) != _varying(target, other):
                raise DataError(
                    "source and target files are not parts of the same names",
                    where=str(one),
                    why=f"in the order of names its partner is {other}",
                    help='rename them, or list the files of both sides in their order: source = ["…", "…"]',
                )
    return list(zip(sources, targets, strict=True))


def spelled(names: FileNames) -> str:
    """The names for people: a pattern as it is, of a list the first and how many more."""
    first, *rest = _each(names)
    return f"{first} and {len(rest)} more" if rest else str(first)


def _each(names: FileNames) -> Sequence[Path]:
    return (names,) if isinstance(names, Path) else names


def _is_pattern(name: Path) -> bool:
    return glob.has_magic(str(name)) and not name.exists()


def _matches(pattern: Path) -> list[Path]:
    found = sorted(path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file())
    if not found:
        raise DataError("no file matches the pattern", where=str(pattern), help=f"ls {pattern}")
    return found


def _varying(pattern: Path, file: Path) -> tuple[str, ...]:
    """Return what each wildcard of a pattern stands for in the name of a file."""
    wildcards = {"**/": "(.*)", "**": "(.*)", "*": "([^/]*)", "?": "([^/])"}
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]+\])", str(pattern))
    told = [wildcards.get(part, "(.)") if at % 2 else re.escape(part) for at, part in enumerate(parts)]
    found = re.fullmatch("".join(told), str(file), re.DOTALL)
    return found.groups() if found else ()

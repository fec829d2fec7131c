"""Files given by name, by a list or by a pattern such as ``part-*.en``: the files of one corpus, in order."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from regard.core.wording import pluralize
from regard.errors import DataError

FileNames = Path | tuple[Path, ...]  # each may be a pattern; an existing file takes precedence


JSON_LINES, CONLL_U = (".jsonl", ".ndjson"), (".conllu",)


def has_ending(path: Path, endings: Sequence[str]) -> bool:
    """Return whether a name has one of these endings, in any case; a final ``.gz`` is ignored."""
    return path.name.lower().removesuffix(".gz").endswith(tuple(endings))


def named_files(names: FileNames) -> list[Path]:
    """Return the files in the order of the list; files that match a pattern are sorted by name.

    DataError if a pattern matches no file. A name without a pattern is returned even if no such file exists.
    """
    return [file for name in _listed(names) for file in (_matches(name) if _is_pattern(name) else [name])]


def first_file(names: FileNames) -> Path | None:
    """Return the first of the files; None if no file matches."""
    try:
        return next(iter(named_files(names)), None)
    except DataError:
        return None


def paired_files(source: FileNames, target: FileNames | None) -> list[tuple[Path, Path | None]]:
    """Return pairs of source and target files.

    DataError if their numbers differ, or if the two patterns match different parts.
    """
    sources = named_files(source)
    if target is None:
        return [(file, None) for file in sources]
    targets = named_files(target)
    if len(sources) != len(targets):
        raise DataError(
            f"found {len(sources):,} source and {pluralize(len(targets), 'target file')}, which must be equally many",
            where=summarize(source),
            why=f"files are paired in the order of their names, beginning with {sources[0]} and {targets[0]}",
            help="list the files of both patterns with ls: one is missing, or one too many matches",
        )
    if isinstance(source, Path) and isinstance(target, Path) and _is_pattern(source) and _is_pattern(target):
        for one, other in zip(sources, targets, strict=True):
            if _varying(source, one) != _varying(target, other):
                raise DataError(
                    "the names of source and target files do not match",
                    where=str(one),
                    why=f"in the order of names, it is paired with {other}",
                    help='rename them, or list the files of both sides in order: source = ["…", "…"]',
                )
    return list(zip(sources, targets, strict=True))


def summarize(names: FileNames) -> str:
    """Return the names for messages: a single name or pattern, or the first of a list and the number of others."""
    first, *rest = _listed(names)
    return f"{first} and {len(rest)} more" if rest else str(first)


def _listed(names: FileNames) -> Sequence[Path]:
    return (names,) if isinstance(names, Path) else names


def _is_pattern(name: Path) -> bool:
    return glob.has_magic(str(name)) and not name.exists()


def _matches(pattern: Path) -> list[Path]:
    files = sorted(path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file())
    if not files:
        raise DataError("no file matches the pattern", where=str(pattern), help=f"ls {pattern}")
    return files


def _varying(pattern: Path, file: Path) -> tuple[str, ...]:
    """Return the text that each wildcard of a pattern matches in the name of a file."""
    wildcards = {"**/": "(.*)", "**": "(.*)", "*": "([^/]*)", "?": "([^/])"}
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]+\])", str(pattern))
    expressions = [wildcards.get(part, "(.)") if number % 2 else re.escape(part) for number, part in enumerate(parts)]
    match = re.fullmatch("".join(expressions), str(file), re.DOTALL)
    return match.groups() if match else ()

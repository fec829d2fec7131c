"""Parallel text from files: plain text, TSV, JSON lines and tables with named columns; input is checked strictly."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.core.wording import pluralize
from regard.data.alignment import first_shifted_line
from regard.data.column_names import PAIR, pair_columns
from regard.data.file_names import FileNames, named_files, paired_files, summarize
from regard.data.rows import column_names, describe_keys, form_of, parse_object, read_rows, text_of
from regard.data.shared_files import PartName, falls_into
from regard.data.text_files import filter_command, read_lines, refuse_pipe
from regard.errors import DataError

NAMED_LINES = 10  # maximum number of line numbers in a message


class CorpusConfig(BaseModel):
    """The files of one parallel corpus. Without ``target``, ``source`` is a file with both sides.

    Attributes:
        source: the source file, a list of files, or a pattern such as ``part-*.en``; lines are numbered consecutively.
        target: the target files, likewise. Without them, ``source`` is a .tsv, .jsonl, .csv or .parquet.
        weight: share of this corpus in a mixture of several.
        source_key: key of JSON lines or column of tables; well-known names (``data/column_names``) are also found.
        target_key: the same for the target.
        header: whether the first line of a TSV names its columns.
        part: keeps the rows that a column assigns to a split: ("split", "train").
        share: keeps the pairs whose source has a hash within this part of [0, 1). (0, 0.02) and (0.02, 1) of one file
            have no source in common: they hold out a fiftieth, and equal sources stay together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames
    target: FileNames | None = None
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    source_key: str = PAIR[0]
    target_key: str = PAIR[1]
    header: bool = False
    part: tuple[str, PartName] | None = None
    share: tuple[float, float] = (0.0, 1.0)

    @model_validator(mode="after")
    def _share_is_a_part(self) -> CorpusConfig:
        if not 0 <= self.share[0] < self.share[1] <= 1:
            raise ValueError(f"share must be a part of the interval from 0 to 1, not {list(self.share)}")
        return self

    @model_validator(mode="after")
    def _paths_are_names(self) -> CorpusConfig:
        if any("\0" in str(path) for names in (self.source, self.target) for path in _listed(names)):
            raise ValueError("a path cannot contain a null character")
        if self.source == () or self.target == ():
            raise ValueError("a list of files needs at least one file")
        return self

    @property
    def name(self) -> str:
        """The source files, for messages."""
        return summarize(self.source)

    def each_file(self) -> list[FileCorpus]:
        """Return a corpus for each file, or each source with its target, in order. DataError if they do not match."""
        rest = self.model_dump(exclude={"source", "target"})
        return [FileCorpus(source=one, target=two, **rest) for one, two in paired_files(self.source, self.target)]


class FileCorpus(CorpusConfig):
    """A corpus of one file, or of one file on each side."""

    source: Path
    target: Path | None = None


def corpus_of_files(files: Sequence[Path]) -> CorpusConfig | None:
    """Return the corpus that files on a command line represent; None if they are not pairs.

    They are SOURCE TARGET, two texts (or patterns of texts), or one or more files with both sides.
    """
    actual = [file for name in files for file in named_files(name)]
    forms = {form_of(file) for file in actual}
    if len(forms) == 1 and forms <= {"csv", "tsv", "parquet", "json-lines"}:
        form, names = forms.pop(), column_names(actual[0])
        sides = pair_columns(names)
        if sides is None and form != "tsv":
            return None
        source, target = sides or PAIR
        header = form == "tsv" and sides is not None
        names_of_source = files[0] if len(files) == 1 else tuple(files)
        return CorpusConfig(source=names_of_source, source_key=source, target_key=target, header=header)
    return CorpusConfig(source=files[0], target=files[1]) if len(files) == 2 and forms == {"text"} else None


def _listed(names: FileNames | None) -> Sequence[Path]:
    return () if names is None else (names,) if isinstance(names, Path) else names


class PairReader:
    """The pairs of a corpus as (line number from 1, source, target).

    Each loop reads the files again, in constant memory. Lines of several files are numbered consecutively; after a
    loop, ``files`` has the number of lines before each file. Pairs that are blank on both sides are left out; after a
    loop, ``blank`` is their number.

    Raises:
        DataError: with file and line, for input that is not parallel text, and for a pipe. Different numbers of lines,
            and lines blank on one side, are reported together at the end of the loop.
    """

    def __init__(self, config: CorpusConfig) -> None:
        self.config = config
        self.blank = 0
        self.files: list[tuple[str, int]] = []
        self._one_sided: list[tuple[FileCorpus, int, str]] = []
        self._one_sided_count = 0

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        self.blank, self.files, self._one_sided, self._one_sided_count = 0, [], [], 0
        files, lines = self.config.each_file(), 0
        for config in files:
            refuse_pipes(config)
        for config in files:
            self.files.append((str(config.source), lines))
            lines = yield from self._of_file(config, lines)
        if self._one_sided:
            raise self._blank_on_one_side()

    def _of_file(self, config: FileCorpus, before: int) -> Generator[tuple[int, str, str], None, int]:
        """Yield the pairs of one file with line numbers after ``before``; return the last line number."""
        number = 0
        for number, source, target in read_each_pair(config):
            has_source, has_target = bool(source.strip()), bool(target.strip())
            if has_source and has_target:
                if falls_into(source, config.share):
                    yield before + number, source, target
            elif has_source or has_target:
                self._one_sided_count += 1
                if len(self._one_sided) < NAMED_LINES:
                    self._one_sided.append((config, number, "target" if has_source else "source"))
            else:
                self.blank += 1
        return before + number

    def _blank_on_one_side(self) -> DataError:
        config, first, side = self._one_sided[0]
        path = config.target if side == "target" and config.target is not None else config.source
        several = len(self.files) > 1
        named = ", ".join(
            f"{f'{corpus.source}:' if several else ''}{number} ({side})" for corpus, number, side in self._one_sided
        )
        more = ", …" if self._one_sided_count > len(self._one_sided) else ""
        plural = "line is" if self._one_sided_count == 1 else "lines are"
        return DataError(
            f"{self._one_sided_count} {plural} blank on one side only",
            where=f"{path}:{first}",
            why=f"these lines lack one side: {named}{more}",
            help="delete these lines from both sides, or restore the missing text",
        )


def refuse_pipes(config: FileCorpus) -> None:
    """Raise DataError for a pipe: a corpus is read several times, to check, count and tokenize it."""
    for path in (config.source, config.target):
        if path is not None:
            refuse_pipe(path)


def read_pairs(config: CorpusConfig) -> PairReader:
    """Return the pairs of ``config``; see ``PairReader``."""
    return PairReader(config)


class Sentences:
    """The sentences of one side, or of both alternately, of several corpora. Each loop reads the files again."""

    def __init__(self, corpora: Sequence[CorpusConfig], side: Literal["source", "target", "both"]) -> None:
        self.corpora, self.side = corpora, side

    def __iter__(self) -> Iterator[str]:
        for corpus in self.corpora:
            for _, source, target in read_pairs(corpus):
                if self.side != "target":
                    yield source
                if self.side != "source":
                    yield target


def layout(config: FileCorpus) -> Literal["two files", "tsv", "jsonl", "table"]:
    """Return the layout of the two sides in the files of ``config``. DataError if there is only a source."""
    if config.target is not None:
        return "two files"
    form = form_of(config.source)
    if form in ("csv", "parquet") or (form == "tsv" and config.header) or config.part is not None:
        return "table"
    if form == "tsv":
        return "tsv"
    if form == "json-lines":
        return "jsonl"
    if not config.source.is_file():
        raise DataError(
            "the corpus does not exist", where=str(config.source), help="regard data list; regard train --help"
        )
    raise DataError(
        "the corpus has a source but no target",
        where=str(config.source),
        why="only .tsv, .jsonl, .csv (also as .gz) and .parquet files contain both sides",
        help="also name the target file",
    )


def read_each_pair(config: FileCorpus) -> Iterator[tuple[int, str, str]]:
    """Yield every pair with its line number, blank pairs included."""
    kind = layout(config)
    if kind == "tsv":
        return _tab_separated(config.source)
    if kind == "jsonl":
        return _json_lines(config)
    if kind == "table":
        return _of_table(config)
    assert config.target is not None
    return _two_files(config.source, config.target)


def _two_files(source: Path, target: Path) -> Iterator[tuple[int, str, str]]:
    number = 0
    left, right = read_lines(source), read_lines(target)
    for first, second in zip_longest(left, right):
        if first is None or second is None:
            rest = 1 + sum(1 for _ in (left if second is None else right))
            counts = (number + rest, number) if second is None else (number, number + rest)
            raise _different_lengths(source, target, counts)
        number += 1
        yield number, first, second


def _different_lengths(source: Path, target: Path, counts: tuple[int, int]) -> DataError:
    line = first_shifted_line(map(len, read_lines(source)), map(len, read_lines(target)))
    if line > min(counts):
        why = f"they seem parallel up to line {min(counts)}, the end of the shorter one"
    else:
        why = f"they seem shifted from about line {line} on: a line is missing, extra or split there"
    longer = source if counts[0] > counts[1] else target
    return DataError(
        f"source and target have different numbers of lines: {counts[0]:,} and {counts[1]:,}",
        where=f"{longer}:{line}",
        why=why,
        help=f"paste {source} {target} | sed -n '{max(1, line - 3)},{line + 3}p'",
    )


def _tab_separated(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        yield number, *parse_tab_pair(line, where=f"{path}:{number}")


def parse_tab_pair(line: str, *, where: str) -> tuple[str, str]:
    """Return both columns of a TSV line; two empty texts for a blank line. DataError naming ``where`` otherwise."""
    columns = line.split("\t")
    if len(columns) == 2:
        return columns[0], columns[1]
    if not line.strip():
        return "", ""
    size = "no tab" if len(columns) == 1 else f"{pluralize(len(columns), 'column')}"
    raise DataError(
        "a line of a TSV file needs two columns, source and target",
        where=where,
        why=f"it has {size}",
        help=_help_with_columns(columns, where) if len(columns) > 2 and ":" in where else None,
    )


def _help_with_columns(cells: Sequence[str], where: str) -> str:
    """Return the remedy for a row of more than two cells: a command that keeps the cells that look like text."""
    texts = [number for number, cell in enumerate(cells, start=1) if " " in cell.strip()]
    if len(texts) < 2:
        texts = [number for number, cell in enumerate(cells, start=1) if not cell.strip().replace(".", "").isdigit()]
    help = "name it .csv if its first line names the columns, such as text and label, or user and item"
    if len(texts) < 2:
        return help
    command = filter_command(f"cut -f{texts[0]},{texts[1]}", Path(where.rpartition(":")[0]), "pairs.tsv")
    return f"{command} keeps two columns as a pair; or {help}"


def _of_table(config: FileCorpus) -> Iterator[tuple[int, str, str]]:
    path, keys = config.source, (config.source_key, config.target_key)
    if keys == PAIR:
        keys = pair_columns(column_names(path)) or keys
    for row in read_rows(path, keys, part=config.part):
        yield row.number, text_of(row, keys[0]), text_of(row, keys[1])


def _json_lines(config: FileCorpus) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(read_lines(config.source), start=1):
        yield number, *parse_json_pair(line, config, where=f"{config.source}:{number}")


def parse_json_pair(line: str, config: CorpusConfig, *, where: str) -> tuple[str, str]:
    """Return both sides of a JSON line; two empty texts for a blank line. DataError naming ``where`` otherwise."""
    if not line.strip():
        return "", ""
    row = parse_object(line, where=where)
    return _text(row, config.source_key, where), _text(row, config.target_key, where)


def _text(row: dict[str, object], key: str, where: str) -> str:
    if key not in row:
        near = difflib.get_close_matches(key, row, n=1)
        raise DataError(
            f'the line has no key "{key}"',
            where=where,
            why=describe_keys(row),
            help=f'set source_key or target_key to "{near[0]}"' if near else "set source_key and target_key",
        )
    value = row[key]
    if not isinstance(value, str):
        raise DataError(f'"{key}" is not a string', where=where)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(f'"{key}" contains an unpaired surrogate, which is not valid text', where=where)
    return value

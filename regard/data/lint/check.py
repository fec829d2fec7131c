"""A lint for parallel text: reads everything, never stops at bad text, and names lines."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.installation import package_command
from regard.data.alignment import first_shifted_line
from regard.data.lint.corpus_rules import odd_ratios, repeats, shifted_stretches, unrelated
from regard.data.lint.languages import Identify, Sample, language_identifier, strangers
from regard.data.lint.line_rules import judge_pair, main_script
from regard.data.lint.lint_reader import LintRow, read_rows
from regard.data.reading import CorpusConfig

__all__ = ["KINDS", "Finding", "Lint", "lint"]

Severity = Literal["error", "warning", "note"]

# Kinds in the order of a report. An error keeps the corpus from being trained on.
KINDS: dict[str, Severity] = {
    "empty": "error",  # a file without lines
    "lines": "error",  # different numbers of lines
    "blank-side": "error",  # blank on one side only
    "encoding": "error",  # not UTF-8
    "format": "error",  # no TSV or JSON pair
    "shifted": "warning",  # a stretch goes better with lines nearby
    "unrelated": "warning",  # the lengths of the sides do not go together
    "overlap": "warning",  # a held-out pair or source is in the training text
    "script": "warning",  # written in another script than nearly all lines
    "language": "warning",  # in the other side's language
    "mojibake": "warning",  # decoded wrongly some time before
    "control": "warning",  # control characters
    "ratio": "warning",  # lengths far from the usual ratio
    "long": "warning",  # longer than any sentence
    "identical": "warning",  # source = target
    "duplicate": "note",  # the same pair again
    "blank": "note",  # blank on both sides: skipped
}


class Finding(NamedTuple):
    """One remark. ``line`` counts from 1 and is None when it is about the whole; ``file`` says whose line."""

    kind: str
    line: int | None
    message: str
    severity: Severity
    file: str


class Lint(NamedTuple):
    """The outcome: lines read, how many findings of each kind, the first of each, and checks left out."""

    lines: int
    counts: dict[str, int]
    findings: list[Finding]
    skipped: list[str]


def lint(
    config: CorpusConfig,
    *,
    held_out: Sequence[CorpusConfig] = (),
    most: int = 20,
    identify: Identify | None = None,
    progress: Callable[[int], None] | None = None,
) -> Lint:
    """Look through ``config``, and look for its sentences in the ``held_out`` corpora.

    At most ``most`` findings of a kind are named; ``counts`` counts all. ``identify`` tells a line's language
    (py3langid where it is installed). About 20 s a million sentence pairs, one pass, 34 bytes of memory a pair.
    Raises only where a file is missing or cannot be read.
    """
    collected = _Collected(most)
    identify = identify or language_identifier()
    texts = _read(config, collected, progress)
    _whole(config, texts, collected)
    for other in held_out:
        _overlap(other, texts, collected)
    skipped = []
    if identify is None:
        skipped.append(f"language: py3langid is not installed; {package_command('py3langid')}")
    else:
        for line, message in strangers(texts.sample.rows, identify):
            collected.add("language", line, message, str(config.source))
    return collected.report(texts.lines, skipped)


class _Collected:
    def __init__(self, most: int) -> None:
        self.most = most
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []

    def add(self, kind: str, line: int | None, message: str, file: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= self.most:
            self.findings.append(Finding(kind, line, message, KINDS[kind], file))

    def report(self, lines: int, skipped: list[str]) -> Lint:
        rank = {kind: place for place, kind in enumerate(KINDS)}
        self.findings.sort(key=lambda finding: rank[finding.kind])  # stable: within a kind as found
        counts = {kind: self.counts[kind] for kind in KINDS if self.counts[kind]}
        return Lint(lines, counts, self.findings, skipped)


class _Texts:
    """What is kept of the pairs with two sides: numbers only, 34 bytes a pair."""

    def __init__(self) -> None:
        self.lines = 0
        self.ended: dict[str, int] = {}
        self.line = array("q")
        self.lengths = (array("I"), array("I"))
        self.source_hash, self.pair_hash = array("q"), array("q")
        self.scripts = (array("B"), array("B"))
        self.script_names: list[str | None] = [None]
        self.sample = Sample()

    def add(self, line: int, source: str, target: str) -> None:
        self.line.append(line)
        self.source_hash.append(hash(source))
        self.pair_hash.append(hash((source, target)))
        for text, lengths, scripts in zip((source, target), self.lengths, self.scripts, strict=True):
            lengths.append(len(text))
            scripts.append(self._script_number(main_script(text)))
        self.sample.offer(line, source, target)

    def _script_number(self, name: str | None) -> int:
        if name not in self.script_names:
            if len(self.script_names) == 256:
                return 0
            self.script_names.append(name)
        return self.script_names.index(name)


def _read(config: CorpusConfig, collected: _Collected, progress: Callable[[int], None] | None) -> _Texts:
    texts = _Texts()
    for row in read_rows(config):
        texts.lines = row.line
        for kind, message in row.remarks:
            collected.add(kind, row.line, message, str(config.source))
        pair = _both_sides(row, config, collected, texts)
        if pair is not None:
            texts.add(row.line, *pair)
            for kind, message in judge_pair(*pair):
                collected.add(kind, row.line, message, str(config.source))
        if progress is not None and row.line % 10_000 == 0:
            progress(row.line)
    return texts


def _both_sides(row: LintRow, config: CorpusConfig, collected: _Collected, texts: _Texts) -> tuple[str, str] | None:
    source, target = row.source, row.target
    if source is None or target is None:
        for side, text in (("source", source), ("target", target)):
            if text is None and all(kind != "format" for kind, _ in row.remarks):
                texts.ended.setdefault(side, row.line - 1)
        return None
    has_source, has_target = bool(source.strip()), bool(target.strip())
    if has_source and has_target:
        return source, target
    if has_source or has_target:
        side = "target" if has_source else "source"
        collected.add("blank-side", row.line, f"the {side} is blank, the other side is not", str(config.source))
    else:
        collected.add("blank", row.line, "blank on both sides: skipped in training", str(config.source))
    return None


def _whole(config: CorpusConfig, texts: _Texts, collected: _Collected) -> None:
    file = str(config.source)
    if texts.lines == 0:
        collected.add("empty", None, "the file is empty", file)
        return
    if config.target is not None and texts.ended:
        _different_lengths(config, texts, collected)
        return  # from here on lines do not face each other: ratios would only repeat that
    lines = np.asarray(texts.line)
    source, target = (np.asarray(lengths, dtype=np.float64) for lengths in texts.lengths)
    for first, last, shift in shifted_stretches(source, target):
        message = f"lines {lines[first]} to {lines[last]} of the source go better with the target {shift:+d} lines on"
        collected.add("shifted", int(lines[first]), message, file)
    if (correlation := unrelated(source, target)) is not None:
        collected.add("unrelated", None, f"the lengths hardly go together (correlation {correlation:.2f})", file)
    for place in odd_ratios(source, target):
        message = f"{int(source[place])} characters face {int(target[place])}"
        collected.add("ratio", int(lines[place]), message, file)
    for later, first_seen in zip(*repeats(np.asarray(texts.pair_hash)), strict=True):
        collected.add("duplicate", int(lines[later]), f"the same pair as line {lines[first_seen]}", file)
    _scripts(texts, lines, collected, file)


def _different_lengths(config: CorpusConfig, texts: _Texts, collected: _Collected) -> None:
    assert config.target is not None
    (side, count), other = next(iter(texts.ended.items())), texts.lines
    if count == 0:
        path = config.source if side == "source" else config.target
        collected.add("empty", None, f"the {side} file is empty", str(path))
        return
    lengths = [
        array("I", (len(text or "") for text in column))
        for column in zip(*((row.source, row.target) for row in read_rows(config)), strict=True)
    ]
    sides = [lengths[0][:count], lengths[1]] if side == "source" else [lengths[0], lengths[1][:count]]
    line = first_shifted_line(*sides)
    counts = f"{count:,} and {other:,}" if side == "source" else f"{other:,} and {count:,}"
    message = f"source and target have {counts} lines; they look shifted from about line {line} on"
    collected.add("lines", line, message, str(config.source))


def _scripts(texts: _Texts, lines: npt.NDArray[Any], collected: _Collected, file: str) -> None:
    for side, numbers in zip(("source", "target"), texts.scripts, strict=True):
        scripts = np.asarray(numbers)
        written = np.bincount(scripts, minlength=1)
        written[0] = 0  # lines without letters
        usual = int(np.argmax(written))
        if written[usual] < 0.9 * written.sum():
            continue
        for place in np.flatnonzero((scripts != usual) & (scripts != 0)):
            names = texts.script_names[scripts[place]], texts.script_names[usual]
            collected.add("script", int(lines[place]), f"the {side} is in {names[0]} script, not in {names[1]}", file)


def _overlap(other: CorpusConfig, texts: _Texts, collected: _Collected) -> None:
    sources, pairs = (np.asarray(hashes) for hashes in (texts.source_hash, texts.pair_hash))
    order, pair_order = np.argsort(sources, kind="stable"), np.argsort(pairs, kind="stable")

    def find(hashes: npt.NDArray[Any], sorting: npt.NDArray[Any], wanted: int) -> int | None:
        place = int(np.searchsorted(hashes, wanted, sorter=sorting))
        if place < len(hashes) and hashes[sorting[place]] == wanted:
            return int(texts.line[sorting[place]])
        return None

    for row in read_rows(other):
        if not row.source or not row.target or not row.source.strip():
            continue
        if (line := find(pairs, pair_order, hash((row.source, row.target)))) is not None:
            collected.add("overlap", row.line, f"the pair is also training line {line}", str(other.source))
        elif (line := find(sources, order, hash(row.source))) is not None:
            collected.add("overlap", row.line, f"the source is also that of training line {line}", str(other.source))

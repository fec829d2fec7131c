"""Lint of examples of any task: duplicates, contradictory targets, and overlap with held-out inputs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.data.lint.check import FindingList, LintReport

SEVERAL = 20  # maximum number of distinct targets that are listed
RARE = 5  # classes with fewer examples are reported


class LintExample(NamedTuple):
    """One example: its input as text, its target (one line per label; None without one), and ``file:line``."""

    input: str
    target: str | None
    where: str


def lint_examples(
    examples: Iterable[LintExample],
    *,
    held_out: Mapping[str, Callable[[], Iterable[LintExample]]],
    unit: str | None = "word",
    max_findings: int = 20,
    progress: Callable[[int], None] | None = None,
) -> LintReport:
    """Check the training examples against each other and against held-out ones.

    Args:
        examples: the training examples.
        held_out: readers of held-out examples, by the names of their files.
        unit: noun for the space-separated units of inputs; None for inputs that are not text.
        max_findings: maximum number of reported findings of each kind; all are counted.
        progress: called with the number of examples read.

    Returns:
        Duplicates, contradictions (one input with two targets) and overlap with held-out inputs. The summary has the
        targets, the lengths (in characters for inputs without spaces), and the share of held-out words missing from the
        training data. Memory: 60 bytes per example, plus the distinct words.
    """
    findings, first_places = FindingList(max_findings), dict[bytes, tuple[bytes, str]]()
    targets, lengths, characters = Counter[str](), Counter[int](), Counter[int]()
    words, number = set[str](), 0
    for number, example in enumerate(examples, start=1):
        key, target = _digest(example.input), _digest(example.target or "")
        known, first = first_places.setdefault(key, (target, example.where))
        if first != example.where:
            kind = "duplicate" if known == target else "contradiction"
            what = "the same example" if known == target else "the same input with another target"
            findings.add(kind, *_place(example.where, f"{what} is in {first}"))
        own = example.input.split()
        words.update(own)
        lengths[len(own)] += 1
        characters[len(example.input)] += 1
        if example.target is not None and len(targets) <= SEVERAL:
            targets.update(example.target.split("\n"))
        if progress is not None:
            progress(number)
    if unit == "word" and max(lengths, default=0) < 2:
        unit, lengths = "character", characters
    summary = [*_of_targets(targets), *(_of_lengths(lengths, unit) if unit is not None else [])]
    for name, read in held_out.items():
        count, unknown = _compared(read(), first_places, words, findings)
        share = (
            f"; {unknown:.1%} of its {unit}s are not in the training data" if unit not in ("character", None) else ""
        )
        summary.append(f"{pluralize(count, 'example')} in {name}{share}")
    return findings.report(number, [], tuple(summary))


def _compared(
    held_out: Iterable[LintExample],
    first_places: Mapping[bytes, tuple[bytes, str]],
    words: Collection[str],
    findings: FindingList,
) -> tuple[int, float]:
    """Add overlapping inputs to ``findings``; return the number of examples and the share of unknown words."""
    count = unknown = total = 0
    for example in held_out:
        count += 1
        if (same := first_places.get(_digest(example.input))) is not None and same[1] != example.where:
            findings.add("overlap", *_place(example.where, f"the same input is in the training data: {same[1]}"))
        own = example.input.split()
        total, unknown = total + len(own), unknown + sum(word not in words for word in own)
    return count, unknown / max(total, 1)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _place(where: str, message: str) -> tuple[int | None, str, str]:
    """Return the line, the message and the file of a finding."""
    file, _, line = where.rpartition(":")
    return (int(line), message, file) if line.isdecimal() else (None, message, where)


def _of_targets(targets: Counter[str]) -> list[str]:
    total = targets.total()
    if not 1 < len(targets) <= SEVERAL:
        return []
    shares = ", ".join(
        f"{shortened(target) or '(none)'} {count / total:.1%}" for target, count in targets.most_common()
    )
    rare = [target for target, count in targets.items() if count < RARE]
    few = f"; fewer than {RARE} examples: {', '.join(map(shortened, rare))}" if rare else ""
    return [f"targets: {shares}{few}"]


def _of_lengths(lengths: Counter[int], unit: str) -> list[str]:
    total, below = lengths.total(), 0
    if not total:
        return []
    for length in sorted(lengths):
        below += lengths[length]
        if 2 * below >= total:
            return [f"inputs have {pluralize(length, unit)} (median), {max(lengths):,} at most"]
    return []

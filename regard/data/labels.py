"""Class names and the number of training examples of each, saved in the run folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.untrusted_files import SMALL
from regard.core.wording import pluralize
from regard.errors import DataError

MAX_CLASSES = 10_000


class LabelNumbers(dict[str, int]):
    """Class index of each label."""

    def of(self, label: str, where: str) -> int:
        """Return the class index of a label. DataError, with its place, if the training data lacks it."""
        if label not in self:
            raise DataError(
                f"the label {label!r} is unknown", where=where,
                why=f"the training labels are {', '.join(list(self)[:10])}",
                help="correct the label, add training examples of it, or name another validation file: --valid-file",
            )  # fmt: skip
        return self[label]


class Labels(NamedTuple):
    """Label names, ordered by class index, and the number of training examples of each."""

    names: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counter[str], *, where: str, help: str) -> Labels:
        """Return the labels sorted by name. DataError if there are fewer than two, or too many."""
        if not 2 <= len(counts) <= MAX_CLASSES:
            limit = "needs at least 2" if len(counts) < 2 else f"takes at most {MAX_CLASSES:,}"
            raise DataError(f"found {pluralize(len(counts), 'label')}; classification {limit}", where=where, help=help)
        names = tuple(sorted(counts))
        return cls(names, tuple(counts[name] for name in names))

    @classmethod
    def open(cls, path: Path) -> Labels:
        """Return the saved labels; raises ModelError if they are missing or damaged."""

        def parse(value: Any) -> Labels:
            names, counts = tuple(value["labels"]), tuple(value["counts"])
            if len({*names}) != len(counts) or not all(isinstance(name, str) for name in names):
                raise ValueError("labels must be distinct texts, each with a count")
            if not all(isinstance(count, int) and count > 0 for count in counts):
                raise ValueError("counts must be integers above 0")
            return cls(names, counts)

        return open_codec_file(path, parse, limit=SMALL)

    @property
    def numbers(self) -> LabelNumbers:
        """Class index of each label."""
        return LabelNumbers((name, number) for number, name in enumerate(self.names))

    def save(self, path: Path) -> None:
        """Write the file that ``open`` reads."""
        save_codec_file(path, {"labels": list(self.names), "counts": list(self.counts)})

    def describe(self) -> str:
        """Return the number of labels and the shares of the most frequent ones."""
        counts = Counter(dict(zip(self.names, self.counts, strict=True)))
        shares = ", ".join(f"{label} {count / counts.total():.1%}" for label, count in counts.most_common(8))
        return f"{len(counts)}: {shares}{' …' if len(counts) > 8 else ''}"

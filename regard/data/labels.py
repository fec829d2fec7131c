"""The names of classes, and how often training met each: a file of the run folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.untrusted_files import SMALL
from regard.core.wording import pluralize
from regard.errors import DataError

MOST_CLASSES = 10_000


class LabelNumbers(dict[str, int]):
    """The number of each label's class."""

    def of(self, label: str, where: str) -> int:
        """The number of this label. DataError, with its place, where training did not have it."""
        if label not in self:
            raise DataError(
                f"the label {label!r} is unknown", where=where, why=f"training had {', '.join(list(self)[:10])}",
                help="mend the label, or train on examples of it; of held-out examples --valid-file names others",
            )  # fmt: skip
        return self[label]


class Labels(NamedTuple):
    """The labels in the order of the classes, and how many training examples each had."""

    names: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counter[str], *, where: str, help: str) -> Labels:
        """Sorted by name. DataError where there are not two, or too many."""
        if not 2 <= len(counts) <= MOST_CLASSES:
            limit = "needs at least 2" if len(counts) < 2 else f"takes at most {MOST_CLASSES:,}"
            raise DataError(f"found {pluralize(len(counts), 'label')}; classification {limit}", where=where, help=help)
        names = tuple(sorted(counts))
        return cls(names, tuple(counts[name] for name in names))

    @classmethod
    def open(cls, path: Path) -> Labels:
        """Return the saved labels; raises ModelError if they are missing or damaged."""

        def parse(value: Any) -> Labels:
            names, counts = tuple(value["labels"]), tuple(value["counts"])
            if len({*names}) != len(counts) or not all(isinstance(name, str) for name in names):
                raise ValueError("labels are different texts, each with a count")
            if not all(isinstance(count, int) and count > 0 for count in counts):
                raise ValueError("counts are whole numbers above 0")
            return cls(names, counts)

        return open_codec_file(path, parse, limit=SMALL)

    @property
    def numbers(self) -> LabelNumbers:
        """The place of each label in their order."""
        return LabelNumbers((name, number) for number, name in enumerate(self.names))

    def save(self, path: Path) -> None:
        """Write the file that ``open`` reads."""
        save_codec_file(path, {"labels": list(self.names), "counts": list(self.counts)})

    def told(self) -> str:
        """The number of labels, and the shares of the most frequent ones."""
        counts = Counter(dict(zip(self.names, self.counts, strict=True)))
        shares = ", ".join(f"{label} {count / counts.total():.1%}" for label, count in counts.most_common(8))
        return f"{len(counts)}: {shares}{' …' if len(counts) > 8 else ''}"

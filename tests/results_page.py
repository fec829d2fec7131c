"""``docs/results.md`` from the measurements in ``docs/evidence/results``.

One JSON file holds the measurements of one area. A measurement is a command that ran once on one machine, and the
claims that it supports. Benchmarks add measurements; ``scripts/results`` writes the page.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "docs" / "evidence" / "results", ROOT / "docs" / "results.md"
AREAS = (
    "baselines", "translation", "streams", "language_models", "classification", "summaries", "music", "graphs",
    "vectors", "long_sequences", "training_speed", "decoding_speed", "serving", "scale", "software",
)  # fmt: skip
HEAD = """# Results

One table for each area. The column *Command* names a command in the list below the table, which also has its seeds
and conditions. [Experiments](evidence/experiments.md) has what failed, and [parity](evidence/parity.md) the tests of
correctness. `scripts/results` writes this page from the JSON files in `docs/evidence/results/`, which also keep
earlier and secondary figures.

| Hardware | Processor |
|---|---|
| Zen 4 | AMD EPYC, AVX-512 with bfloat16, no AMX |
| Zen 3 | AMD EPYC, AVX2, no AVX-512 |
| AMX | Intel Xeon, AVX-512 with bfloat16, and AMX |
| VNNI | Intel Xeon, AVX-512 with VNNI, no AMX, no bfloat16 |

Each machine has 2 shared cores and 24 GiB, with torch 2.13.0 (CPU) and Python 3.11. Speeds are medians of alternating
runs, and [a–b] are quartiles. *Rough*: other work ran at the same time. †: the test set had been seen before.
*(recalled)*: a published figure from memory, not read in the source. ±: one standard error, or the spread of seeds.
"""
COLUMNS = (
    "| Claim | Figure | Baseline | Published | Goal | Command | Hardware | Date |\n|---|---|---|---|---|---|---|---|\n"
)

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True, pattern=r"^[^\n]+$")]
Sentence = Annotated[str, StringConstraints(pattern=r"^([^.\n]|\.[^ .\n])+\.$")]
Date = Annotated[str, StringConstraints(pattern=r"^20\d\d-[01]\d-[0-3]\d(/[0-3]\d)?$")]
Outcome = Annotated[str, StringConstraints(pattern=r"^(reached|missed)\b")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Closed):
    """One row: a figure, and what it is compared with."""

    claim: Text
    figure: Text
    error: Text | None = None
    baseline: Text | None = None
    published: Text | None = None
    goal: Text | None = None
    outcome: Outcome | None = None
    seen: bool = False
    recalled: bool = False
    rough: bool = False

    @model_validator(mode="after")
    def _check(self) -> Claim:
        if (self.goal is None) != (self.outcome is None):
            raise ValueError("`goal` and `outcome` belong together")
        if self.recalled and self.published is None:
            raise ValueError("`recalled` needs a figure in `published`")
        return self

    def cells(self) -> list[str]:
        marks = " †" * self.seen + " *(rough)*" * self.rough
        error = f" ± {self.error}" if self.error else ""
        published = self.published and self.published + " *(recalled)*" * self.recalled
        outcome = (self.outcome or "").replace("missed", "**missed**")
        goal = self.goal and f"{self.goal}: {outcome}"
        return [self.claim + marks, self.figure + error, self.baseline or "–", published or "–", goal or "–"]


class Measurement(_Closed):
    """One run of a command and the claims that it supports; the page leaves out those that are archived."""

    command: Text | Annotated[list[Text], Field(min_length=1)]
    hardware: Text
    date: Date
    seeds: Annotated[list[int], Field(min_length=1)] | None = None
    conditions: Text | None = None
    source: Literal["transcribed", "benchmark"]
    archived: bool = False
    claims: Annotated[list[Claim], Field(min_length=1)]

    @property
    def commands(self) -> list[str]:
        return [self.command] if isinstance(self.command, str) else self.command

    def setting(self) -> str:
        seeds = ", ".join(map(str, self.seeds or ()))
        named = f"seed{'s' * (',' in seeds)} {seeds}" if seeds else None
        return " · ".join(filter(None, (named, self.conditions)))


class Area(_Closed):
    """All measurements of one area, with at most two sentences for the page."""

    title: Text
    notes: Annotated[list[Sentence], Field(max_length=2)]
    measurements: Annotated[list[Measurement], Field(min_length=1)]


def load(name: str) -> Area:
    """Read the measurements of one area. Raises ValidationError for an unknown or missing key."""
    return Area.model_validate_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(map(section, map(load, AREAS)))


def section(area: Area) -> str:
    """Return the table of one area, its notes and its commands."""
    shown = [measurement for measurement in area.measurements if not measurement.archived]
    named = {_label(area.title, number): measurement for number, measurement in enumerate(shown, start=1)}
    notes = " ".join(area.notes)
    parts = [f"## {area.title}", COLUMNS + "".join(_rows(named.items())), notes, _commands(named.items())]
    return "\n" + "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _label(title: str, number: int) -> str:
    return "".join(word[0] for word in title.split() if word not in ("of", "and")).upper() + str(number)


def _rows(named: Iterable[tuple[str, Measurement]]) -> Iterator[str]:
    for label, measurement in named:
        for claim in measurement.claims:
            cells = [*claim.cells(), label, measurement.hardware, measurement.date]
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _commands(named: Iterable[tuple[str, Measurement]]) -> str:
    lines = ['<details markdown="1">', "<summary>Commands and conditions</summary>", "", "```sh"]
    for label, measurement in named:
        comment = " · ".join(filter(None, (label, re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", measurement.setting()))))
        lines += textwrap.wrap(comment, 118, initial_indent="# ", subsequent_indent="#   ")
        lines += measurement.commands
    return "\n".join([*lines, "```", "", "</details>"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

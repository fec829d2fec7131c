"""Studies: claims of the literature, measured with this code and compared with thresholds.

A study is a file ``regard/studies/NAME.py`` and an entry of ``regard/studies/catalog.py``. The file's docstring states
the claim, its source, the measurement, and the reasons for the thresholds. It defines

    def run(*, seed: int, minimal: bool, report: Report) -> Findings

and optional parameters after these, whose defaults are the study; tests use them to break it. A study that
``needs_text`` also has the parameters ``text``, a file, and ``folder``, in which it may store figures to continue from.
Without a text, only its minimal version runs. ``minimal`` selects the smallest version that runs all of the code.

``run`` prints nothing and writes no other files. It calls ``report`` with the share of work done (0 to 1), and draws
from torch's default generator, which the caller seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.models.configuration import ModelConfig
    from regard.models.encoder_decoder import EncoderDecoder

Cell = str | int | float
Report = Callable[[float], None]


def ignore_report(share: float) -> None:
    """Ignore the share of work done."""


class Criterion(NamedTuple):
    """A measured value and its threshold; NaN never holds."""

    what: str
    value: float
    comparison: Literal["≤", "≥"]
    threshold: float

    @property
    def holds(self) -> bool:
        return self.value <= self.threshold if self.comparison == "≤" else self.value >= self.threshold


def at_most(what: str, value: float, threshold: float) -> Criterion:
    """Return the criterion value ≤ threshold."""
    return Criterion(what, float(value), "≤", float(threshold))


def at_least(what: str, value: float, threshold: float) -> Criterion:
    """Return the criterion value ≥ threshold."""
    return Criterion(what, float(value), "≥", float(threshold))


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A model that a study trained, and its training pairs, for inspection."""

    model: EncoderDecoder
    config: ModelConfig
    tokenizer: Tokenizer
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Outcome of a study: a table, criteria, a function that draws a figure, and remarks on limits of the result."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    criteria: list[Criterion]
    draw: Callable[[Figure], None]
    remarks: tuple[str, ...] = ()
    saved_model: SavedModel | None = None

    def __post_init__(self) -> None:
        if not self.criteria:
            raise ValueError("a study needs at least one criterion")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"every row must have {len(self.columns)} cells, one per column")

    @property
    def holds(self) -> bool:
        """Return whether every criterion holds."""
        return all(criterion.holds for criterion in self.criteria)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Name, claim and source of a study, available without torch.

    ``seconds``: its duration in docs/evidence. ``needs_text``: whether it requires a text from the user.
    """

    name: str
    claim: str
    source: str
    seconds: int
    needs_text: bool = False

    @property
    def module(self) -> str:
        """The name of its module: that of the study, with _ for -."""
        return self.name.replace("-", "_")

    def run(
        self,
        *,
        seed: int = 1,
        minimal: bool = False,
        report: Report = ignore_report,
        text: Path | None = None,
        folder: Path | None = None,
    ) -> Findings:
        """Run the study; the state of the caller's random generator does not change.

        Args:
            seed: seed of all random numbers.
            minimal: whether to run the smallest version, as a test of the program.
            report: receives the share of work done.
            text: file of the text, for a study that requires one.
            folder: folder in which such a study may store figures.
        """
        import torch

        module = import_module(f"regard.studies.{self.module}")
        inputs = {"text": text, "folder": folder} if self.needs_text else {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            findings: Findings = module.run(seed=seed, minimal=minimal, report=report, **inputs)
        return findings


def format_cell(cell: Cell) -> str:
    """Format a cell for printing: fractions with four significant digits."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if not math.isfinite(cell) or cell == 0:
        return f"{cell:g}"
    return f"{cell:.4g}" if 1e-3 <= abs(cell) < 1e5 else f"{cell:.1e}"

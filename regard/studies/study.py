"""Studies: claims of the literature, measured with this code and compared with thresholds.

A study is a file ``regard/studies/NAME.py`` and an entry of ``regard/studies/catalog.py``. The file's docstring states
the claim, its source, the measurement, and the reasons for the thresholds. It defines

    def run(*, seed: int, minimal: bool, report: Report) -> Findings

and optional parameters after these, whose defaults are the study; tests use them to break it. A study that
``needs_text`` also has the parameters ``text``, a file, and ``folder``, in which it may store figures to continue from.
One that ``needs_data`` has ``data``, a folder of corpora, ``folder`` and ``options``, the settings of the user. Without
a text or data, only the minimal version runs. ``minimal`` selects the smallest version that runs all of the code.

A **check** tests a closed form or an identity. No seed can change its verdict, only an error in the code can.

``run`` prints nothing and writes no other files. It calls ``report`` with the share of work done (0 to 1), and draws
from torch's default generator, which the caller seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from regard.errors import ConfigError

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

    Attributes:
        name: the name on the command line.
        claim: the claim.
        source: the papers with the claim.
        seconds: its duration in docs/evidence.
        needs_text: whether it requires a text from the user.
        needs_data: whether it requires a folder of corpora.
        check: whether it tests closed forms or identities, whose verdict no seed can change.
        seeds_per_run: consecutive seeds that one run uses; runs over seeds do not share any.
        options: the settings that ``--set`` accepts.
    """

    name: str
    claim: str
    source: str
    seconds: int
    needs_text: bool = False
    needs_data: bool = False
    check: bool = False
    seeds_per_run: int = 1
    options: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The name of its module: that of the study, with _ for -."""
        return self.name.replace("-", "_")

    @property
    def missing_input(self) -> str | None:
        """The option that names what the study requires, or None."""
        return "--text FILE" if self.needs_text else "--data FOLDER" if self.needs_data else None

    def require_seeds(self, seeds: int) -> None:
        """Raise ConfigError if a check is to run with several seeds."""
        if self.check and seeds > 1:
            why = "it tests a closed form or an identity, whose verdict no seed can change"
            raise ConfigError(f"`--seeds` does not apply to the check {self.name}", why=why, help=self._command)

    def require_options(self, options: Mapping[str, Any]) -> None:
        """Raise ConfigError if the study has no setting of one of these names."""
        for name in options:
            if name not in self.options:
                why = f"its settings are {', '.join(self.options)}" if self.options else "it has no settings"
                raise ConfigError(f"the study {self.name} has no setting {name!r}", why=why, help=self._command)

    @property
    def _command(self) -> str:
        return f"regard study {self.name}"

    def run(
        self,
        *,
        seed: int = 1,
        minimal: bool = False,
        report: Report = ignore_report,
        text: Path | None = None,
        folder: Path | None = None,
        data: Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Findings:
        """Run the study; the state of the caller's random generator does not change.

        Args:
            seed: seed of all random numbers.
            minimal: whether to run the smallest version, as a test of the program.
            report: receives the share of work done.
            text: file of the text, for a study that requires one.
            folder: folder in which a study with a text or data may store figures.
            data: folder of corpora, for a study that requires one.
            options: settings of the study, by name.

        Raises:
            ConfigError: for a setting that the study does not have, or if its text or data are missing.
        """
        import torch

        self.require_options(options or {})
        module = import_module(f"regard.studies.{self.module}")
        inputs: dict[str, Any] = {"folder": folder} if self.missing_input else {}
        inputs |= {"text": text} if self.needs_text else {}
        inputs |= {"data": data, "options": options or {}} if self.needs_data else {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            findings: Findings = module.run(seed=seed, minimal=minimal, report=report, **inputs)
        return findings


def number_of_updates(options: Mapping[str, Any], default: int) -> int:
    """Return the option ``updates`` of a study. ConfigError unless it is a whole number above 0."""
    updates = options.get("updates", default)
    if type(updates) is not int or updates < 1:
        raise ConfigError(f"updates cannot be {updates!r}", where="updates", why="it should be a whole number above 0")
    return updates


def format_cell(cell: Cell) -> str:
    """Format a cell for printing: fractions with four significant digits."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if not math.isfinite(cell) or cell == 0:
        return f"{cell:g}"
    return f"{cell:.4g}" if 1e-3 <= abs(cell) < 1e5 else f"{cell:.1e}"

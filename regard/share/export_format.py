"""The contract of an export format, and the table of all formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from regard.core.installation import extra_command
from regard.data.text_files import read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.core.export_forms import ExportForm
    from regard.runs.run_folder import RunFolder

# (sources as piece ids, max_length) → greedy outputs as piece ids, each shorter than max_length.
Decode = Callable[[Sequence[Sequence[int]], int], list[list[int]]]

# Modules with a FORMAT, imported when they are used. Of several under one name the first that fits a run writes it.
EXPORT_FORMATS = {
    "ctranslate2": ("regard.share.ctranslate2",),
    "marian": ("regard.share.marian",),
    "onnx": ("regard.share.onnx",),
    "transformers": ("regard.share.transformers_format", "regard.share.encoder_format"),
    "hub": ("regard.share.hub", "regard.share.task_run"),
}


class ParityOutcome(Protocol):
    """Outcome of a comparison of a model and its export; as a string, the report for people."""

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the export."""


class Export(Protocol):
    """The model of a run, opened for one format."""

    def inputs(self, source: Path | None, limit: int) -> Sequence[Any]:
        """Return inputs to compare on, of a file or else of the run's own data. Raises ConfigError if one is needed."""

    def write(self, folder: Path) -> None:
        """Write the export into a folder, which may exist."""

    def compare(self, inputs: Sequence[Any], folder: Path) -> ParityOutcome | None:
        """Compare the model with the export in a folder; None if there is nothing to compare on."""


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """A format of another toolkit.

    Args:
        open: (run, checkpoint name) → the model, to be written and compared.
        form: the form of network that it writes, as tasks declare it; None: any run.
        obstacle: run → the reason why its model cannot be written in this format; None if it can.
        libraries: Python modules that ``Export.write`` imports.
        compared_by: the Python module that ``Export.compare`` needs; None if none.
        finish: folder → None; the last step, after ``parity.json`` is written.
    """

    open: Callable[[RunFolder, str | None], Export]
    form: type[ExportForm] | None = None
    obstacle: Callable[[RunFolder], str | None] = lambda run: None
    libraries: tuple[str, ...] = ()
    compared_by: str | None = None
    finish: Callable[[Path], None] = lambda folder: None

    def fits(self, run: RunFolder) -> bool:
        """Return whether the task of a run declares the form that this format writes."""
        declared = run.task.export_form
        return self.form is None or (declared is not None and isinstance(declared(run.config), self.form))


def export_formats(name: str) -> list[ExportFormat]:
    """Return the formats of this name in EXPORT_FORMATS."""
    return [import_module(module).FORMAT for module in EXPORT_FORMATS[name]]


def export_format(name: str, run: RunFolder) -> ExportFormat:
    """Return the format of this name that writes the run. Raises ConfigError if none does."""
    formats = export_formats(name)
    for format in formats:
        if format.fits(run):
            return format
    fitting = [other for other in EXPORT_FORMATS if any(format.fits(run) for format in export_formats(other))]
    forms = " or ".join(format.form.noun for format in formats if format.form is not None)
    raise ConfigError(
        f"--to {name} is for {forms}, and {run.path} is of {run.config.task.kind}",
        where=str(run.path),
        help=f"--to {' or '.join(', '.join(fitting).rsplit(', ', 1))}",
    )


def lines_to_compare(run: RunFolder, source: Path | None, limit: int) -> list[str]:
    """Return the first lines of a file, or else of the texts of the run's own data, that are not blank."""
    assert run.task.export_form is not None
    lines = read_lines(source) if source else run.task.export_form(run.config).texts()
    return list(islice((line.rstrip("\r\n") for line in lines if line.strip()), limit))


def missing_library(format: ExportFormat) -> str | None:
    """Return the reason why an export cannot be compared with its model on this machine; None if it can."""
    name = format.compared_by
    return None if name is None or find_spec(name) else f"{name} is not installed"


def require_libraries(name: str, format: ExportFormat) -> None:
    """Raise ConfigError if a library that writes the format called ``name`` is not installed."""
    for library in format.libraries:
        try:
            import_module(library)
        except ImportError as error:
            raise ConfigError(f"{library} is not installed", why=str(error), help=extra_command(name)) from error

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
from regard.core.task_table import locate
from regard.core.wording import did_you_mean
from regard.data.text_files import read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.core.export_forms import ExportForm
    from regard.runs.run_folder import RunFolder

# (sources as piece ids, max_length) → greedy outputs as piece ids, each shorter than max_length.
Decode = Callable[[Sequence[Sequence[int]], int], list[list[int]]]

# Modules with a FORMAT, imported on use. Of several modules under one name, the first that fits a run writes it.
EXPORT_FORMATS = {
    "ctranslate2": ("regard.share.ctranslate2",),
    "gguf": ("regard.share.gguf",),
    "marian": ("regard.share.marian",),
    "onnx": ("regard.share.onnx", "regard.share.onnx_net"),
    "sentence-transformers": ("regard.share.sentence_format",),
    "transformers": ("regard.share.transformers_format", "regard.share.encoder_format"),
    "hub": ("regard.share.hub", "regard.share.task_run"),
}


class ParityOutcome(Protocol):
    """Result of a comparison of a model with its export; ``str`` returns the line that the command prints."""

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the export."""


class Export(Protocol):
    """The model of a run, opened for one format."""

    def inputs(self, source: Path | None, limit: int) -> Sequence[Any]:
        """Return at most ``limit`` inputs of a file or, for None, of the run's own data.

        Raises:
            ConfigError: the run has no usable data, so a file is needed.
        """

    def write(self, folder: Path) -> None:
        """Write the export into a folder, which may exist."""

    def compare(self, inputs: Sequence[Any], folder: Path) -> ParityOutcome | None:
        """Return the comparison of the model with the export in a folder; None without inputs."""


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """A format of another toolkit.

    Args:
        open: (run, checkpoint name) → the opened model.
        form: the form of network that the format represents, as tasks declare it; None: any run.
        obstacles: config of a run → all reasons why the format cannot represent its model.
        codec_obstacles: run → all reasons that only its codecs show.
        quantizations: names of smaller numbers in which an export with the field ``quantization`` can be written.
        poolings: names of poolings of an export with the field ``pooling``.
        libraries: Python modules that ``Export.write`` imports.
        compared_by: the Python module that ``Export.compare`` imports, if any.
        finish: folder → None; called after ``parity.json`` is written.
    """

    open: Callable[[RunFolder, str | None], Export]
    form: type[ExportForm] | None = None
    obstacles: Callable[[Any], list[str]] = lambda config: []
    codec_obstacles: Callable[[RunFolder], list[str]] = lambda run: []
    quantizations: tuple[str, ...] = ()
    poolings: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    compared_by: str | None = None
    finish: Callable[[Path], None] = lambda folder: None

    def form_of(self, config: Any) -> ExportForm | None:
        """Return the form of network that the task of a config declares; None if it declares none."""
        declared = locate(config.task.kind).task().export_form
        form: ExportForm | None = None if declared is None else declared(config)
        return form

    def fits(self, config: Any) -> bool:
        """Return whether the task of a config declares the form of this format."""
        return self.form is None or isinstance(self.form_of(config), self.form)


def export_formats(name: str) -> list[ExportFormat]:
    """Return the formats of this name in EXPORT_FORMATS."""
    return [import_module(module).FORMAT for module in EXPORT_FORMATS[name]]


def export_format(name: str, config: Any, where: str) -> ExportFormat:
    """Return the format of this name that writes runs of a config. Raises ConfigError if none does."""
    if name not in EXPORT_FORMATS:
        why = f"the formats are {', '.join(EXPORT_FORMATS)}"
        raise ConfigError(f"unknown format {name!r}", where=where, why=why, help=did_you_mean(name, EXPORT_FORMATS))
    formats = export_formats(name)
    for format in formats:
        if format.fits(config):
            return format
    fitting = [other for other in EXPORT_FORMATS if any(format.fits(config) for format in export_formats(other))]
    forms = " or ".join(format.form.noun for format in formats if format.form is not None)
    raise ConfigError(
        f"--to {name} is for {forms}; the task of this run is {config.task.kind}",
        where=where,
        help=f"--to {' or '.join(', '.join(fitting).rsplit(', ', 1))}",
    )


def lines_to_compare(run: RunFolder, source: Path | None, limit: int) -> list[str]:
    """Return the first ``limit`` non-blank lines of a file or, for None, of the run's own data."""
    assert run.task.export_form is not None
    form = run.task.export_form(run.config)
    read = getattr(form, "read", None) or read_lines
    lines = read(source) if source else form.texts()
    return list(islice((line.rstrip("\r\n") for line in lines if line.strip()), limit))


def missing_library(format: ExportFormat) -> str | None:
    """Return the message about a missing library of ``Export.compare``; None if it is installed."""
    name = format.compared_by
    return None if name is None or find_spec(name) else f"{name} is not installed"


def require_libraries(name: str, format: ExportFormat) -> None:
    """Raise ConfigError if a library that writes the format called ``name`` is not installed."""
    for library in format.libraries:
        try:
            import_module(library)
        except ImportError as error:
            raise ConfigError(f"{library} is not installed", why=str(error), help=extra_command(name)) from error

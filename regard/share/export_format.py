"""The contract of an export format, and the table of all formats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.translator import Translator

__all__ = [
    "ENCODER_TASKS",
    "EXPORT_FORMATS",
    "Decode",
    "ExportFormat",
    "ParityOutcome",
    "PredictorFormat",
    "export_format",
    "missing_library",
]

# (sources as piece ids, max_length) → greedy outputs as piece ids, each shorter than max_length.
Decode = Callable[[Sequence[Sequence[int]], int], list[list[int]]]

EXPORT_FORMATS = {  # the module whose FORMAT writes it; imported when it is used
    "ctranslate2": "regard.share.ctranslate2",
    "marian": "regard.share.marian",
    "onnx": "regard.share.onnx",
    "hub": "regard.share.hub",
    "transformers": "regard.share.transformers_format",
}
ENCODER_TASKS = ("classification", "tagging", "masked")  # whose form for transformers is another one's
ENCODER_FORMAT = "regard.share.encoder_format"


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """Functions that write a trained model in one format and decode with the result.

    Args:
        write: (run, translator, checkpoint name, folder) → None; writes the export into a new folder.
        decoder: (translator, folder) → a greedy decoder over the export in that folder.
        obstacle: run → the reason why its model cannot be written in this format; None if it can.
        libraries: Python modules that ``write`` imports.
        compared_by: the Python module that ``decoder`` needs; None if none.
        max_positions: () → positions that a source, its end symbol included, or an output may have in the format.
        finish: folder → None; the last step, after ``parity.json`` is written.
    """

    write: Callable[[RunFolder, Translator, str | None, Path], None]
    decoder: Callable[[Translator, Path], Decode]
    obstacle: Callable[[RunFolder], str | None] = lambda run: None
    libraries: tuple[str, ...] = ()
    compared_by: str | None = None
    max_positions: Callable[[], int] = lambda: sys.maxsize
    finish: Callable[[Path], None] = lambda folder: None


class ParityOutcome(Protocol):
    """Outcome of a comparison of a model and its export."""

    @property
    def same(self) -> bool: ...

    def write(self, folder: Path, to: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class PredictorFormat:
    """Functions that write what the predictor of a task holds in one format, and compare both.

    Args:
        write: (run, predictor, folder) → None; writes the export into a new folder.
        compare: (run, predictor, texts, folder) → what differs between the model and the export in that folder.
        texts: (run, file or None, most) → lines to compare on, of the run's own data where there is no file.
        obstacle: run → the reason why its model cannot be written in this format; None if it can.
        compared_by: the Python module that ``compare`` needs; None if none.
    """

    write: Callable[[RunFolder, Any, Path], None]
    compare: Callable[[RunFolder, Any, list[str], Path], ParityOutcome]
    texts: Callable[[RunFolder, Path | None, int], list[str]]
    obstacle: Callable[[RunFolder], str | None] = lambda run: None
    compared_by: str | None = None


def export_format(name: str, task: str | None = None) -> ExportFormat | PredictorFormat:
    """The format of EXPORT_FORMATS called ``name``, for runs of this task."""
    place = ENCODER_FORMAT if name == "transformers" and task in ENCODER_TASKS else EXPORT_FORMATS[name]
    found: ExportFormat | PredictorFormat = import_module(place).FORMAT
    return found


def missing_library(format: ExportFormat | PredictorFormat) -> str | None:
    """The reason why an export cannot be compared with its model on this machine; None if it can."""
    name = format.compared_by
    return None if name is None or find_spec(name) else f"{name} is not installed"

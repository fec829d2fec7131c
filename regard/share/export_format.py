"""The contract of an export format, and the table of all formats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.share.logit_parity import LogitParity
    from regard.tasks.language_model.generator import Generator
    from regard.tasks.translation.translator import Translator

__all__ = ["EXPORT_FORMATS", "Decode", "ExportFormat", "LanguageModelFormat", "export_format"]

# (sources as piece ids, max_length) → greedy outputs as piece ids, each shorter than max_length.
Decode = Callable[[Sequence[Sequence[int]], int], list[list[int]]]

EXPORT_FORMATS = {  # the module whose FORMAT writes it; imported when it is used
    "ctranslate2": "regard.share.ctranslate2",
    "marian": "regard.share.marian",
    "onnx": "regard.share.onnx",
    "hub": "regard.share.hub",
    "transformers": "regard.share.transformers_format",
}


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """Functions that write a trained model in one format and decode with the result.

    Args:
        write: (run, translator, checkpoint name, folder) → None; writes the export into a new folder.
        decoder: (translator, folder) → a greedy decoder over the export in that folder.
        obstacle: run → the reason why its model cannot be written in this format; None if it can.
        libraries: Python modules that ``write`` imports.
        absent_library: () → the reason why ``decoder`` cannot run on this machine; None if it can.
        max_positions: () → positions that a source, its end symbol included, or an output may have in the format.
        finish: folder → None; the last step, after ``parity.json`` is written.
    """

    write: Callable[[RunFolder, Translator, str | None, Path], None]
    decoder: Callable[[Translator, Path], Decode]
    obstacle: Callable[[RunFolder], str | None] = lambda run: None
    libraries: tuple[str, ...] = ()
    absent_library: Callable[[], str | None] = lambda: None
    max_positions: Callable[[], int] = lambda: sys.maxsize
    finish: Callable[[Path], None] = lambda folder: None


@dataclass(frozen=True, kw_only=True)
class LanguageModelFormat:
    """Functions that write a trained language model in one format and compare both.

    Args:
        write: (run, generator, folder) → None; writes the export into a new folder.
        compare: (run, generator, texts, folder) → what differs between the model and the export in that folder.
        obstacle: run → the reason why its model cannot be written in this format; None if it can.
        absent_library: () → the reason why ``compare`` cannot run on this machine; None if it can.
    """

    write: Callable[[RunFolder, Generator, Path], None]
    compare: Callable[[RunFolder, Generator, Sequence[str], Path], LogitParity]
    obstacle: Callable[[RunFolder], str | None] = lambda run: None
    absent_library: Callable[[], str | None] = lambda: None


def export_format(name: str) -> ExportFormat | LanguageModelFormat:
    """The format of EXPORT_FORMATS called ``name``."""
    found: ExportFormat | LanguageModelFormat = import_module(EXPORT_FORMATS[name]).FORMAT
    return found

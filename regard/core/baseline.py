"""The contract of a baseline: a simple model that reads the inputs of a task and is fitted in seconds.

A baseline is saved in the folder ``baseline`` of a run, as arrays and JSON. Its outputs have the form of those of the
network. The same code therefore computes losses, metrics and predictions from both.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from regard.core.atomic_files import explain_os_errors, write_bytes, write_json
from regard.core.codec_files import MALFORMED, open_codec_file
from regard.core.task import RunFiles
from regard.core.untrusted_files import SMALL, read_bytes
from regard.core.wording import describe_error
from regard.errors import ModelError

FOLDER, SETTINGS_FILE, ARRAYS_FILE = "baseline", "baseline.json", "baseline.safetensors"
MAX_BYTES = 1 << 32  # of the arrays
Floats = npt.NDArray[np.float64]


class SavedBaseline(NamedTuple):
    """A baseline as files hold it.

    Attributes:
        arrays: its arrays by name.
        settings: plain JSON.
        private: whether it contains texts of the training data; it is then not part of a published run.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    settings: Mapping[str, Any]
    private: bool = False


class FittedBaseline(Protocol):
    """A baseline of any task, as far as files hold it."""

    kind: ClassVar[str]  # name in files

    @property
    def description(self) -> str:
        """A readable name: TF-IDF of words and characters with logistic regression."""

    def save(self) -> SavedBaseline:
        """Return what ``open`` needs."""

    def open(self, saved: SavedBaseline) -> Self:
        """Restore the saved baseline, and return self.

        Raises ValueError or another error of ``MALFORMED`` for arrays of wrong shapes or types.
        """


Opened = TypeVar("Opened", bound=FittedBaseline)


class InputBaseline(FittedBaseline, Protocol):
    """A baseline of a supervised task, from the values of its fields to outputs for its answer.

    For an answer per position, a row of targets or outputs is one answered position of a value, with the positions of
    all values concatenated.
    """

    def learn(
        self, columns: Sequence[Sequence[Any]], targets: npt.NDArray[Any], weights: npt.NDArray[Any], outputs: int
    ) -> None:
        """Fit the baseline.

        Args:
            columns: values of each field.
            targets: see ``TaskAnswer.targets``.
            weights: (rows,) factors of the loss.
            outputs: number of outputs of a row.
        """

    def outputs(self, columns: Sequence[Sequence[Any]]) -> Floats:
        """Return the outputs (rows, outputs) of values; those of a value do not depend on the others."""


class WidePart(InputBaseline, Protocol):
    """A baseline whose outputs may be added to those of a network (``model.wide``)."""

    def held_out_outputs(
        self, columns: Sequence[Sequence[Any]], targets: npt.NDArray[Any], weights: npt.NDArray[Any], outputs: int
    ) -> Floats:
        """Return (rows, outputs) for the data of ``learn``, each row by a model that was fitted without its value."""


def save_baseline(folder: Path, model: FittedBaseline, figures: Mapping[str, float]) -> None:
    """Write the files of a baseline. The settings come last: with them, the baseline is complete.

    ``figures``: its loss and metrics on the validation data; {} without such data.
    """
    from safetensors.numpy import save

    saved = model.save()
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.ascontiguousarray(part) for name, part in saved.arrays.items()}
        write_bytes(folder / ARRAYS_FILE, save(arrays))
        settings = {"kind": model.kind, "description": model.description, "settings": dict(saved.settings)}
        write_json(folder / SETTINGS_FILE, settings | {"private": saved.private, "figures": dict(figures)})


def copy_baseline(folder: Path, target: Path) -> None:
    """Copy the files of a baseline, if there is one and it is not private, for a published run."""

    def parse(value: Any) -> bool:
        return value.get("private") is True

    if (folder / SETTINGS_FILE).exists() and not open_codec_file(folder / SETTINGS_FILE, parse, limit=SMALL):
        shutil.copytree(folder, target, symlinks=False)


def baseline_outputs(model: InputBaseline, columns: Sequence[Sequence[Any]]) -> Floats:
    """Return the outputs of values; raise ModelError if the saved arrays do not fit them."""
    try:
        return model.outputs(columns)
    except ValueError as error:
        what, help = "the baseline does not fit the inputs of the run", "copy the whole run folder again"
        raise ModelError(what, where=FOLDER, why=describe_error(error), help=help) from error


class BaselineSummary(NamedTuple):
    """The description of a saved baseline, and its loss and metrics on the validation data, if there are any."""

    description: str
    figures: dict[str, float]

    def describe(self, metrics: Iterable[str]) -> str:
        """Return the description with the loss and the first of these metrics that is known."""
        first = [name for name in metrics if name in self.figures][:1]
        figures = [f"{name} {self.figures[name]:.4f}" for name in ("loss", *first) if name in self.figures]
        return self.description + (f": {', '.join(figures)} on the validation data" if figures else "")


def baseline_summary(folder: Path) -> BaselineSummary | None:
    """Return the summary of a saved baseline; None without one. Raises ModelError if the file is damaged."""
    path = folder / SETTINGS_FILE
    if not path.exists():
        return None

    def parse(value: Any) -> BaselineSummary:
        figures = {str(name): float(figure) for name, figure in value["figures"].items()}
        return BaselineSummary(str(value["description"])[:200], figures)

    return open_codec_file(path, parse, limit=SMALL)


def open_baseline(folder: Path, kind: str) -> SavedBaseline | None:
    """Return the saved baseline of this kind; None if the run has no baseline.

    Raises ModelError if its files are damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not (folder / SETTINGS_FILE).exists():
        return None

    def parse(value: Any) -> dict[str, Any]:
        if value["kind"] != kind or not isinstance(value["settings"], dict):
            raise ValueError(f"it is not the baseline {kind}")
        return value["settings"]

    settings = open_codec_file(folder / SETTINGS_FILE, parse, limit=SMALL)
    path = folder / ARRAYS_FILE
    try:
        return SavedBaseline(load(read_bytes(path, MAX_BYTES)), settings)  # a pipe would block
    except (OSError, SafetensorError, *MALFORMED) as error:
        what, help = f"the baseline {path.name} cannot be read", "copy the whole run folder again"
        raise ModelError(what, where=str(path), why=describe_error(error), help=help) from error


def open_saved_baseline(folder: Path, model: Opened, check: Callable[[Opened], object]) -> Opened | None:
    """Return the baseline of a run, restored in ``model``; None if the run has no baseline.

    ``check`` computes outputs, and raises an error of ``MALFORMED`` if the arrays do not fit the run.

    Raises:
        ModelError: if the baseline is damaged.
    """
    saved = open_baseline(folder, model.kind)
    if saved is None:
        return None
    try:
        opened = model.open(saved)
        check(opened)
    except MALFORMED as error:
        where, help = str(folder), "copy the whole run folder again"
        raise ModelError("the baseline is damaged", where=where, why=describe_error(error), help=help) from error
    return opened


Wide = TypeVar("Wide")


def require_wide(model: Wide | None, run: RunFiles) -> Wide:
    """Return the opened wide part of a run; raise ModelError if it is missing."""
    if model is None:
        where, help = str(run.path / FOLDER), "copy the whole run folder again"
        raise ModelError("the wide part of the model is missing", where=where, help=help)
    return model

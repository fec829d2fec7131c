"""The types of input of a classifier, by ``data.input``. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.data.shared_files import FilesConfig
from regard.runs.run_config import Proposal

if TYPE_CHECKING:
    from regard.core.baseline import InputBaseline
    from regard.core.task import Card
    from regard.data.rows import Column, Row


class InputPlace(NamedTuple):
    """The module that defines the ``ClassifierInput`` INPUT.

    Attributes:
        module: its name.
        size: the key of its size in ``Task.small_spec``.
        array: the array of its values in a .npz file; "" if it reads no such files.
        files: whether an input may be the contents of a file.
    """

    module: str
    size: str
    array: str = ""
    files: bool = False


# In reverse order, each proposes a config for files: text is the last. A new input needs a field in
# ``regard/fields``, a module, an entry here, and a page in the docs.
INPUTS = {
    "text": InputPlace("regard.tasks.classification.text_input", "types"),
    "frames": InputPlace("regard.tasks.classification.frame_input", "channels", "frames"),
    "audio": InputPlace("regard.tasks.classification.audio_input", "channels", "samples", files=True),
    "images": InputPlace("regard.tasks.classification.image_input", "channels", "images", files=True),
}


class ClassifierInput(NamedTuple):
    """All functions that depend on the input of a classifier.

    Attributes:
        field: maps (data, model) to the field of the input.
        network: maps (model, spec) to the first layer, a ``models.input``.
        rows: see ``Supervised``.
        row_inputs: see ``Task``.
        lint_rows: see ``Task``.
        lint_unit: see ``Task``; None for an input that is not text.
        propose: see ``RunConfig.propose``.
        card: the model card.
        baseline: maps the section data to a baseline before it is fitted, or to None.
    """

    field: Callable[[Any, Any], Any]
    network: Callable[[Any, Mapping[str, int]], Any]
    rows: Callable[[Any, Sequence[FilesConfig]], Iterator[Row]]
    row_inputs: Callable[[Any, Path, Sequence[Column]], Iterator[tuple[str, str]]]
    lint_rows: Callable[[Any, Sequence[FilesConfig]], Iterator[tuple[str, str | None, str]]]
    lint_unit: str | None
    propose: Callable[[Sequence[Path], Sequence[Path], Mapping[str, Any]], Proposal | None]
    card: Card
    baseline: Callable[[Any], InputBaseline | None]


def input_of(name: str) -> ClassifierInput:
    """Return the input with this name. Imports torch."""
    declared: ClassifierInput = import_module(INPUTS[name].module).INPUT
    return declared

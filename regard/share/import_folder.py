"""Import of a model folder of ``transformers``, whatever kind of model its config.json names."""

from __future__ import annotations

from pathlib import Path

from regard.errors import ModelError
from regard.runs.run_folder import RunFolder
from regard.share.import_causal import FAMILIES, import_causal
from regard.share.import_marian import import_marian
from regard.share.marian_folder import json_of

SMALL = 1 << 20


def import_folder(folder: Path, path: Path) -> RunFolder:
    """Write the model of a folder as a run to ``path``, wholly or not at all, and return the run.

    ModelError for a folder that cannot be imported.
    """
    where = folder / "config.json"
    kind = json_of(where, SMALL).get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return import_causal(folder, path, kind)
    if kind != "marian":
        raise ModelError(
            "this kind of model cannot be imported",
            where=str(where),
            why=f"its model_type is {str(kind)[:50]!r}; the kinds that can be are {', '.join(['marian', *FAMILIES])}",
        )
    return import_marian(folder, path)

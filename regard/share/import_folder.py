"""Import of a model folder of ``transformers`` of any supported ``model_type``."""

from __future__ import annotations

from pathlib import Path

from regard.errors import ModelError
from regard.runs.run_folder import RunFolder
from regard.share.import_causal import FAMILIES, import_causal
from regard.share.import_encoder import ENCODERS, import_encoder
from regard.share.import_marian import import_marian
from regard.share.marian_folder import json_of

SMALL = 1 << 20


def import_folder(folder: Path, path: Path) -> RunFolder:
    """Import the model of a folder as a run at ``path``, and return the run. A failure leaves nothing behind.

    Raises:
        ModelError: the folder cannot be imported.
    """
    where = folder / "config.json"
    kind = json_of(where, SMALL).get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return import_causal(folder, path, kind)
    if isinstance(kind, str) and kind in ENCODERS:
        return import_encoder(folder, path, kind)
    if kind != "marian":
        raise ModelError(
            "this type of model cannot be imported",
            where=str(where),
            why=f"`model_type` is {str(kind)[:50]!r}; supported are {', '.join(['marian', *FAMILIES, *ENCODERS])}",
        )
    return import_marian(folder, path)

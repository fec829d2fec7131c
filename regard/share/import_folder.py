"""Import of a model folder of another library: ``transformers``, or a translation toolkit that is no longer developed.

The files of a folder show which library wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from regard.core.task import Report
from regard.errors import ModelError
from regard.runs.run_folder import RunFolder
from regard.share.import_causal import FAMILIES, import_causal
from regard.share.import_encoder import ENCODERS, import_encoder
from regard.share.import_fairseq import import_fairseq
from regard.share.import_joeynmt import import_joeynmt
from regard.share.import_marian import import_marian
from regard.share.import_opennmt import import_opennmt
from regard.share.import_sockeye import import_sockeye
from regard.share.marian_folder import json_of

SMALL = 1 << 20


class Toolkit(NamedTuple):
    """A translation toolkit.

    Attributes:
        files: patterns of files that its folders have next to the checkpoint.
        names: names of its best checkpoint.
        pattern: the pattern of names of all checkpoints.
        read: (folder, run, checkpoint) → the imported run.
    """

    files: tuple[str, ...]
    names: tuple[str, ...]
    pattern: str
    read: Callable[[Path, Path, Path], RunFolder]


TOOLKITS = {  # the first whose files a folder has
    "Sockeye": Toolkit(("config", "vocab.src.0.json"), ("params.best",), "params.*", import_sockeye),
    "Joey NMT": Toolkit(("config.yaml",), ("best.ckpt", "latest.ckpt"), "*.ckpt", import_joeynmt),
    "fairseq": Toolkit(("dict*.txt",), ("checkpoint_best.pt", "checkpoint_last.pt"), "*.pt", import_fairseq),
    "OpenNMT-py": Toolkit((), (), "*.pt", import_opennmt),
}


def import_folder(folder: Path, path: Path, log: Report | None = None) -> RunFolder:
    """Import the model of a folder as a run at ``path``, and return the run. A failure leaves nothing behind.

    Args:
        folder: the folder, or a checkpoint of a translation toolkit in its folder.
        path: the new run.
        log: reports a part of the model that is not imported.

    Raises:
        ModelError: the folder cannot be imported.
    """
    checkpoint = folder if folder.is_file() else None
    folder = folder.parent if checkpoint else folder
    where = folder / "config.json"
    name = toolkit_of(folder)
    if name is not None and (checkpoint or not where.is_file()):
        toolkit = TOOLKITS[name]
        return toolkit.read(folder, path, checkpoint or _best(folder, toolkit))
    kind = json_of(where, SMALL).get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return import_causal(folder, path, kind, log)
    if isinstance(kind, str) and kind in ENCODERS:
        return import_encoder(folder, path, kind)
    if kind != "marian":
        raise ModelError(
            "this type of model cannot be imported",
            where=str(where),
            why=f"`model_type` is {str(kind)[:50]!r}; supported are {', '.join(['marian', *FAMILIES, *ENCODERS])}",
        )
    return import_marian(folder, path)


def toolkit_of(folder: Path) -> str | None:
    """Return the name of the toolkit whose files a folder has; None if no toolkit is recognized."""
    for name, toolkit in TOOLKITS.items():
        if all(any(folder.glob(pattern)) for pattern in (*toolkit.files, toolkit.pattern)):
            return name
    return None


def _best(folder: Path, toolkit: Toolkit) -> Path:
    """Return the best checkpoint of a folder, or the only one. ModelError if it is not known."""
    named = [folder / name for name in toolkit.names if (folder / name).is_file()]
    checkpoints = sorted(path for path in folder.glob(toolkit.pattern) if path.is_file())
    if named or len(checkpoints) == 1:
        return (named or checkpoints)[0]
    names = ", ".join(path.name for path in checkpoints[:5])
    raise ModelError(
        "the folder has several checkpoints",
        where=str(folder),
        why=names,
        help="name one: regard import FOLDER/FILE RUN",
    )

"""Folders of other libraries, recognized by the names of their files, for the error of a folder that is not a run."""

from __future__ import annotations

import shlex
from pathlib import Path

# Files of a library's folders, all of which exist; a name may be a pattern.
IMPORTED = {
    "transformers": (("config.json", "*.safetensors"), ("config.json", "pytorch_model.bin")),
    "Sockeye": (("config", "params.best"),),
    "Joey NMT": (("config.yaml", "*.ckpt"),),
    "fairseq": (("dict*.txt", "*.pt"),),
    "OpenNMT-py": (("*_step_*.pt",),),
}
EXPORTED = {"CTranslate2": ("model.bin", "config.json"), "ONNX": ("*.onnx",)}


def foreign_help(path: Path) -> str | None:
    """Return what can be done with a folder or checkpoint of another library; None if it is not recognized."""
    folder = path if path.is_dir() else path.parent
    if not path.exists() or (path.is_file() and path.suffix not in (".pt", ".ckpt")):
        return None
    for library, files in EXPORTED.items():
        if _has(folder, files):
            return f"{library} cannot be imported: use the run that the folder was exported from"
    for library, alternatives in IMPORTED.items():
        if any(_has(folder, files) for files in alternatives):
            return f"this is a model of {library}: regard import {shlex.quote(str(path))} RUN"
    return None


def _has(folder: Path, files: tuple[str, ...]) -> bool:
    return all(any(folder.glob(name)) for name in files)

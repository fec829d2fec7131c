"""Regard trains, inspects and serves attention-based sequence models.

    import regard

    model = regard.load("runs/m30k")
    model("A dog runs.")
    regard.inspect("runs/m30k", "A dog runs.").show()

Importing this package is cheap and has no side effects: no torch, threads, loggers, signal handlers or seeds.
Functions that need torch are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from regard.core import VERSION
from regard.errors import ConfigError, DataError, ModelError, RegardError, StorageError, TrainingError

if TYPE_CHECKING:
    from regard.inspection.inspector import inspect
    from regard.tasks.check import check
    from regard.tasks.evaluate import evaluate
    from regard.tasks.load import load
    from regard.training.start import train

__all__ = [
    "ConfigError",
    "DataError",
    "ModelError",
    "RegardError",
    "StorageError",
    "TrainingError",
    "check",
    "evaluate",
    "inspect",
    "load",
    "train",
]

__version__ = VERSION

_FETCHED_ON_FIRST_USE = {
    "check": "regard.tasks.check",
    "evaluate": "regard.tasks.evaluate",
    "inspect": "regard.inspection.inspector",
    "load": "regard.tasks.load",
    "train": "regard.training.start",
}


def __getattr__(name: str) -> object:
    if name not in _FETCHED_ON_FIRST_USE:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_FETCHED_ON_FIRST_USE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_FETCHED_ON_FIRST_USE])

"""The ranks that share a command's work, where torchrun or a scheduler started it as one of several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.training.ranks import ProcessGroup


@contextmanager
def several_ranks(refused: Mapping[str, Any] | None = None) -> Iterator[ProcessGroup | None]:
    """Meet the other ranks for the block; None for a command that works alone, which imports nothing of this.

    ``refused``: options that only one process takes, by name. ConfigError for one that is given.
    """
    if "RANK" not in os.environ:
        yield None
        return
    for name, value in (refused or {}).items():
        if value is not None:
            raise ConfigError("this option is of one process", where=f"--{name}", why="several ranks share this work")
    from regard.training.ranks import joined

    with joined() as peers:
        yield peers

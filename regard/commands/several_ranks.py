"""The process group of a command that torchrun or a scheduler started as several processes."""

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
    """Join the other ranks for the block; yield None for a single process, without importing ``torch.distributed``.

    Args:
        refused: the values of options, by name, that several processes do not support.

    Raises:
        ConfigError: if several processes run and one of these options is set.
    """
    if "RANK" not in os.environ:
        yield None
        return
    for name, value in (refused or {}).items():
        if value is not None:
            why = "several ranks share the work"
            raise ConfigError("this option requires a single process", where=f"--{name}", why=why)
    from regard.training.ranks import joined

    with joined() as peers:
        yield peers

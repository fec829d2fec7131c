"""The run-time check of shapes and types in signatures, under pytest only."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

__all__ = ["check"]

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is welcome where a float is asked for

"""Training and validation data of one file of examples: files that are given, or a tenth of it held out by a hash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["held_out_parts"]

_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


def held_out_parts(
    file: Path, valid: Sequence[Path], *, examples: str, hashed: str
) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Tables ``train`` and ``valid`` of the data in a config, and the reason in words.

    ``valid``: files to validate on. ``examples``: their name, in the plural; ``hashed``: what of them the hash is of.
    """
    source = str(file)
    if valid:
        given = [{"source": str(each)} for each in valid]
        return {"train": [{"source": source}], "valid": given}, f"validates on the {examples} given"
    parts = {name: [{"source": source, "share": share}] for name, share in _SHARES.items()}
    return parts, f"no validation {examples} given: a tenth of them is held out, by a hash of {hashed}"

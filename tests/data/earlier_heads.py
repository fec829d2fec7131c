"""Heads as earlier versions wrote them: sizes one by one, in the place of a table of arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_earlier_head(path: Path, **changes: Any) -> None:
    """Rewrite the head of a prepared folder as earlier versions wrote it, with changes."""
    path.write_text(json.dumps(earlier_head(path) | changes, indent=1) + "\n", encoding="utf-8")


def earlier_head(path: Path) -> dict[str, Any]:
    """Return the head of a prepared folder as earlier versions wrote it."""
    head: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "arrays" not in head:
        return head
    arrays = head.pop("arrays")
    tokens = arrays.get("source") or arrays["tokens"]
    head["dtype"] = tokens["dtype"]
    if path.name == "corpus.json":
        head |= {f"{side}_tokens": arrays[side]["positions"] for side in ("source", "target")}
    else:
        head["tokens"] = tokens["positions"]
    if path.name == "documents.json":
        head["documents"] = tokens["rows"]
    return head

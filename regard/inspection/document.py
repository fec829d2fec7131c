"""What a model did with one text, whole: for the page, for a file, and for Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.atomic_files import json_bytes, replacing, write_bytes_atomically
from regard.errors import ConfigError
from regard.inspection.page import offline

__all__ = ["Inspection"]


@dataclass(frozen=True)
class Inspection:
    """``document`` is all of it, as JSON has it; ``attention`` the weights (heads, query, key) by name.

    In a notebook, the last value of a cell shows itself; so does ``show()``.
    """

    document: dict[str, Any]
    attention: dict[str, Tensor] = field(repr=False)

    @property
    def text(self) -> str:
        return str(self.document["target"]["text"])

    def measures(self) -> dict[str, dict[str, list[float]]]:
        """By attention, by name of the measure (``regard.inspection.measures``), that of each head."""
        return {name: dict(each["measures"]) for name, each in self.document["attention"].items()}

    def alignment(self) -> list[tuple[int, int, float]]:
        """Target piece, source piece, weight: for each target piece the source piece that the chosen head looks at."""
        found = self.document["alignment"]
        return [(target, source, weight) for target, source, weight in found["links"]] if found else []

    def to_html(self) -> str:
        """One file with the page and this in it: needs no server and no network."""
        return offline({"main": self.document})

    def save(self, path: str | Path) -> None:
        """``.html``, ``.json`` or ``.npz`` (weights by name; pieces as JSON in ``document``)."""
        path = Path(path)
        if path.suffix == ".html":
            write_bytes_atomically(path, self.to_html().encode())
        elif path.suffix == ".json":
            write_bytes_atomically(path, json_bytes(self.document))
        elif path.suffix == ".npz":
            small = {key: value for key, value in self.document.items() if key not in ("attention", "vectors")}
            arrays: dict[str, Any] = {name: weights.numpy() for name, weights in self.attention.items()}
            with replacing(path) as file:
                np.savez_compressed(file, document=np.array(json.dumps(small, ensure_ascii=False)), **arrays)
        else:
            raise ConfigError(f"{path.name} is of no known kind", help="end it in .html, .json or .npz")

    def show(self, height: int = 900) -> Any:
        """The page in a notebook, in a frame of its own."""
        from html import escape

        from IPython.display import HTML

        return HTML(f'<iframe srcdoc="{escape(self.to_html())}" width="100%" height="{height}"></iframe>')

    def _repr_html_(self) -> str:
        return str(self.show().data)

"""The result of an inspection, for the page, for files, and for Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.atomic_files import json_bytes, replacing, write_bytes_atomically
from regard.errors import ConfigError
from regard.inspection.page import offline

__all__ = ["Inspection", "PageDocument"]


@dataclass(frozen=True)
class PageDocument:
    """One input as the page draws it, of any task; the last value of a notebook cell is displayed as the page."""

    document: dict[str, Any]  # the JSON document that the page draws
    attention: Mapping[str, Tensor] = field(repr=False)  # weights (heads, query, key) by name

    def to_html(self) -> str:
        """The page with this document as one HTML file, which needs no server and no network."""
        return offline({"main": self.document})

    def save(self, path: str | Path) -> None:
        """Save as ``.html``, ``.json`` or ``.npz`` (weights by name, and the document's other fields as JSON)."""
        path = Path(path)
        if path.suffix == ".html":
            write_bytes_atomically(path, self.to_html().encode())
        elif path.suffix == ".json":
            write_bytes_atomically(path, json_bytes(self.document))
        elif path.suffix == ".npz":
            small = {key: value for key, value in self.document.items() if key not in ("attention", "vectors")}
            arrays: dict[str, Any] = {name: weights.detach().cpu().numpy() for name, weights in self.attention.items()}
            with replacing(path) as file:
                np.savez_compressed(file, document=np.array(json.dumps(small, ensure_ascii=False)), **arrays)
        else:
            raise ConfigError(f"the format of {path.name} is unknown", help="end it in .html, .json or .npz")

    def show(self, height: int = 900) -> Any:
        """The page as an HTML frame for a notebook; ``height`` in pixels."""
        from html import escape

        from IPython.display import HTML

        return HTML(f'<iframe srcdoc="{escape(self.to_html())}" width="100%" height="{height}"></iframe>')

    def _repr_html_(self) -> str:
        return str(self.show().data)


@dataclass(frozen=True)
class Inspection(PageDocument):
    """Everything recorded of one sentence that was translated."""

    @property
    def text(self) -> str:
        """The inspected output."""
        return str(self.document["target"]["text"])

    def measures(self) -> dict[str, dict[str, list[float]]]:
        """Values per head, by attention and by name of the measure (``regard.inspection.measures``)."""
        return {name: dict(each["measures"]) for name, each in self.document["attention"].items()}

    def alignment(self) -> list[tuple[int, int, float]]:
        """Links (target position, source position, weight), from the head that aligns best."""
        found = self.document["alignment"]
        return [(target, source, weight) for target, source, weight in found["links"]] if found else []

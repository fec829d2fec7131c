"""The result of an inspection, for the page, for files, and for Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from regard.core.atomic_files import json_bytes, replacing, write_bytes_atomically
from regard.core.observation import Observation
from regard.errors import ConfigError
from regard.inspection.observation_document import observation_document
from regard.inspection.page import offline

if TYPE_CHECKING:
    from regard.inspection.pictures import Picture


@dataclass(frozen=True)
class Inspection:
    """One input of a model of any task; the last value of a notebook cell is displayed as the page.

    Attributes:
        document: the JSON document that the page draws (``observation_document``).
        observation: the same as Python objects.
    """

    document: dict[str, Any]
    observation: Observation = field(repr=False)

    @classmethod
    def of(cls, observation: Observation, model: Mapping[str, Any], text: str) -> Inspection:
        """Return the inspection of an observation; see ``observation_document``."""
        return cls(observation_document(observation, model, text), observation)

    @property
    def attention(self) -> dict[str, Tensor]:
        """Weights (heads, query, key) by place, such as ``encoder.0.self``."""
        return {attention.place: attention.weights for attention in self.observation.attention}

    @property
    def text(self) -> str:
        """The output of a search, otherwise the input."""
        search = self.document.get("search")
        return str(search["output"] if search else self.document["text"])

    def measures(self) -> dict[str, dict[str, list[float]]]:
        """Return the values of all heads, by attention and by name of the measure (``regard.inspection.measures``)."""
        return {place: dict(entry["measures"]) for place, entry in self.document["attention"].items()}

    def alignment(self) -> list[tuple[int, int, float]]:
        """Return links (target position, source position, weight) of the head that aligns best; [] without one."""
        alignment = self.document.get("alignment")
        return [(target, source, weight) for target, source, weight in alignment["links"]] if alignment else []

    def to_html(self) -> str:
        """Return the page with this document as one HTML file, which needs no server and no network."""
        return offline({"main": self.document})

    def save(self, path: str | Path) -> None:
        """Save as ``.html``, ``.json`` or ``.npz`` (weights by place, and the document's other fields as JSON)."""
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

    def draw(self, path: str | Path, show: Picture | None = None, head: str | None = None) -> None:
        """Draw a picture to a ``.svg`` or ``.png`` file; requires matplotlib.

        Args:
            path: the file.
            show: the picture; None: the influence of each piece if it was computed, otherwise the attention.
            head: the layer, or LAYER:N for one head; None: the pooling, otherwise the mean of the last layer.

        Raises:
            ConfigError: if the inspection does not have this picture, or matplotlib is not installed.
        """
        from regard.inspection.pictures import save_picture

        save_picture(self.observation, self.document, Path(path), show, head)

    def show(self, height: int = 900) -> Any:
        """Return the page as an HTML frame for a notebook; ``height`` in pixels."""
        from html import escape

        from IPython.display import HTML

        return HTML(f'<iframe srcdoc="{escape(self.to_html())}" width="100%" height="{height}"></iframe>')

    def _repr_html_(self) -> str:
        return str(self.show().data)

"""Pages of the docs site from the notebooks: cells as Markdown, pictures as files; a test keeps them current."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.papers import linked

__all__ = ["files", "write"]

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials" / "notebooks"
DOWNLOAD = "[Download the notebook]({name}.ipynb) to run and change it: [notebooks](../notebooks.md) has the commands."
FORMULA = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE | re.DOTALL)
TO_NOTEBOOK = re.compile(r"(\]\([^)\s]*)\.ipynb\)")


def files() -> dict[Path, bytes]:
    """Return the contents of all pages and pictures by path."""
    written: dict[Path, bytes] = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        pictures: list[bytes] = []
        heading = ""
        parts: list[str] = []
        for cell in cells:
            heading = _heading(cell) or heading
            parts += _parts(cell, path.stem, heading, pictures)
        parts.insert(1, DOWNLOAD.format(name=path.stem))  # below the title
        written[path.with_suffix(".md")] = ("\n\n".join(parts) + "\n").encode()
        written |= {FOLDER / _name(path.stem, number): data for number, data in enumerate(pictures, 1)}
    return written


def write() -> None:
    """Write the pages and pictures, and remove those without a notebook."""
    written = files()
    for old in {*FOLDER.glob("*.md"), *FOLDER.glob("*.png")} - written.keys():
        old.unlink()
    for path, data in written.items():
        path.write_bytes(data)


def _heading(cell: dict[str, Any]) -> str:
    """Return the last heading of a Markdown cell; empty if it has none."""
    if cell["cell_type"] != "markdown":
        return ""
    headings = re.findall(r"^#+ (.+)$", "".join(cell["source"]), re.MULTILINE)
    return headings[-1] if headings else ""


def _parts(cell: dict[str, Any], notebook: str, heading: str, pictures: list[bytes]) -> Iterator[str]:
    """Yield the Markdown of a cell and of its outputs; their pictures are appended to ``pictures``."""
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        text = TO_NOTEBOOK.sub(r"\1.md)", source).replace("<details>", '<details markdown="1">')
        text = linked(FORMULA.sub(r"```math\n\1\n```", text))
        yield from text.split("\n\n", 1) if text.startswith("# ") else [text]
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        picture = output.get("data", {}).get("image/png")
        if picture is not None:
            pictures.append(base64.b64decode(_joined(picture)))
            yield f"![Output of the code: {heading}]({_name(notebook, len(pictures))})"
        elif text := _joined(output.get("text", output.get("data", {}).get("text/plain", ""))).rstrip():
            yield f"```text\n{text}\n```"


def _joined(lines: str | Iterable[str]) -> str:
    return "".join(lines)


def _name(notebook: str, number: int) -> str:
    return f"{notebook}_{number}.png"


if __name__ == "__main__":
    write()

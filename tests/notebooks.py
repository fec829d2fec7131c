"""Runs docs/tutorials/notebooks in a process of their own; as a program, saves them with their new outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

__all__ = ["NOTEBOOKS", "executed"]

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh kernel; ``CellExecutionError`` where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    return notebook


def strip(notebook: NotebookNode) -> NotebookNode:
    """Without what changes from run to run or from machine to machine and says nothing."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"language_info": {"name": "python"}, "kernelspec": kernel}
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS:
        nbformat.write(strip(executed(path)), path)

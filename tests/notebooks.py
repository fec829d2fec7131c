"""Runs docs/tutorials/notebooks in a process of their own; as a program, saves them with their new outputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

__all__ = ["NOTEBOOKS", "executed"]

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path, scratch: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh kernel; ``CalledProcessError`` where a cell fails."""
    output = scratch / path.stem
    command = [sys.executable, "-m", "jupyter", "execute", path, f"--output={output}"]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return nbformat.read(output.with_suffix(".ipynb"), as_version=4)


def strip(notebook: NotebookNode) -> NotebookNode:
    """Without what changes from run to run or from machine to machine and says nothing."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"language_info": {"name": "python"}, "kernelspec": kernel}
    return notebook


if __name__ == "__main__":
    import tempfile

    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(strip(executed(path, Path(folder))), path)
